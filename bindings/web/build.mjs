// Builds the page: `node build.mjs server DIRECTORY`, or `node build.mjs static DIRECTORY`.
//
// * `server`: the page inside `glovebox serve`, with `manifest.txt`, which lists the hashes of its files and of their
//   sources.
// * `static`: the same page, which runs scripts in a worker. The caller puts the npm package into
//   DIRECTORY/page/glovebox-sandbox.
import { createHash } from 'node:crypto';
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { build } from 'esbuild';

const here = import.meta.dirname;
const root = join(here, '../..');
const examplesDir = join(root, 'docs/examples');

/**
 * The Content-Security-Policy of the page. `host/server/src/http/page.rs` sends the same policy as a header, with
 * `frame-ancestors` in addition.
 */
const COMMON = "style-src 'self'; img-src 'self' blob:; connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'";
const POLICIES = {
  server: `default-src 'none'; script-src 'self'; ${COMMON}; require-trusted-types-for 'script'; trusted-types 'none'`,
  // This policy does not require trusted types. They would also apply to the start of a worker, which the package
  // starts from a plain URL.
  static: `default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; ${COMMON}`,
};
const FRAME_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; form-action 'none'; base-uri 'none'";

/** Matches imports of packages that the plain interpreter does not contain. */
const PACKAGES = /^(?:import|from) (?:openpyxl|markdown|dateutil|sandbox_utils)\b/m;
const LANGUAGES = { '.py': 'python', '.js': 'javascript', '.ts': 'typescript' };

async function filesBelow(directory) {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name)).sort();
}

/**
 * Reads the examples in docs/examples: each script, with the files of its directory. Omits examples with tools, because
 * the page provides none.
 */
async function examples() {
  const found = [];
  const add = async (path, title, files) => {
    const source = await readFile(path, 'utf8');
    found.push({ title, language: LANGUAGES[path.slice(-3)], source, files, needsPackages: PACKAGES.test(source) });
  };
  await add(join(here, 'examples/displays.py'), 'Displays', {});
  await add(join(here, 'examples/endless.py'), 'An endless script', {});
  for (const { name } of (await readdir(examplesDir, { withFileTypes: true })).filter((entry) => entry.isDirectory())) {
    const directory = join(examplesDir, name);
    const page = await readFile(join(directory, 'README.md'), 'utf8');
    if (page.includes(' --tool ')) continue;
    const [, title] = /^# (.*)$/m.exec(page);
    const files = {};
    const inside = join(directory, 'files');
    const below = await filesBelow(inside).catch(() => []);
    for (const path of below) files[relative(inside, path)] = await readFile(path, 'utf8');
    const scripts = (await readdir(directory)).filter((each) => each.slice(-3) in LANGUAGES).sort((a, b) => (a.endsWith('.py') ? -1 : 1) - (b.endsWith('.py') ? -1 : 1));
    for (const script of scripts) await add(join(directory, script), scripts.length > 1 ? `${title}: ${script}` : title, files);
  }
  return found;
}

/** Collects the licences of the packages in a bundle. `inputs` lists the bundle's source files. */
async function licences(inputs) {
  const names = new Set();
  for (const path of inputs) {
    const [, name] = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path) ?? [];
    if (name) names.add(name);
  }
  const texts = new Map();
  for (const name of [...names].sort()) {
    const directory = join(here, 'node_modules', name);
    const { version, license } = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8'));
    const text = (await readFile(join(directory, 'LICENSE'), 'utf8')).trim();
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version} (${license})`]);
  }
  const parts = [...texts].map(([text, of]) => `${of.join('\n')}\n\n${text}\n`);
  return `The page of Glovebox contains:\n\n${parts.join(`\n${'-'.repeat(80)}\n\n`)}`;
}

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** Lists the sources of the page. */
async function sources() {
  const own = ['build.mjs', 'package.json', 'package-lock.json'].map((name) => join(here, name));
  const below = await Promise.all(['src', 'static', 'examples'].map((name) => filesBelow(join(here, name))));
  return [...own, ...below.flat(), ...(await filesBelow(examplesDir))].map((path) => relative(root, path)).sort();
}

async function main(form, out) {
  if (!(form in POLICIES) || !out) throw new Error('usage: node build.mjs server|static DIRECTORY');
  const options = {
    absWorkingDir: here,
    bundle: true,
    write: false,
    metafile: true,
    outdir: 'out',
    format: 'esm',
    target: ['chrome123', 'firefox128', 'safari18'],
    charset: 'utf8',
    legalComments: 'none',
  };
  const beside = { name: 'beside', setup: ({ onResolve }) => onResolve({ filter: /\/codemirror\.ts$/ }, () => ({ path: './codemirror.js', external: true })) };
  const define = { GLOVEBOX_EXAMPLES: JSON.stringify(await examples()) };
  // The page's own code stays readable. CodeMirror, whose source is published elsewhere, is built without white space;
  // no names are changed.
  const app = await build({ ...options, entryPoints: { app: join(here, `src/${form}.ts`) }, plugins: [beside], define });
  const codemirror = await build({ ...options, entryPoints: { codemirror: join(here, 'src/codemirror.ts') }, minifyWhitespace: true, minifySyntax: true });
  const text = (name) => readFile(join(here, 'static', name), 'utf8');
  const made = {
    'index.html': (await text('index.html')).replace('{{policy}}', POLICIES[form]),
    'page/app.css': await text('app.css'),
    'page/app.js': app.outputFiles[0].text,
    'page/codemirror.js': codemirror.outputFiles[0].text,
    'page/frame.html': (await text('frame.html')).replace('{{policy}}', FRAME_POLICY),
    'page/icon.svg': await text('icon.svg'),
    'page/licences.txt': await licences(Object.keys(codemirror.metafile.inputs)),
  };
  await rm(out, { recursive: true, force: true });
  await mkdir(join(out, 'page'), { recursive: true });
  for (const [name, contents] of Object.entries(made)) await writeFile(join(out, name), contents);
  if (form === 'server') {
    const lines = ['# Generated by bindings/web/build: the hashes of these files and of their sources.'];
    for (const [name, contents] of Object.entries(made)) lines.push(`${sha256(contents)}  ${name}`);
    for (const path of await sources()) lines.push(`${sha256(await readFile(join(root, path)))}  /${path}`);
    await writeFile(join(out, 'manifest.txt'), `${lines.join('\n')}\n`);
  }
  for (const [name, contents] of Object.entries(made)) console.error(`${name}: ${Buffer.byteLength(contents)} bytes`);
}

await main(...process.argv.slice(2));
