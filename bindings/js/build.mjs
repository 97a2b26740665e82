// Builds the package: `npm run build [PROVIDER.wasm…]`, by default of all that `guest-shims/component/build` has made.
//
// * `contract/`: the types of `wit/`, with what is written about them.
// * `providers/NAME/`: each provider as JavaScript modules, instantiated as often as wanted, which import nothing by themselves.
// * `src/integrity.ts`: what the files of the providers hash to.
// * `src/daemon/repl.ts`: what runs in an ordinary Python, from the package for Python.
// * `dist/`: `src/` compiled.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generateHostTypes, transpileBytes } from '@bytecodealliance/jco-transpile';

const root = import.meta.dirname;
const made = join(root, '../../target/providers');

async function write(directory, files) {
  await rm(directory, { recursive: true, force: true });
  for (const [name, bytes] of Object.entries(files)) {
    const path = name.startsWith(directory) ? name : join(directory, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, bytes);
  }
}

async function providers() {
  if (process.argv.length > 2) return process.argv.slice(2);
  const names = await readdir(made).catch(() => []);
  const found = names.filter((name) => name.startsWith('glovebox') && name.endsWith('.wasm')).map((name) => join(made, name));
  if (found.length === 0) throw new Error('there is no provider: guest-shims/component/build makes them');
  return found;
}

const contract = join(root, 'contract');
await write(contract, await generateHostTypes(join(root, '../../wit'), { worldName: 'provider', instantiation: 'async', outDir: contract }));

const integrity = {};
for (const provider of await providers()) {
  const name = basename(provider, '.wasm');
  const directory = join(root, 'providers', name);
  const { files } = await transpileBytes(await readFile(provider), {
    name: 'component',
    instantiation: 'async',
    // The interpreters have memories of their own beside the shim's.
    multiMemory: true,
    // One exception unwinds a script that is over a limit.
    bindgenEnableWasmExnref: true,
    // The types are those of the contract, whichever the provider.
    noTypescript: true,
    outDir: directory,
  });
  await write(directory, files);
  integrity[name] = {};
  for (const [path, bytes] of Object.entries(files)) {
    if (!path.endsWith('.ts')) integrity[name][basename(path)] = `sha256-${createHash('sha256').update(bytes).digest('base64')}`;
  }
  console.log(`${basename(provider)}: ${Object.values(files).reduce((sum, bytes) => sum + bytes.length, 0)} bytes`);
}

const text = `// Made by build.mjs: what the files of the providers hash to.
export const INTEGRITY: Record<string, Record<string, string>> = ${JSON.stringify(integrity, null, 2)};
`;
await writeFile(join(root, 'src/integrity.ts'), text);

const repl = await readFile(join(root, '../python/src/glovebox_sandbox/_unsafe_repl.py'), 'utf8');
await writeFile(join(root, 'src/daemon/repl.ts'), `// Made by build.mjs: what runs in an ordinary Python.\nexport const REPL = ${JSON.stringify(repl)};\n`);

await rm(join(root, 'dist'), { recursive: true, force: true });
const tsc = fileURLToPath(import.meta.resolve('typescript/lib/tsc.js'));
execFileSync(process.execPath, [tsc, '-p', root], { stdio: 'inherit' });
