// Instantiates a component that `transpile.mjs` converted to JavaScript modules.
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { WASIShim } from '@bytecodealliance/preview2-shim/instantiation';

// Returns a function that creates independent instances. The modules are compiled only once.
export async function load(directory) {
  const { instantiate } = await import(pathToFileURL(resolve(directory, 'component.js')));
  const compiled = new Map();
  const compile = (name) => {
    if (!compiled.has(name)) compiled.set(name, readFile(join(directory, name)).then((bytes) => WebAssembly.compile(bytes)));
    return compiled.get(name);
  };
  return (imports = {}) => instantiate(compile, { ...new WASIShim().getImportObject(), ...imports });
}
