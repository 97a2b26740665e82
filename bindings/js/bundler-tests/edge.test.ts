// Tests edge runtimes, which cannot compile WebAssembly at run time: workerd (Cloudflare Workers) and Vercel's runtime.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import { EdgeRuntime } from 'edge-runtime';
import * as esbuild from 'esbuild';

const root = import.meta.dirname;
const out = join(root, 'out-edge');
await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });

/** The request handler. `answer.js` is the example in docs/bundle-javascript.md. */
const CHECKS = `
import { createSandbox } from 'glovebox-sandbox';
import provider from 'glovebox-sandbox/providers/glovebox-javascript/modules.js';
import { answer } from './answer.js';

async function checks() {
  const seen = [await answer('console.log(6 * 7)'), await answer('for (;;);')];
  const tools = { add: ({ a, b }) => a + b, later: async () => 1 };
  const box = await createSandbox({ language: 'javascript', provider, tools });
  seen.push((await box.execute('console.log(await tools.add({ a: 40, b: 2 }))')).stdout, (await box.execute('await tools.later({})')).outcome.type);
  const session = await box.session();
  await session.execute('n = 1');
  const state = await session.hibernate();
  seen.push(await (await box.resume(state)).variables.get('n'));
  // Without a provider compiled ahead of time, the error explains the problem.
  seen.push(await createSandbox({ language: 'javascript' }).then(() => 'made', (error) => error.name));
  return seen;
}

export const respond = () => checks().catch((error) => [error.stack]).then((seen) => Response.json(seen));
`;
const SEEN = [
  { outcome: 'completed', stdout: '42\n' },
  { outcome: 'out of fuel: used 20000000 of 20000000 units', stdout: '' },
  '42\n',
  'ToolError',
  1,
  'UnavailableError',
];
await writeFile(join(root, 'checks.js'), CHECKS);

/** Keeps WebAssembly as an import, like the tools of these platforms, and copies the files next to the bundle. */
function wasm(name: (file: string) => string, files: string[]): esbuild.Plugin {
  return {
    name: 'wasm',
    setup(build) {
      build.onResolve({ filter: /\.wasm$/ }, ({ path, resolveDir }) => {
        files.push(join(resolveDir, path));
        return { path: name(basename(path)), external: true };
      });
    },
  };
}

const running: ChildProcess[] = [];
after(() => running.forEach((child) => child.kill()));

test('workerd: scripts run, tools are synchronous, fuel is limited, and sessions continue across requests', async () => {
  const main = "import { respond } from './checks.js';\nexport default { fetch: respond };\n";
  await writeFile(join(root, 'worker.js'), main);
  const files: string[] = [];
  const plugin = wasm((file) => `./${file}`, files);
  await esbuild.build({
    entryPoints: ['worker.js'], bundle: true, format: 'esm', conditions: ['workerd', 'worker', 'browser'],
    outfile: join(out, 'worker.js'), absWorkingDir: root, plugins: [plugin],
  });
  for (const file of files) await copyFile(file, join(out, basename(file)));
  const modules = files.map((file) => `(name = "${basename(file)}", wasm = embed "${basename(file)}")`);
  await writeFile(
    join(out, 'config.capnp'),
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = (
    modules = [(name = "worker.js", esModule = embed "worker.js"), ${modules.join(', ')}],
    compatibilityDate = "2026-01-01",
  ))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);\n`,
  );
  const child = spawn(join(root, 'node_modules/.bin/workerd'), ['serve', '--control-fd=3', 'config.capnp'], {
    cwd: out,
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
  });
  running.push(child);
  const port = await new Promise<number>((resolve, reject) => {
    child.on('exit', (code) => reject(new Error(`workerd ended with ${code}`)));
    child.stdio[3]?.on('data', (data) => {
      const events = String(data).split('\n').filter(Boolean).map((line) => JSON.parse(line));
      const listens = events.find(({ event }) => event === 'listen');
      if (listens) resolve(listens.port);
    });
  });
  for (let turn = 0; turn < 2; turn += 1) assert.deepEqual(await (await fetch(`http://127.0.0.1:${port}`)).json(), SEEN);
});

test("Vercel's edge runtime: scripts run as in workerd", async () => {
  await writeFile(join(root, 'edge.js'), "import { respond } from './checks.js';\naddEventListener('fetch', (event) => event.respondWith(respond()));\n");
  // Like Next.js, the test passes the WebAssembly modules as global variables.
  const files: string[] = [];
  const plugin = wasm((file) => file, files);
  await esbuild.build({
    entryPoints: ['edge.js'], bundle: true, format: 'iife', conditions: ['edge-light', 'browser'], outfile: join(out, 'edge.js'), absWorkingDir: root,
    plugins: [plugin],
    banner: { js: 'const require = (name) => new WebAssembly.Module(globalThis.WASM[name]);' },
  });
  const bytes = await Promise.all(files.map(async (file) => [basename(file), await readFile(file)] as const));
  const runtime = new EdgeRuntime({
    initialCode: await readFile(join(out, 'edge.js'), 'utf8'),
    extend: (context) => Object.assign(context, { WASM: Object.fromEntries(bytes) }),
  });
  const response = await runtime.dispatchFetch('https://example.org/');
  assert.deepEqual(await response.json(), SEEN);
});
