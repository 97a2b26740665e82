// Tests the daemon and its selection, and the ordinary Python, which is never selected automatically.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { PolicyError, SessionError, UnavailableError, UnsupportedError, createSandbox } from '../src/node.ts';
import { place } from '../src/daemon/connect.ts';
import { HAS_DAEMON, startDaemon } from './backends.ts';

const skip = !HAS_DAEMON;
const directory = await mkdtemp(join(tmpdir(), 'glovebox-none-'));
const nowhere = join(directory, 'd.sock');
const running = skip ? undefined : await startDaemon();
const somewhere = process.env['GLOVEBOX_DAEMON_SOCKET'] ?? '';
after(async () => {
  await running?.stop();
  await rm(directory, { recursive: true, force: true });
});

/** Points the package at a daemon's socket; without a daemon at that path, none is found. */
function at(socket: string): void {
  process.env['GLOVEBOX_DAEMON_SOCKET'] = socket;
}

test('auto prefers a daemon that answers', { skip }, async () => {
  at(somewhere);
  await using taken = await createSandbox({ language: 'javascript', backend: 'auto' });
  assert.equal(taken.backend, 'daemon');
  assert.equal((await taken.execute('console.log(6 * 7)')).stdout, '42\n');
  // The engine in this process runs the requests that the daemon does not support.
  await using here = await createSandbox({ language: 'javascript', backend: 'auto', workspace: directory });
  assert.equal(here.backend, 'native');
  await using plain = await createSandbox({ language: 'javascript' });
  assert.equal(plain.backend, 'native', 'without `auto`, no daemon is used');
  at(nowhere);
  await using alone = await createSandbox({ language: 'javascript', backend: 'auto' });
  assert.equal(alone.backend, 'native');
  await assert.rejects(createSandbox({ backend: 'daemon' }), (error) => error instanceof UnavailableError && /glovebox daemon/.test(error.message));
  await writeFile(nowhere, '');
  await using still = await createSandbox({ language: 'javascript', backend: 'auto' });
  assert.equal(still.backend, 'native', 'a file that is not a socket is not a daemon');
});

test('the daemon has one socket path', () => {
  delete process.env['GLOVEBOX_DAEMON_SOCKET'];
  assert.equal(place(), join(homedir(), '.rlm', 'daemon.sock'));
  assert.equal(place('win32'), '\\\\.\\pipe\\rlm-daemon');
  at(nowhere);
  assert.equal(place(), nowhere);
});

/** Returns a promise and the function that resolves it. */
function moment(): { comes: () => void; promise: Promise<void> } {
  let comes = (): void => {};
  const promise = new Promise<void>((resolve) => (comes = resolve));
  return { comes, promise };
}

test('cancelling, closing and unsupported options behave as in other backends', { skip }, async () => {
  at(somewhere);
  const [called, abandoned] = [moment(), moment()];
  const wait = (_: unknown, { signal }: { signal: AbortSignal }): Promise<unknown> => {
    signal.addEventListener('abort', () => abandoned.comes());
    called.comes();
    return abandoned.promise;
  };
  const box = await createSandbox({ language: 'javascript', backend: 'daemon', tools: { wait } });
  const stop = new AbortController();
  const run = box.execute('for (;;);', { signal: stop.signal });
  setTimeout(() => stop.abort(new Error('enough')), 200);
  await assert.rejects(run, /enough/);
  const session = await box.session();
  const waits = session.execute('await tools.wait({})');
  await called.promise;
  box.cancel();
  assert.equal((await waits).outcome.kind, 'cancelled');
  // The tool learns that its answer is no longer needed.
  await abandoned.promise;
  await assert.rejects(createSandbox({ backend: 'daemon', workspace: directory }), UnsupportedError);
  await assert.rejects(createSandbox({ backend: 'daemon', language: 'cobol' }), PolicyError);
  await assert.rejects(createSandbox({ backend: 'daemon', limits: { timeoutMs: 10_000_000 } }), PolicyError);
  await assert.rejects(box.session({ id: 'mine' }), UnsupportedError);
  await box.close();
  await assert.rejects(session.execute('1'), SessionError);
});

test('llm_query and rlm_query ask the program, through the daemon', { skip }, async () => {
  at(somewhere);
  const schema = (...required: string[]) => ({ type: 'object', properties: { prompt: {}, task: {}, ctx: {} }, required });
  const tools = {
    llm_query: { schema: schema('prompt'), execute: ({ prompt }: { prompt: string }) => prompt.toUpperCase() },
    rlm_query: { schema: schema('task'), execute: async ({ task, ctx }: { task: string; ctx: unknown }) => [task, ctx] },
  };
  await using box = await createSandbox({ backend: 'daemon', tools });
  await using session = await box.session({ context: { title: 'here' } });
  const run = await session.execute("print(llm_query('why'))\nprint(rlm_query('sum up'))\nn = 7", { stdin: 'x' });
  assert.equal(run.throwForOutcome().stdout, "WHY\n['sum up', {'title': 'here'}]\n");
  assert.deepEqual([await session.variables.get('n'), await session.variables.get('absent')], [7, undefined]);
});

test('a killed daemon is an error, and auto continues without it', { skip }, async () => {
  const other = await startDaemon();
  const box = await createSandbox({ language: 'javascript', backend: 'auto' });
  const run = box.execute('for (;;);');
  setTimeout(() => other.child.kill('SIGKILL'), 300);
  await assert.rejects(run, UnavailableError);
  await assert.rejects(box.execute('1'), UnavailableError);
  await using next = await createSandbox({ language: 'javascript', backend: 'auto' });
  assert.equal(next.backend, 'native');
  await other.stop();
});

test('an unsandboxed Python needs a name and a flag, and has host access', async () => {
  at(nowhere);
  for (const backend of ['auto', 'wasm', 'component', 'daemon', undefined] as const) {
    const wrong = createSandbox({ ...(backend && { backend }), unsafeNative: true });
    await assert.rejects(wrong, (error) => error instanceof TypeError && /without a sandbox/.test(error.message));
  }
  await using engine = await createSandbox({ language: 'javascript', backend: 'native' });
  assert.equal(engine.backend, 'native', 'without the flag, `native` is the engine');
  await assert.rejects(createSandbox({ language: 'javascript', backend: 'native', unsafeNative: true }), UnsupportedError);
  const tools = { llm_query: ({ prompt }: { prompt: string }) => `${prompt}!` };
  await using box = await createSandbox({ backend: 'native', unsafeNative: true, tools });
  assert.equal(box.backend, 'unsafe-native');
  await using session = await box.session({ context: ['a', 'b'] });
  const run = await session.execute("import os, sys\nprint(len(context), llm_query('hi'), os.getpid() > 1)\nprint('e', file=sys.stderr)\ncontext[1]");
  assert.deepEqual([run.stdout, run.stderr, run.value], ['2 hi! True\n', 'e\n', 'b']);
  const failed = await session.execute("raise ValueError('test')");
  assert.deepEqual([failed.outcome.type, failed.outcome.message, failed.outcome.line], ['ValueError', 'test', 1]);
  const late = await session.execute('while True: pass', { timeoutMs: 200 });
  assert.equal(late.outcome.kind, 'cancelled');
  await assert.rejects(session.fork(), UnsupportedError);
  const marker = join(directory, 'written');
  await box.execute(`open(${JSON.stringify(marker)}, 'w').close()`);
  assert.equal(existsSync(marker), true, 'scripts run without a sandbox');
});
