/// <reference types="node" />
// The backend that runs scripts in an ordinary Python interpreter, WITHOUT a sandbox: scripts have all permissions of
// the current user.
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Backend, Host, Policy } from '../backend.ts';
import { errorOf } from '../errors.ts';
import { refuseHostAccess, refuseWaitingTools } from '../policy.ts';
import { WITH_SANDBOX, answersOf, openPython } from './backend.ts';
import { Connection } from './rpc.ts';

/** Returns the command that starts Python 3.8 or later. */
async function python(): Promise<string> {
  for (const path of ['python3', 'python']) {
    const output = await promisify(execFile)(path, ['--version'], { timeout: 10_000 }).catch(() => undefined);
    const [, major, minor] = /^Python (\d+)\.(\d+)/.exec(output?.stdout || output?.stderr || '') ?? [];
    if (Number(major) > 3 || (Number(major) === 3 && Number(minor) >= 8)) return path;
  }
  throw errorOf('UnavailableError', 'unsafeNative: cannot find Python 3.8 or later; install it, or remove unsafeNative');
}

/** Starts a Python process in a new directory. Nothing else isolates the process. */
export async function openUnsafe(language: string, policy: Policy, host: Host): Promise<Backend> {
  refuseWaitingTools(policy, WITH_SANDBOX);
  refuseHostAccess(policy, 'not supported without a sandbox; remove it, or remove unsafeNative');
  if (language !== 'python') throw errorOf('UnsupportedError', `unsafeNative: \`${language}\` is not supported; only Python runs without a sandbox`);
  if (policy.files.length > 0) {
    throw errorOf('UnsupportedError', 'files: not supported without a sandbox, because scripts run in a host directory; remove it');
  }
  const path = await python();
  const { REPL } = await import('./repl.ts');
  const directory = await mkdtemp(join(tmpdir(), 'glovebox-native-'));
  const child = spawn(path, ['-u', '-c', REPL], {
    cwd: directory,
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...Object.fromEntries(policy.env) },
  });
  const remove = (): void => void rm(directory, { recursive: true, force: true }).catch(() => undefined);
  child.once('exit', remove).once('error', remove);
  const pipes = [child.stdin, child.stdout] as unknown as Socket[];
  const hold = (isHeld: boolean): void => {
    for (const one of [child, ...pipes]) isHeld ? one.ref() : one.unref();
  };
  const streams = { input: child.stdout, output: child.stdin, hold, close: () => void child.kill('SIGKILL') };
  return openPython(new Connection(streams, answersOf(policy, host)), policy);
}
