// Converts text with terminal escape sequences: keeps colours and weight, and removes all other sequences.

/** Text with uniform style. */
export interface Run {
  text: string;
  /** The CSS classes of the style. */
  classes: string;
}

const COLOURS = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
/** Maximum length of a buffered incomplete sequence, in characters. Every supported sequence is shorter. */
const MAX_SEQUENCE_CHARS = 256;

/** A complete sequence: CSI, OSC (to its end), or two characters. */
const SEQUENCE = /\u001b(?:\[([0-?]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_a-z0-9=>])/y;
/** Invisible control characters. */
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

/** A parser of a text stream that arrives in pieces. A sequence may be split between two pieces. */
export class Ansi {
  #rest = '';
  #foreground: string | undefined;
  #isBold = false;
  #isDim = false;
  #isItalic = false;
  #isUnderlined = false;

  /** Parses the next piece. */
  next(piece: string): Run[] {
    const text = this.#rest + piece;
    this.#rest = '';
    const runs: Run[] = [];
    let from = 0;
    while (from < text.length) {
      const at = text.indexOf('\u001b', from);
      this.#push(runs, text.slice(from, at === -1 ? text.length : at));
      if (at === -1) break;
      SEQUENCE.lastIndex = at;
      const found = SEQUENCE.exec(text);
      if (found) {
        if (found[2] === 'm') this.#style(found[1] ?? '');
        from = SEQUENCE.lastIndex;
      } else if (text.length - at < MAX_SEQUENCE_CHARS && !text.slice(at).includes('\n')) {
        this.#rest = text.slice(at);
        break;
      } else {
        from = at + 1;
      }
    }
    return runs;
  }

  #push(runs: Run[], text: string): void {
    const shown = text.replace(/\r\n?/g, '\n').replace(CONTROLS, '');
    if (shown === '') return;
    const classes = [
      this.#foreground && `ansi-${this.#foreground}`,
      this.#isBold && 'ansi-bold',
      this.#isDim && 'ansi-dim',
      this.#isItalic && 'ansi-italic',
      this.#isUnderlined && 'ansi-underline',
    ];
    runs.push({ text: shown, classes: classes.filter(Boolean).join(' ') });
  }

  #style(parameters: string): void {
    const codes = parameters.split(/[;:]/).map(Number);
    for (let at = 0; at < codes.length; at += 1) {
      const code = codes[at] ?? 0;
      if (code === 0) {
        this.#foreground = undefined;
        this.#isBold = this.#isDim = this.#isItalic = this.#isUnderlined = false;
      } else if (code === 1) this.#isBold = true;
      else if (code === 2) this.#isDim = true;
      else if (code === 3) this.#isItalic = true;
      else if (code === 4) this.#isUnderlined = true;
      else if (code === 22) this.#isBold = this.#isDim = false;
      else if (code === 23) this.#isItalic = false;
      else if (code === 24) this.#isUnderlined = false;
      else if (code >= 30 && code <= 37) this.#foreground = COLOURS[code - 30];
      else if (code >= 90 && code <= 97) this.#foreground = COLOURS[code - 90];
      else if (code === 39) this.#foreground = undefined;
      // Skips the parameters of the selectors for 256 colours and for 16 million colours.
      else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4;
    }
  }
}
