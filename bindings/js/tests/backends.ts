// The backends with which the API tests run.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { type Sandbox, type SandboxOptions, createSandbox } from '../src/node.ts';

/** True if this Node.js supports components. Version 24 supports them, and version 20 does not. */
export const RUNS_COMPONENTS = Number(process.versions.node.split('.')[0]) >= 24;

/** Sandbox options for each backend. */
export const WAYS = {
  native: { backend: 'native' },
  worker: { backend: 'component' },
  direct: { backend: 'component', worker: false },
  daemon: { backend: 'daemon' },
} as const satisfies Record<string, SandboxOptions>;

export type Way = keyof typeof WAYS;

/** The path of the `glovebox` command, which may not have been built. */
const command = process.env['GLOVEBOX_COMMAND'] ?? join(import.meta.dirname, '../../../target/debug/glovebox');
/** True if a daemon can be started. */
export const HAS_DAEMON = process.env['CI'] !== undefined || existsSync(command);

/** The backends that this Node.js supports. */
export const ways = (Object.keys(WAYS) as Way[]).filter((way) =>
  way === 'daemon' ? HAS_DAEMON : RUNS_COMPONENTS || way === 'native',
);

/** Starts a daemon, and sets `GLOVEBOX_DAEMON_SOCKET` to its socket. */
export async function startDaemon(...flags: string[]): Promise<{ child: ChildProcess; stop(): Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'glovebox-daemon-'));
  const socket = join(directory, 'd.sock');
  const limits = ['--fuel', '2_000_000_000_000', '--timeout-ms', '120000', '--timeout-reserve-ms', '10000'];
  const child = spawn(command, ['daemon', '--socket', socket, ...limits, '--default-runtime', 'python-3.15', ...flags], { stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', () => reject(new Error(output)));
    child.stderr.on('data', (text) => {
      output += text;
      if (output.includes('listening')) resolve();
    });
  });
  process.env['GLOVEBOX_DAEMON_SOCKET'] = socket;
  const stop = async (): Promise<void> => {
    const exited = new Promise((resolve) => child.once('exit', resolve));
    if (child.exitCode === null && child.kill()) await exited;
    await rm(directory, { recursive: true, force: true });
  };
  return { child, stop };
}

let daemon: ReturnType<typeof startDaemon> | undefined;

const open = new Set<Sandbox>();
after(async () => {
  for (const box of open) await box.close();
  await (await daemon)?.stop();
});

/** Opens a sandbox, which is closed after the last test. */
export async function sandbox(way: Way, options: SandboxOptions = {}): Promise<Sandbox> {
  if (way === 'daemon') await (daemon ??= startDaemon());
  const box = await createSandbox({ language: 'javascript', ...options, ...WAYS[way] });
  open.add(box);
  return box;
}
