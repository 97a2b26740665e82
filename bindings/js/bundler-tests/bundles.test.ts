// Tests the package in bundles. Each bundle is served from a directory that contains only the bundler's output and its
// page, and runs in a browser.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import resolve from '@rollup/plugin-node-resolve';
import * as esbuild from 'esbuild';
import { rollup } from 'rollup';
import * as vite from 'vite';
import webpack from 'webpack';
import { Browser } from './browser.ts';

const root = import.meta.dirname;
const packaged = join(root, 'node_modules/glovebox-sandbox');
const TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };
const ISOLATED = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

/** The program of the page, which exposes the package to the tests. */
const APP = "import * as glovebox from 'glovebox-sandbox';\nglobalThis.glovebox = glovebox;\n";
const PAGE = '<!doctype html><title>Glovebox</title><script type="module" src="./app.js"></script>';

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? '', 'http://localhost');
  readFile(join(root, 'out', pathname)).then(
    (bytes) => response.writeHead(200, { 'Content-Type': TYPES[extname(pathname)] ?? 'application/octet-stream', ...ISOLATED }).end(bytes),
    () => response.writeHead(404).end(),
  );
});
await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const browser = await Browser.start();
after(async () => {
  await browser.close();
  server.close();
});

/** The expected result of each page, for each language: printed text, value of a variable, and exhausted resource. */
const EXPECTED = [['42\n', 5, 'time'], ['42\n', 5, 'time']];

async function inPage(address: string): Promise<unknown[][]> {
  const page = await browser.open(address);
  return page.run(async () => {
    while (!('glovebox' in globalThis)) await new Promise((later) => setTimeout(later, 10));
    const { createSandbox } = (globalThis as any).glovebox as typeof import('glovebox-sandbox');
    const seen = [];
    for (const [language, script, endless] of [['javascript', 'console.log(6 * 7)', 'for (;;);'], ['python', 'print(6 * 7)', 'while True: pass']] as const) {
      const tools = { later: async () => new Promise((answer) => setTimeout(() => answer(7), 10)) };
      const box = await createSandbox({ language, tools, worker: true, limits: { timeoutMs: 2_000, fuel: 1_000_000_000_000 } });
      const session = await box.session();
      await session.variables.set('n', 5);
      seen.push([(await box.execute(script)).stdout, await session.variables.get('n'), (await box.execute(endless)).outcome.resource]);
      await box.close();
    }
    return seen;
  });
}

process.chdir(root);
await rm(join(root, 'out'), { recursive: true, force: true });
await writeFile(join(root, 'app.js'), APP);
await writeFile(join(root, 'index.html'), PAGE);

/**
 * Creates a bundler's output directory, `NAME/assets`, and returns the path of `NAME`. The page is `NAME/index.html`.
 */
async function site(name: string): Promise<string> {
  const directory = join(root, 'out', name);
  await mkdir(join(directory, 'assets'), { recursive: true });
  await writeFile(join(directory, 'index.html'), PAGE.replace('./app.js', './assets/app.js'));
  return directory;
}

const BUNDLERS: Record<string, () => Promise<void>> = {
  async esbuild() {
    await site('esbuild');
    // The configuration in docs/bundle-javascript.md.
    await import('./esbuild.mjs');
  },
  async rollup() {
    const directory = await site('rollup');
    const input = { app: 'app.js', 'component/worker': 'glovebox-sandbox/component/worker' };
    const onwarn = (warning: { message: string }): never => assert.fail(warning.message);
    const bundle = await rollup({ input, plugins: [resolve({ browser: true })], onwarn });
    await bundle.write({ dir: join(directory, 'assets'), format: 'es', entryFileNames: '[name].js' });
    await bundle.close();
    await cp(join(packaged, 'providers'), join(directory, 'providers'), { recursive: true });
  },
  async vite() {
    await vite.build({ root, base: './', configFile: false, logLevel: 'error', build: { outDir: 'out/vite' } });
  },
  async webpack() {
    const directory = await site('webpack');
    const compiler = webpack({ context: root, entry: './app.js', mode: 'production', output: { path: join(directory, 'assets'), filename: 'app.js' } });
    const stats = await promisify(compiler.run.bind(compiler))();
    assert.deepEqual([stats?.compilation.errors, stats?.compilation.warnings.filter(({ name }) => !/Limit/.test(name))], [[], []]);
  },
};

for (const [name, build] of Object.entries(BUNDLERS)) {
  test(`${name}: scripts run in a worker, in both languages, and an endless script is stopped`, async () => {
    await build();
    assert.deepEqual(await inPage(`${url}/${name}/index.html`), EXPECTED);
  });
}

test("Vite's development server leaves the package unchanged", async () => {
  // The configuration in docs/bundle-javascript.md.
  const { default: config } = await import('./vite.config.mjs');
  const server = await vite.createServer({ ...config, root, configFile: false, logLevel: 'error', server: { ...config.server, port: 0, host: '127.0.0.1' } });
  await server.listen();
  try {
    assert.deepEqual(await inPage(`http://127.0.0.1:${(server.httpServer?.address() as AddressInfo).port}/`), EXPECTED);
  } finally {
    await server.close();
  }
});

test('esbuild, for Node.js: the engine is found beside the bundle', async () => {
  const text = "import { createSandbox } from 'glovebox-sandbox';\nconst box = await createSandbox({ language: 'javascript' });\nconsole.log(box.backend, (await box.execute('console.log(6 * 7)')).stdout);\n";
  await writeFile(join(root, 'server.js'), text);
  await esbuild.build({ entryPoints: ['server.js'], bundle: true, format: 'esm', platform: 'node', outfile: 'out/server.mjs', absWorkingDir: root });
  const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'out/server.mjs')]);
  assert.equal(stdout, 'native 42\n\n');
});
