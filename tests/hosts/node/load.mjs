// An instance of a component that `transpile.mjs` made JavaScript modules of.
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { WASIShim } from '@bytecodealliance/preview2-shim/instantiation';

// Gives a function that makes instances, each with nothing of the others; what is compiled is compiled once.
export async function load(directory) {
  const { instantiate } = await import(pathToFileURL(resolve(directory, 'component.js')));
  const compiled = new Map();
  const compile = (name) => {
    if (!compiled.has(name)) compiled.set(name, readFile(join(directory, name)).then((bytes) => WebAssembly.compile(bytes)));
    return compiled.get(name);
  };
  return (imports = {}) => instantiate(compile, { ...new WASIShim().getImportObject(), ...imports });
}
