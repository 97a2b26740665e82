// Loads a provider's modules from the first of several directories whose files have the expected hashes.
import { errorOf } from '../errors.ts';
import { type Provider, type ProviderModule, providerOf } from './provider.ts';

/** A provider's modules, which are compiled once and can be sent to any number of workers. */
export interface Parts {
  /** The URL of the JavaScript module that jco generated. */
  module: string;
  /** The WebAssembly modules, by the names that the JavaScript module uses. */
  compiled: Map<string, WebAssembly.Module>;
}

/** The locations of a provider's files, and the expected hashes. */
export interface Source {
  name: string;
  /** The locations, in the order in which they are tried. */
  places: readonly Place[];
  /** The expected hash of each file, by file name; `undefined` disables the check. */
  integrity: Readonly<Record<string, string>> | undefined;
  /** True if the module belongs to this package and is imported from its location. */
  isOwn: boolean;
  read: (url: string) => Promise<Uint8Array>;
}

/** A location of a provider's files. */
export interface Place {
  /** The location's name in messages. */
  name: string;
  /** Returns the URL of a file. */
  url(file: string): string;
}

const MODULE = 'component.js';
const loaded = new Map<string, Promise<Parts>>();

/** Loads a provider's modules. Returns the same modules if they are already loaded. */
export function loadParts(source: Source): Promise<Parts> {
  const key = JSON.stringify([source.name, source.places.map(({ name }) => name), source.integrity, source.isOwn]);
  const known = loaded.get(key);
  if (known) return known;
  const made = load(source);
  loaded.set(key, made);
  made.catch(() => loaded.delete(key));
  return made;
}

async function load(source: Source): Promise<Parts> {
  if (!WebAssembly.validate(FEATURES)) {
    const who = 'use Node.js 24, Chrome 137, Firefox 131 or later';
    throw errorOf('UnavailableError', `this JavaScript engine does not support WebAssembly exceptions with references, or multiple memories; ${who}`);
  }
  const failures: string[] = [];
  for (const place of source.places) {
    try {
      return await loadFrom(place, source);
    } catch (error) {
      failures.push(`${place.name}: ${error instanceof Error ? error.message : error}`);
    }
  }
  throw errorOf('UnavailableError', `the component \`${source.name}\` cannot be loaded from ${failures.join('; or from ')}`);
}

/**
 * A module that is valid only if exceptions and multiple memories are supported:
 * `(module (memory 0) (memory 0) (func (drop (block (result exnref) (try_table (catch_all_ref 0)) unreachable))))`
 */
const FEATURES = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 5, 5, 2, 0, 0, 0, 0],
  ...[0x0a, 0x0f, 1, 0x0d, 0, 2, 0x69, 0x1f, 0x40, 1, 3, 0, 0x0b, 0, 0x0b, 0x1a, 0x0b],
);

async function loadFrom(place: Place, source: Source): Promise<Parts> {
  const file = async (name: string): Promise<Uint8Array<ArrayBuffer>> => {
    const bytes = Uint8Array.from(await source.read(place.url(name)));
    await verify(name, bytes, source.integrity);
    return bytes;
  };
  const bytes = await file(MODULE);
  const text = new TextDecoder().decode(bytes);
  const names = [...new Set(text.match(/component\.core\d*\.wasm/g))];
  const compiled = await Promise.all(names.map(async (name) => [name, await WebAssembly.compile(await file(name))] as const));
  // Imports the verified bytes through a data URL, because fetching the URL again could return other bytes. The
  // package's own module is imported from its location.
  const module = source.isOwn ? place.url(MODULE) : `data:text/javascript;base64,${base64(bytes)}`;
  return { module, compiled: new Map(compiled) };
}

async function verify(name: string, bytes: Uint8Array<ArrayBuffer>, integrity: Source['integrity']): Promise<void> {
  if (!integrity) return;
  const expected = integrity[name];
  if (expected === undefined) throw new Error(`integrity: no hash for \`${name}\`; add one`);
  const [algorithm = ''] = expected.split('-', 1);
  const bits = /^sha(256|384|512)$/.exec(algorithm)?.[1];
  if (bits === undefined) throw new Error(`integrity["${name}"] must begin with sha256-, sha384- or sha512-, not ${JSON.stringify(expected)}`);
  const actual = `${algorithm}-${base64(new Uint8Array(await crypto.subtle.digest(`SHA-${bits}`, bytes)))}`;
  if (actual !== expected) throw new Error(`the hash of \`${name}\` is ${actual}, expected ${expected}`);
}

function base64(bytes: Uint8Array): string {
  let text = '';
  const step = 0x8000;
  for (let at = 0; at < bytes.length; at += step) text += String.fromCharCode(...bytes.subarray(at, at + step));
  return btoa(text);
}

/** Creates a provider from its parts. */
export async function providerOfParts({ module, compiled }: Parts): Promise<Provider> {
  // Bundlers cannot resolve the module's URL. The magic comments tell them to leave the import unchanged.
  return compiledProvider((await import(/* webpackIgnore: true */ /* @vite-ignore */ module)) as ProviderModule, (name) => compiled.get(name));
}

/** Creates a provider from a module whose WebAssembly is already compiled. */
export function compiledProvider(module: ProviderModule, compiled: (name: string) => WebAssembly.Module | undefined): Provider {
  return providerOf(module, async (path) => {
    const found = compiled(path.split('/').at(-1) ?? path);
    if (!found) throw new Error(`the component needs \`${path}\`, which is not loaded; add it to provider.compiled`);
    return found;
  });
}
