// The displays of scripts: objects that they show in addition to their printed output.
import type { BackendDisplay } from './backend.ts';

const TEXTS = ['application/json', 'application/javascript', 'application/xml'];

/** Returns `true` if data of a media type is text. */
export function isText(type: string): boolean {
  return type.startsWith('text/') || type.endsWith('+json') || type.endsWith('+xml') || TEXTS.includes(type);
}

function toBase64(bytes: Uint8Array): string {
  let text = '';
  // Converts the bytes in chunks, because the number of arguments of a call is limited.
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/**
 * An object that a script displayed, in one or more forms by media type. A client renders the form that suits it best.
 *
 * The content is untrusted: an HTML page may contain scripts, and `image/png` might not be an image. Render it like any
 * untrusted data, for example in a frame with `sandbox`.
 */
export class Display {
  /** `true` for the value of the script's last expression, `false` for a call to `display`. */
  readonly isResult: boolean;
  /** The forms by media type: text as strings, other data as bytes. */
  readonly data: ReadonlyMap<string, string | Uint8Array>;

  /** Use `Run.displays` to obtain instances. */
  constructor({ isResult, forms }: BackendDisplay) {
    this.isResult = isResult;
    this.data = new Map(forms.map(([type, data]) => [type, isText(type) ? new TextDecoder().decode(data) : data]));
  }

  /** Returns the forms as notebooks store them, with bytes as base64. */
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

  /** The `text/plain` form. */
  get text(): string | undefined {
    return this.#text('text/plain');
  }

  /** The `text/html` form. */
  get html(): string | undefined {
    return this.#text('text/html');
  }

  /** The `text/markdown` form. */
  get markdown(): string | undefined {
    return this.#text('text/markdown');
  }

  /** The `image/svg+xml` form. */
  get svg(): string | undefined {
    return this.#text('image/svg+xml');
  }

  /** The `image/png` form. */
  get png(): Uint8Array | undefined {
    return this.#bytes('image/png');
  }

  /** The `image/jpeg` form. */
  get jpeg(): Uint8Array | undefined {
    return this.#bytes('image/jpeg');
  }

  /** The `application/json` form, as text. */
  get json(): string | undefined {
    return this.#text('application/json');
  }
}
