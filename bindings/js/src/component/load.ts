// Loads a provider: its modules from a directory, or from the first of several that has them as they should be.
import { errorOf } from '../errors.ts';
import { type Provider, type ProviderModule, providerOf } from './provider.ts';

/** A provider's parts, which can be sent to a worker: compiled once for all of them. */
export interface Parts {
  /** The URL of the module that jco made. */
  module: string;
  /** The WebAssembly, by the names that the module has for it. */
  compiled: Map<string, WebAssembly.Module>;
}

/** Where a provider's files are, and what they must be. */
export interface Source {
  /** The name of the provider. */
  name: string;
  /** Directories that are tried in their order. */
  urls: readonly string[];
  /** What the files must hash to, by their names; `undefined` holds them to nothing. */
  integrity: Readonly<Record<string, string>> | undefined;
  /** Whether the module is imported from where it lies: it is the package's own. */
  isOwn: boolean;
  /** Reads a file. */
  read: (url: string) => Promise<Uint8Array>;
}

const MODULE = 'component.js';
const loaded = new Map<string, Promise<Parts>>();

/** Loads it. Loading the same again gives the same. */
export function loadParts(source: Source): Promise<Parts> {
  const key = JSON.stringify([source.name, source.urls, source.integrity, source.isOwn]);
  const known = loaded.get(key);
  if (known) return known;
  const made = load(source);
  loaded.set(key, made);
  made.catch(() => loaded.delete(key));
  return made;
}

async function load(source: Source): Promise<Parts> {
  if (!WebAssembly.validate(EXCEPTIONS)) {
    const who = 'Node.js 24, Chrome 137, Firefox 131 and Safari 18.4 have them';
    throw errorOf('UnavailableError', `components need WebAssembly's exceptions with references, which this engine lacks; ${who}`);
  }
  const failures: string[] = [];
  for (const url of source.urls) {
    try {
      return await loadFrom(url, source);
    } catch (error) {
      failures.push(`${url}: ${error instanceof Error ? error.message : error}`);
    }
  }
  throw errorOf('UnavailableError', `the component \`${source.name}\` cannot be loaded from ${failures.join('; nor from ')}`);
}

/** `(module (func (drop (block (result exnref) (try_table (catch_all_ref 0)) unreachable))))` */
const EXCEPTIONS = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0],
  ...[0x0a, 0x0f, 1, 0x0d, 0, 2, 0x69, 0x1f, 0x40, 1, 3, 0, 0x0b, 0, 0x0b, 0x1a, 0x0b],
);

async function loadFrom(base: string, source: Source): Promise<Parts> {
  const file = async (name: string): Promise<Uint8Array<ArrayBuffer>> => {
    const bytes = Uint8Array.from(await source.read(new URL(name, base).href));
    await verify(name, bytes, source.integrity);
    return bytes;
  };
  const bytes = await file(MODULE);
  const text = new TextDecoder().decode(bytes);
  const names = [...new Set(text.match(/component\.core\d*\.wasm/g))];
  const compiled = await Promise.all(names.map(async (name) => [name, await WebAssembly.compile(await file(name))] as const));
  // What was verified is run, and not what another request might get.
  const module = source.isOwn ? new URL(MODULE, base).href : `data:text/javascript;base64,${base64(bytes)}`;
  return { module, compiled: new Map(compiled) };
}

async function verify(name: string, bytes: Uint8Array<ArrayBuffer>, integrity: Source['integrity']): Promise<void> {
  if (!integrity) return;
  const expected = integrity[name];
  if (expected === undefined) throw new Error(`integrity has nothing for \`${name}\``);
  const [algorithm = ''] = expected.split('-', 1);
  const bits = /^sha(256|384|512)$/.exec(algorithm)?.[1];
  if (bits === undefined) throw new Error(`integrity["${name}"] must begin with sha256-, sha384- or sha512-, not ${JSON.stringify(expected)}`);
  const actual = `${algorithm}-${base64(new Uint8Array(await crypto.subtle.digest(`SHA-${bits}`, bytes)))}`;
  if (actual !== expected) throw new Error(`\`${name}\` is ${actual}, and must be ${expected}`);
}

function base64(bytes: Uint8Array): string {
  let text = '';
  const step = 0x8000;
  for (let at = 0; at < bytes.length; at += step) text += String.fromCharCode(...bytes.subarray(at, at + step));
  return btoa(text);
}

/** The provider of its parts. */
export async function providerOfParts({ module, compiled }: Parts): Promise<Provider> {
  return providerOf((await import(module)) as ProviderModule, async (path) => {
    const found = compiled.get(path.split('/').at(-1) ?? path);
    if (!found) throw new Error(`the component asks for \`${path}\`, which was not loaded`);
    return found;
  });
}
