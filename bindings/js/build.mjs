// Builds the package: `npm run build [PROVIDER.wasm…]`, by default with all providers that
// `guest-shims/component/build` has built.
//
// * `contract/`: the types of `wit/`, with their documentation.
// * `providers/NAME/`: each provider as JavaScript modules, which can be instantiated any number of times and have no
//   imports. `modules.js` also imports the WebAssembly, for platforms that compile it ahead of time.
// * `src/own.ts`: the hashes of the providers' files, and the locations of the published files.
// * `src/daemon/repl.ts`: the program that runs in an unsandboxed Python, copied from the Python package.
// * `dist/`: the compiled `src/`.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generateHostTypes, transpileBytes } from '@bytecodealliance/jco-transpile';

const root = import.meta.dirname;
const made = join(root, '../../target/providers');
/** The names of the providers in the published package. */
const { providers: published } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));

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
  if (found.length === 0) throw new Error(`no provider in \`${made}\`; run guest-shims/component/build`);
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
    // Each interpreter has its own memory in addition to the shim's.
    multiMemory: true,
    // Scripts that exceed a limit are unwound with a WebAssembly exception.
    bindgenEnableWasmExnref: true,
    // All providers share the types generated from the contract.
    noTypescript: true,
    outDir: directory,
  });
  for (const path of Object.keys(files)) if (basename(path) === 'component.js') files[path] = Buffer.from(withoutLoader(Buffer.from(files[path]).toString()));
  await write(directory, files);
  integrity[name] = {};
  for (const [path, bytes] of Object.entries(files)) {
    if (!path.endsWith('.ts')) integrity[name][basename(path)] = `sha256-${createHash('sha256').update(bytes).digest('base64')}`;
  }
  await writeModules(directory, Object.keys(integrity[name]).filter((file) => file.endsWith('.wasm')));
  console.log(`${basename(provider)}: ${Object.values(files).reduce((sum, bytes) => sum + bytes.length, 0)} bytes`);
}

/**
 * Removes jco's own WebAssembly loader, which imports a Node.js module. Bundlers would follow that import. The package
 * always passes its own loader.
 */
function withoutLoader(text) {
  const bare = text.replace(/^( *)const isNode = [^]*?^\1async function fetchCompile [^]*?^\1}\n/m, '').replace(/^ *if \(!getCoreModule\) getCoreModule = .*\n/m, '');
  if (/fetchCompile|import\(|import\.meta/.test(bare)) throw new Error('unexpected output of jco; see `withoutLoader`');
  return bare;
}

/** Writes a module that imports a provider and its WebAssembly. */
async function writeModules(directory, names) {
  const lines = names.map((name, index) => `import core${index} from './${name}';`);
  const compiled = names.map((name, index) => `'${name}': core${index}`).join(', ');
  const text = ["import * as component from './component.js';", ...lines, `export default { component, compiled: { ${compiled} } };`];
  await writeFile(join(directory, 'modules.js'), `${text.join('\n')}\n`);
  const types = "import type { ProviderModules } from 'glovebox-sandbox';\ndeclare const provider: ProviderModules;\nexport default provider;\n";
  await writeFile(join(directory, 'modules.d.ts'), types);
}

/** Returns the URLs of a provider's files as source text, in the only form that bundlers recognize. */
function urlsOf(name) {
  const url = (file) => `() => new URL('../providers/${name}/${file}', import.meta.url).href`;
  return Object.keys(integrity[name] ?? {}).map((file) => `    '${file}': ${url(file)},\n`).join('');
}
const text = `// Made by build.mjs: what the files of the providers hash to, and where those of the package's own are.
export const INTEGRITY: Record<string, Record<string, string>> = ${JSON.stringify(integrity, null, 2)};
export const FILES: Record<string, Record<string, () => string>> = {
${published.map((name) => `  '${name}': {\n${urlsOf(name)}  },\n`).join('')}};
`;
await writeFile(join(root, 'src/own.ts'), text);

const repl = await readFile(join(root, '../python/src/glovebox_sandbox/_unsafe_repl.py'), 'utf8');
await writeFile(join(root, 'src/daemon/repl.ts'), `// Made by build.mjs: the program that runs in an ordinary Python.\nexport const REPL = ${JSON.stringify(repl)};\n`);

await rm(join(root, 'dist'), { recursive: true, force: true });
const tsc = fileURLToPath(import.meta.resolve('typescript/lib/tsc.js'));
execFileSync(process.execPath, [tsc, '-p', root], { stdio: 'inherit' });

// TypeScript wraps an `import()` whose argument it cannot resolve. Inside the wrapper, bundlers ignore their magic
// comments, and webpack breaks the import.
const loading = join(root, 'dist/component/load.js');
const wrapped = await readFile(loading, 'utf8');
const bare = wrapped.replace(/^var __rewriteRelativeImportExtension = [^]*?^};\n/m, '').replace(/__rewriteRelativeImportExtension\((.*?module)\)/, '$1');
if (!/import\(\/\* webpackIgnore/.test(bare)) throw new Error('unexpected contents of dist/component/load.js; see above');
await writeFile(loading, bare);
