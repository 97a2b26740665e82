// What scripts show beside what they print.
import type { Shown } from './backend.ts';

const TEXTS = ['application/json', 'application/javascript', 'application/xml'];

/** Whether data of a media type is text. */
export function isText(type: string): boolean {
  return type.startsWith('text/') || type.endsWith('+json') || type.endsWith('+xml') || TEXTS.includes(type);
}

/** Bytes as base64. */
function toBase64(bytes: Uint8Array): string {
  let text = '';
  // As many arguments as a call takes.
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/**
 * One thing that a script has shown, in one or several forms by media type, of which a reader takes the one it can show best.
 *
 * All of it is the script's and may be anything: an HTML page with scripts in it, or no picture at all under `image/png`. Show it as you would
 * what a stranger has sent, such as in a frame with `sandbox`.
 */
export class Display {
  /** Whether it is the value of the script's last expression, and not of a call of `display`. */
  readonly isResult: boolean;
  /** Its forms by media type: texts as strings, everything else as bytes. */
  readonly data: ReadonlyMap<string, string | Uint8Array>;

  /** Made by `Run.displays`. */
  constructor({ isResult, forms }: Shown) {
    this.isResult = isResult;
    this.data = new Map(forms.map(([type, data]) => [type, isText(type) ? new TextDecoder().decode(data) : data]));
  }

  /** As notebooks store it: bytes as base64. */
  bundle(): Record<string, string> {
    const encoded = [...this.data].map(([type, data]) => [type, typeof data === 'string' ? data : toBase64(data)]);
    return Object.fromEntries(encoded);
  }

  #text(type: string): string | undefined {
    const data = this.data.get(type);
    return typeof data === 'string' ? data : undefined;
  }

  #bytes(type: string): Uint8Array | undefined {
    const data = this.data.get(type);
    return data instanceof Uint8Array ? data : undefined;
  }

  /** Its `text/plain`. */
  get text(): string | undefined {
    return this.#text('text/plain');
  }

  /** Its `text/html`. */
  get html(): string | undefined {
    return this.#text('text/html');
  }

  /** Its `text/markdown`. */
  get markdown(): string | undefined {
    return this.#text('text/markdown');
  }

  /** Its `image/svg+xml`. */
  get svg(): string | undefined {
    return this.#text('image/svg+xml');
  }

  /** Its `image/png`. */
  get png(): Uint8Array | undefined {
    return this.#bytes('image/png');
  }

  /** Its `image/jpeg`. */
  get jpeg(): Uint8Array | undefined {
    return this.#bytes('image/jpeg');
  }

  /** Its `application/json`, as text. */
  get json(): string | undefined {
    return this.#text('application/json');
  }
}
