// The output of a script, shown while the script runs.
import type { Done, Execution, Piece } from '../backend/backend.ts';
import { Ansi } from './ansi.ts';
import { displayOf } from './displays.ts';
import { download, h } from './dom.ts';
import { bytes, duration, plural } from './format.ts';
import { type Problem, sentence } from '../backend/problem.ts';

/** Maximum length of the shown text, in characters: longer text slows browsers down. The download is complete. */
const MAX_CHARS = 300_000;
const MAX_DISPLAYS = 200;

/** The output panel, which shows one run after another. */
export class Output {
  readonly #root: HTMLElement;
  readonly #status: HTMLElement;
  #text = h('pre');
  #ansi = { stdout: new Ansi(), stderr: new Ansi() };
  #streamed = { stdout: '', stderr: '' };
  #waiting: Piece[] = [];
  #frame = 0;
  #shownChars = 0;
  #hiddenChars = 0;
  #urls: string[] = [];

  /** Creates the panel. Screen readers announce changes of `status`. */
  constructor(root: HTMLElement, status: HTMLElement) {
    this.#root = root;
    this.#status = status;
    this.#root.append(h('p', { class: 'placeholder' }, 'Output and displays of the script appear here.'));
  }

  /** Clears the panel for the next run. */
  begin(note: string): void {
    for (const url of this.#urls) URL.revokeObjectURL(url);
    cancelAnimationFrame(this.#frame);
    this.#urls = [];
    this.#waiting = [];
    this.#frame = this.#shownChars = this.#hiddenChars = 0;
    this.#ansi = { stdout: new Ansi(), stderr: new Ansi() };
    this.#streamed = { stdout: '', stderr: '' };
    this.#text = h('pre', { class: 'text' });
    this.#root.replaceChildren(this.#text);
    this.#say('running', note);
  }

  /** Shows a piece of output, together with all pieces that arrive before the next frame. */
  add(piece: Piece): void {
    this.#streamed[piece.stream] += piece.text;
    this.#waiting.push(piece);
    this.#frame ||= requestAnimationFrame(() => this.#flush());
  }

  #flush(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const isAtEnd = this.#root.scrollHeight - this.#root.scrollTop - this.#root.clientHeight < 40;
    for (const { stream, text } of this.#waiting) {
      const left = Math.max(0, MAX_CHARS - this.#shownChars);
      this.#shownChars += Math.min(left, text.length);
      this.#hiddenChars += Math.max(0, text.length - left);
      for (const { text: part, classes } of this.#ansi[stream].next(text.slice(0, left))) {
        const all = [stream === 'stderr' && 'stderr', classes].filter(Boolean).join(' ');
        this.#text.append(all === '' ? part : h('span', { class: all }, part));
      }
    }
    this.#waiting = [];
    if (isAtEnd) this.#root.scrollTop = this.#root.scrollHeight;
  }

  /** Shows the outcome of a run, its remaining output, its displays and its files. */
  end({ execution, filesLeftOut }: Done): void {
    const { stdout, stderr } = execution;
    if (stdout !== this.#streamed.stdout || stderr !== this.#streamed.stderr) this.#again(execution);
    this.#flush();
    if (this.#hiddenChars > 0) {
      const all = (): void => download('output.txt', stdout + stderr);
      const text = `${plural(this.#hiddenChars, 'further character')} not shown. `;
      this.#note(text, h('button', { type: 'button', class: 'link', on: { click: all } }, 'Download the whole output'));
    }
    const truncated = (['stdout', 'stderr'] as const).filter((name) => execution[`${name}_truncated`]);
    if (truncated.length > 0) this.#note(`The script wrote more to ${truncated.join(' and ')} than its limit; the rest was dropped.`);
    for (const display of execution.displays.slice(0, MAX_DISPLAYS)) this.#root.append(displayOf(display.data, (url) => this.#urls.push(url)));
    const notShown = execution.displays_dropped + Math.max(0, execution.displays.length - MAX_DISPLAYS);
    if (notShown > 0) this.#note(`${plural(notShown, 'display')} not shown: the limit was reached.`);
    // A value with a form other than text is among the displays.
    if (execution.value && !execution.displays.some((display) => display.is_result)) {
      this.#root.append(h('pre', { class: 'value', 'aria-label': 'Value of the last expression' }, cut(execution.value.repr)));
    }
    const lost = execution.rolled_back_to?.executions_lost ?? 0;
    if (execution.rolled_back_to) this.#note(lost > 0 ? `The session was rolled back; ${plural(lost, 'earlier run')} lost.` : 'The session was rolled back to its state before this run.');
    if (filesLeftOut > 0) this.#note(`${plural(filesLeftOut, 'file')} not returned: the files exceed 32 MiB in total.`);
    this.#advise(execution);
    if (this.#root.textContent === '' && execution.displays.length === 0) this.#note('The script wrote nothing.');
    this.#say(execution.success ? 'success' : 'failure', outcomeText(execution));
  }

  /** Shows the problem that prevented a run. */
  fail(problem: Problem): void {
    this.#flush();
    const isStop = problem.kind === 'cancelled';
    if (!isStop) {
      this.#root.append(h('div', { class: 'problem', role: 'alert' }, h('strong', {}, problem.title), h('p', {}, cut(sentence(problem)))));
    }
    this.#say(isStop ? 'stopped' : 'failure', isStop ? 'Stopped' : problem.title);
  }

  /** Shows the output of the result, which is more complete than the streamed output. */
  #again({ stdout, stderr }: Execution): void {
    this.#waiting = [];
    this.#shownChars = this.#hiddenChars = 0;
    this.#ansi = { stdout: new Ansi(), stderr: new Ansi() };
    this.#text.replaceChildren();
    if (stdout !== '') this.add({ stream: 'stdout', text: stdout });
    if (stderr !== '') this.add({ stream: 'stderr', text: stderr });
  }

  #advise({ guidance }: Execution): void {
    for (const each of guidance?.advice ?? []) {
      const [problem, solution] = [each['problem'], each['solution']];
      if (typeof problem !== 'string' || typeof solution !== 'string') continue;
      this.#root.append(h('div', { class: 'advice' }, h('strong', {}, cut(problem)), h('p', {}, cut(solution))));
    }
  }

  #note(...parts: (Node | string)[]): void {
    this.#root.append(h('p', { class: 'note' }, ...parts));
  }

  #say(state: string, text: string): void {
    this.#status.dataset['state'] = state;
    this.#status.textContent = text;
  }
}

/** Truncates a value or a message to a readable length. */
function cut(text: string): string {
  return text.length > 20_000 ? `${text.slice(0, 20_000)} …` : text;
}

const RESOURCES: Record<string, string> = { fuel: 'fuel', time: 'time', 'wall-clock': 'time', memory: 'memory' };

/** Describes an outcome in a few words. */
function outcomeText({ outcome }: Execution): string {
  switch (outcome.kind) {
    case 'completed':
      return 'Completed';
    case 'exited':
      return `Exited with ${String(outcome['code'])}`;
    case 'raised':
      return cutShort(String(outcome['type'] || 'An exception'));
    case 'exhausted': {
      const [resource, limit] = [String(outcome['resource']), Number(outcome['limit'])];
      const name = RESOURCES[resource] ?? resource;
      const amount = name === 'time' ? duration(limit) : name === 'memory' ? bytes(limit) : limit.toLocaleString('en');
      return `Out of ${name}: the limit is ${amount}`;
    }
    case 'cancelled':
      return 'Stopped';
    case 'trapped':
      return `Trapped: ${cutShort(String(outcome['trap']))}`;
    default:
      return cutShort(outcome.kind);
  }
}

function cutShort(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
