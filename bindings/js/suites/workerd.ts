// Runs the cases of Code Mode in workerd, the runtime of Cloudflare Workers.
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as esbuild from 'esbuild';

const root = import.meta.dirname;
const CONFIG = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = (
    modules = [(name = "worker.js", esModule = embed "out-worker.js")],
    compatibilityDate = "2026-01-01",
    compatibilityFlags = ["nodejs_compat"],
    bindings = [(name = "LOADER", workerLoader = ())],
  ))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
`;

/** Bundles the Worker, starts it and returns its response: the outcomes as JSON. */
export async function outcomesInWorker(): Promise<string> {
  const external = ['cloudflare:*', 'node:*'];
  await esbuild.build({ entryPoints: ['worker.ts'], bundle: true, format: 'esm', target: 'es2022', external, outfile: join(root, 'out-worker.js'), absWorkingDir: root });
  await writeFile(join(root, 'config.capnp'), CONFIG);
  const args = ['serve', '--experimental', '--control-fd=3', 'config.capnp'];
  const child = spawn(join(root, 'node_modules/.bin/workerd'), args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
  try {
    const port = await new Promise<number>((resolve, reject) => {
      child.on('error', reject);
      child.on('exit', (code) => reject(new Error(`workerd ended with ${code}`)));
      child.stdio[3]?.on('data', (data) => {
        const events = String(data).split('\n').filter(Boolean).map((line) => JSON.parse(line) as { event: string; port: number });
        const listens = events.find(({ event }) => event === 'listen');
        if (listens) resolve(listens.port);
      });
    });
    const response = await fetch(`http://127.0.0.1:${port}`);
    if (!response.ok) throw new Error(`the Worker failed: ${await response.text()}`);
    return await response.text();
  } finally {
    child.kill();
  }
}
