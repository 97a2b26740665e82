// Makes JavaScript modules of a component: `node transpile.mjs COMPONENT DIRECTORY`. They are instantiated as often as wanted, and import
// nothing by themselves. The component's type declarations lie beside them.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { transpileBytes } from '@bytecodealliance/jco-transpile';

const [component, directory] = process.argv.slice(2);
const { files } = await transpileBytes(await readFile(component), {
  name: 'component',
  instantiation: 'async',
  // The interpreters have memories of their own beside the shim's.
  multiMemory: true,
  // One exception unwinds a script that is over a limit.
  bindgenEnableWasmExnref: true,
  outDir: directory,
});
await rm(directory, { recursive: true, force: true });
// The module last: whoever finds it finds what it loads.
const isEntry = (name) => name.endsWith('/component.js');
for (const [name, bytes] of Object.entries(files).sort(([a], [b]) => isEntry(a) - isEntry(b))) {
  await mkdir(dirname(name), { recursive: true });
  await writeFile(name, bytes);
}
