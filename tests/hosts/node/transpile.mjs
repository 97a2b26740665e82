// Converts a component to JavaScript modules: `node transpile.mjs COMPONENT DIRECTORY`. The modules can be instantiated
// any number of times and have no imports. The component's type declarations are next to them.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { transpileBytes } from '@bytecodealliance/jco-transpile';

const [component, directory] = process.argv.slice(2);
const { files } = await transpileBytes(await readFile(component), {
  name: 'component',
  instantiation: 'async',
  // Each interpreter has its own memory in addition to the shim's.
  multiMemory: true,
  // Scripts that exceed a limit are unwound with a WebAssembly exception.
  bindgenEnableWasmExnref: true,
  outDir: directory,
});
await rm(directory, { recursive: true, force: true });
// Writes the entry module last, so that all files that it loads exist first.
const isEntry = (name) => name.endsWith('/component.js');
for (const [name, bytes] of Object.entries(files).sort(([a], [b]) => isEntry(a) - isEntry(b))) {
  await mkdir(dirname(name), { recursive: true });
  await writeFile(name, bytes);
}
