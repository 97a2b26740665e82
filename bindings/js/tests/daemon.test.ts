// Tests the daemon and its selection, and the ordinary Python interpreter, which is never selected automatically.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type IncomingMessage, type RequestListener, createServer, get } from 'node:http';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import {
  FilesError,
  PolicyError,
  Run,
  type Sandbox,
  type SandboxOptions,
  SessionError,
  SuspensionError,
  UnavailableError,
  UnsupportedError,
  WaitingRun,
  createSandbox,
} from '../src/node.ts';
import { Client, MAX_CONNECTIONS, Problem } from '../src/daemon/client.ts';
import { place } from '../src/daemon/connect.ts';
import { WITHOUT_RESULT } from '../src/record.ts';
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

/** A tool whose calls wait for answers. */
const pay = { description: 'Pays an invoice.', schema: { properties: { euros: { type: 'number' } }, required: ['euros'] } };

/** Makes the package look for a daemon only at this path. */
function at(socket: string): void {
  process.env['GLOVEBOX_DAEMON_SOCKET'] = socket;
}

test('auto prefers a daemon that answers', { skip }, async () => {
  at(somewhere);
  await using taken = await createSandbox({ language: 'javascript', backend: 'auto' });
  assert.equal(taken.backend, 'daemon');
  assert.equal((await taken.execute('console.log(6 * 7)')).stdout, '42\n');
  // The daemon does not support `workspace`, so the engine in this process runs the script.
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
  await box.close();
  await assert.rejects(session.execute('1'), SessionError);
});

test('type checks need a daemon with a type checker, and Python', { skip }, async () => {
  at(somewhere);
  await using python = await createSandbox({ backend: 'daemon' });
  await assert.rejects(python.validate('1', { types: true }), (error) => error instanceof UnsupportedError && /serve --types/.test(error.message));
  assert.deepEqual(await python.validate('1', { types: false }), []);
  await using javascript = await createSandbox({ backend: 'daemon', language: 'javascript' });
  await assert.rejects(javascript.validate('1', { types: true }), /types: type checks support only Python/);
  await assert.rejects(python.validate('1', { types: 1 as unknown as boolean }), /types must be/);
  await using session = await python.session();
  assert.deepEqual(await session.validate('1'), []);
  assert.match((await session.validate('1 +'))[0]!.message, /SyntaxError/);
  await assert.rejects(session.validate('1', { types: true }), (error) => error instanceof UnsupportedError && /serve --types/.test(error.message));
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

/** Returns the IDs of the daemon's sessions. */
function sessionsOf(socketPath: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    get({ socketPath, path: '/v1/sessions' }, async (response) => {
      const { sessions } = JSON.parse((await response.setEncoding('utf8').toArray()).join(''));
      resolve(sessions.map(({ id }: { id: string }) => id));
    }).on('error', reject);
  });
}

test('a server that is not a daemon of this version and this user is not used', { skip }, async () => {
  const answered = async (listener: RequestListener): Promise<Error> => {
    const socket = join(directory, 'other.sock');
    const server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    at(socket);
    try {
      return await createSandbox({ backend: 'daemon' }).then(() => assert.fail('opened'), (error: Error) => error);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  };
  const begun = performance.now();
  assert.match((await answered(() => undefined)).message, /timeout/);
  assert.ok(performance.now() - begun < 60_000);
  assert.match((await answered((_, response) => void response.write('{'))).message, /aborted/);
  assert.match((await answered((_, response) => response.end('{"protocol":1}'))).message, /not a daemon, or has another protocol version/);
  assert.match((await answered((_, response) => response.writeHead(404).end())).message, /HTTP status 404/);
  at(somewhere);
  const { geteuid } = process;
  try {
    process.geteuid = () => 4711;
    const refused = createSandbox({ backend: 'daemon' });
    await assert.rejects(refused, (error) => error instanceof UnavailableError && /another user/.test(error.message));
  } finally {
    process.geteuid = geteuid as () => number;
  }
});

/**
 * Opens a sandbox on a scripted server, and passes the sandbox to `use`. The server answers requests with a status and
 * one or more JSON objects.
 */
async function scripted(
  reply: (request: IncomingMessage, body: any) => [status: number, value: object] | undefined,
  options: SandboxOptions,
  use: (box: Sandbox) => Promise<void> = async () => undefined,
): Promise<void> {
  const socket = join(directory, 'scripted.sock');
  const metadata = { runtime: 'javascript', runtime_name: 'js', version: '1' };
  const server = createServer(async (request, response) => {
    const text = (await request.setEncoding('utf8').toArray()).join('');
    const [status, value] = reply(request, text && JSON.parse(text)) ?? [200, { protocol: 2, ...WITHOUT_RESULT, metadata }];
    response.writeHead(status).end([value].flat().map((each) => `${JSON.stringify(each)}\n`).join(''));
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  at(socket);
  try {
    await using box = await createSandbox({ ...options, backend: 'daemon' });
    await use(box);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test('only options that differ from their defaults are sent', async () => {
  const sent: unknown[] = [];
  const reply = ({ method }: IncomingMessage, body: any): undefined => void (method === 'POST' && sent.push(body.policy));
  await scripted(reply, {});
  await scripted(reply, { timeout: 5, metering: 'none', seed: 0, args: ['a'] });
  assert.deepEqual(sent, [undefined, { limits: { timeout_ms: 5 }, args: ['a'], metering: 'none', entropy: { seeded: 0 } }]);
});

test('a rejection that arrives before the end of a large request is reported', async () => {
  const socket = join(directory, 'rejecting.sock');
  const problem = JSON.stringify({ type: 'too-large', detail: 'the request is too large' });
  // The server runs on a separate thread, so that it can close the connection while the client writes.
  const source = `
    const { parentPort, workerData: { socket, response } } = require('node:worker_threads');
    const server = require('node:net').createServer((link) => {
      link.on('error', () => {}).once('data', () => link.pause().write(response, () => link.destroy()));
    });
    server.listen(socket, () => parentPort.postMessage('listening'));`;
  const response = `HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: ${problem.length}\r\n\r\n${problem}`;
  const server = new Worker(source, { eval: true, workerData: { socket, response } });
  await once(server, 'message');
  const client = new Client(socket);
  for (let count = 0; count < 100; count += 1) {
    await assert.rejects(client.json(['POST', '/'], new Uint8Array(4 << 20)), (error) => error instanceof Problem && /too large/.test(error.message));
  }
  await client.close(new Error('closed'), () => []);
  await server.terminate();
});

test('the reason for a lost result is reported', async () => {
  const refusals: [number, object][] = [
    [503, { type: 'unavailable', detail: 'the memory is full' }],
    [404, { type: 'not-found', detail: 'no execution' }],
  ];
  const reply = ({ url }: IncomingMessage, body: any): [number, object] | undefined => {
    if (url?.endsWith('/continue')) return refusals.shift();
    const needs = { type: 'needs-tools', execution: 'e', calls: [{ id: 0, name: 'now', arguments: {} }] };
    return body.source ? [200, [{ type: 'started', execution: 'e' }, needs]] : undefined;
  };
  await scripted(reply, { tools: { now: () => 1 } }, async (box) => {
    await assert.rejects(box.execute('now'), (error) => error instanceof UnavailableError && /memory is full/.test(error.message));
  });
});

test('a rejected result does not affect other results', async () => {
  const received = new Map<number, unknown>();
  const reply = (_: IncomingMessage, body: any): [number, object] | undefined => {
    if (!body.source && !body.answers) return undefined;
    const answers: { id: number; value?: unknown }[] = body.answers ?? [];
    if (answers.some(({ value }) => value === 'bad')) return [400, { type: 'invalid-argument', detail: 'nested too deeply' }];
    for (const { id, value } of answers) received.set(id, value ?? 'failed');
    const calls = [0, 1].filter((id) => !received.has(id)).map((id) => ({ id, name: 'give', arguments: { id } }));
    const last = calls.length > 0 ? { type: 'needs-tools', execution: 'e', calls } : { type: 'result', result: WITHOUT_RESULT };
    return [200, [{ type: 'started', execution: 'e' }, last]];
  };
  await scripted(reply, { tools: { give: ({ id }: { id: number }) => ['bad', 'good'][id] } }, async (box) => {
    await box.execute('give');
    assert.deepEqual([received.get(0), received.get(1)], ['failed', 'good']);
  });
});

test('a script that ends its session is noticed', async () => {
  const reply = ({ url, method }: IncomingMessage): [number, object] | undefined => {
    if (url === '/v1/sessions') return [201, { id: 's', runtime: 'js' }];
    if (url === '/v1/sessions/s/execute') return [200, { type: 'result', result: { ...WITHOUT_RESULT, outcome: { kind: 'exited', code: 1 } } }];
    return url === '/v1/sessions/s' && method === 'GET' ? [200, { live: { ended: 'the script exited' } }] : undefined;
  };
  await scripted(reply, {}, async (box) => {
    const session = await box.session();
    await session.execute('os._exit(1)');
    assert.equal(session.ended, 'the script exited');
  });
});

test('a cancelled execution returns the output so far', { skip }, async () => {
  at(somewhere);
  await using box = await createSandbox({ backend: 'daemon', tools: { wait: () => new Promise(() => undefined) } });
  await using session = await box.session();
  for (const wait of ['while True: pass', 'tools.wait()']) {
    const run = await session.execute(`print('begun')\n${wait}`, { onStdout: () => box.cancel() });
    assert.deepEqual([run.outcome.kind, run.stdout], ['cancelled', 'begun\n']);
  }
  assert.equal((await session.execute('6 * 7')).value, 42);
});

test('executions that occupy all connections can be cancelled', { skip }, async () => {
  at(somewhere);
  await using box = await createSandbox({ language: 'javascript', backend: 'daemon', timeout: 100_000 });
  const all = moment();
  let running = 0;
  const onStdout = (): void => {
    running += 1;
    if (running === MAX_CONNECTIONS) all.comes();
  };
  const source = 'console.log(1); await new Promise((resolve) => setTimeout(resolve, 90_000));';
  const runs = Array.from({ length: MAX_CONNECTIONS + 10 }, () => box.execute(source, { onStdout }));
  await all.promise;
  box.cancel();
  for (const { outcome } of await Promise.all(runs)) assert.equal(outcome.kind, 'cancelled');
});

test('tools run concurrently, and a script goes on after the first answer', { skip }, async () => {
  at(somewhere);
  const [both, abandoned] = [moment(), moment()];
  let running = 0;
  const tools = {
    meet: async ({ n }: { n: number }) => {
      running += 1;
      if (running === 2) both.comes();
      await both.promise;
      return n;
    },
    now: () => 'first',
    never: (_: unknown, { signal }: { signal: AbortSignal }) => {
      signal.addEventListener('abort', () => abandoned.comes());
      return new Promise(() => undefined);
    },
    deep: () => JSON.parse('['.repeat(1000) + ']'.repeat(1000)),
  };
  await using box = await createSandbox({ language: 'javascript', backend: 'daemon', tools });
  const met = await box.execute('console.log(await Promise.all([tools.meet({ n: 1 }), tools.meet({ n: 2 })]))');
  assert.equal(met.throwForOutcome().stdout, '[ 1, 2 ]\n');
  const heard: string[] = [];
  const race = 'console.log(await Promise.race([tools.never({}), tools.now({})])); console.log(await tools.now({})); process.exit(0)';
  const run = await box.execute(race, { onStdout: (text) => heard.push(text) });
  assert.deepEqual([run.outcome.code, run.stdout, heard.join('')], [0, 'first\nfirst\n', 'first\nfirst\n']);
  await abandoned.promise;
  const deep = await box.execute('try { await tools.deep({}) } catch (error) { console.log(error.name) }; console.log(await tools.now({}))');
  assert.equal(deep.stdout, 'ToolError\nfirst\n');
});

test('a large file is written and read in parts', { skip }, async () => {
  at(somewhere);
  await using box = await createSandbox({ language: 'javascript', backend: 'daemon' });
  await using session = await box.session();
  const contents = new Uint8Array(40 << 20).map((_, index) => index % 251);
  await session.files.write('sub/a b?#%.bin', contents);
  assert.equal(Buffer.compare(await session.files.read('sub/a b?#%.bin'), contents), 0);
  assert.deepEqual((await session.files.list('sub/*')).map(({ path, sizeBytes }) => [path, sizeBytes]), [['sub/a b?#%.bin', 40 << 20]]);
  await assert.rejects(session.files.read(''), FilesError);
  await assert.rejects(session.files.list('['), FilesError);
});

test('sessions have the chosen id, and end with their sandbox or its process', { skip }, async () => {
  at(somewhere);
  const box = await createSandbox({ language: 'javascript', backend: 'daemon', files: { 'a.txt': 'a' } });
  const session = await box.session({ id: 'chosen' });
  const fork = await session.fork({ id: 'forked', context: { n: 7 } });
  assert.deepEqual([session.id, fork.id, (await fork.execute('context.n')).value], ['chosen', 'forked', 7]);
  assert.equal(await session.files.readText('a.txt'), 'a');
  await assert.rejects(box.session({ id: 'chosen' }), SessionError);
  const state = await session.hibernate();
  assert.equal(await (await box.resume(state, { id: 'resumed' })).files.readText('a.txt'), 'a');
  await using python = await createSandbox({ backend: 'daemon' });
  await assert.rejects(python.resume(state), (error) => error instanceof SessionError && /runtime/.test(error.message));
  assert.deepEqual(await sessionsOf(somewhere), ['chosen', 'forked', 'resumed']);
  await box.close();
  assert.deepEqual(await sessionsOf(somewhere), []);
  // Neither idle connections nor open sessions keep a process alive.
  const entry = new URL(import.meta.url.endsWith('.ts') ? '../src/node.ts' : '../src/node.js', import.meta.url).href;
  const program = `import { createSandbox } from ${JSON.stringify(entry)};
    const box = await createSandbox({ language: 'javascript', backend: 'daemon' });
    console.log((await box.session({ id: 'left' })).id);`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], { timeout: 60_000 });
  assert.equal(stdout, 'left\n');
  assert.deepEqual(await sessionsOf(somewhere), []);
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
  await assert.rejects(session.files.list(), UnsupportedError);
  const marker = join(directory, 'written');
  await box.execute(`open(${JSON.stringify(marker)}, 'w').close()`);
  assert.equal(existsSync(marker), true, 'scripts run without a sandbox');
});

test('an unsandboxed Python cannot suspend scripts', async () => {
  const rejected = (error: unknown): boolean =>
    error instanceof UnsupportedError && /without unsafeNative, so that backend: "native" is the engine/.test(error.message);
  await assert.rejects(createSandbox({ backend: 'native', unsafeNative: true, tools: { pay } }), rejected);
  await using box = await createSandbox({ backend: 'native', unsafeNative: true });
  await using session = await box.session();
  await session.execute('x = 1');
  const state = new Uint8Array();
  for (const method of [
    () => box.start("open('written', 'w')"),
    () => box.resumeSuspended(state),
    () => box.suspendedCalls(state),
    () => box.resumeSuspendedSession(state),
    () => session.start('x = 2'),
    () => session.resumeSuspended(state),
  ]) await assert.rejects(method, rejected);
  assert.equal((await session.execute('x')).value, 1, 'nothing was executed');
});

test('an unsandboxed Python exchanges integers with all digits', async () => {
  const integers = [2n ** 53n + 1n, -(10n ** 30n)];
  const given: unknown[] = [];
  const tools = { llm_query: ({ prompt }: { prompt: unknown }) => String(given.push(prompt)) };
  await using box = await createSandbox({ backend: 'native', unsafeNative: true, tools });
  await using session = await box.session({ context: integers });
  const run = await session.execute('print(*context)\nllm_query(context)\ncontext');
  assert.deepEqual([run.stdout, run.value, given], [`${integers.join(' ')}\n`, integers, [integers]]);
  await session.variables.set('n', integers);
  assert.deepEqual(await session.variables.get('n'), integers);
  assert.equal((await box.execute('print(context)', { context: 2n ** 64n })).stdout, '18446744073709551616\n');
});

function waiting(run: Run | WaitingRun): WaitingRun {
  assert.ok(run instanceof WaitingRun, String((run as Run).outcome));
  return run;
}

function ended(run: Run | WaitingRun): Run {
  assert.ok(run instanceof Run);
  return run;
}

test('a run in a daemon waits for answers', { skip }, async () => {
  at(somewhere);
  const twice = { name: 'twice', description: 'Doubles a number.', execute: ({ n }: { n: number }) => 2 * n };
  await using box = await createSandbox({ language: 'python', backend: 'daemon', tools: { pay, twice } });
  const heard: string[] = [];
  const options = { onStdout: (text: string) => void heard.push(text) };
  const script = `print('before', tools.twice(n=3))
try: print('paid:', tools.pay(euros=20))
except tools.ToolError as error: print(type(error).__name__, error)`;
  const run = waiting(await box.start(script, options));
  assert.deepEqual(run.calls, [{ id: 1, name: 'pay', arguments: { euros: 20 } }]);
  assert.deepEqual([run.stdout, heard.join('')], ['before 6\n', 'before 6\n']);
  const state = await run.suspend();
  assert.deepEqual(await box.suspendedCalls(state), run.calls);
  for (const [answers, said] of [
    [{ answers: { 1: [1] } }, 'paid: [1]'],
    [{ denied: { 1: 'no' } }, 'ToolDenied no'],
    [{ failed: { 1: 'no money' } }, 'ToolError no money'],
  ] as const) {
    heard.length = 0;
    const done = ended(await box.resumeSuspended(state, { ...answers, ...options }));
    assert.deepEqual([done.throwForOutcome().stdout, heard.join('')], [`before 6\n${said}\n`, `${said}\n`]);
  }
  const again = waiting(await box.resumeSuspended(state));
  assert.equal(ended(await again.answer({ answers: { 1: 2 } })).stdout, 'before 6\npaid: 2\n');
  for (const damaged of [new Uint8Array(), state.slice(1)]) {
    await assert.rejects(box.resumeSuspended(damaged), SuspensionError);
  }
  assert.match((await box.execute(script)).stdout, /use `start`/);
  assert.equal(ended(await box.start('print(1)')).stdout, '1\n');
  await using here = await createSandbox({ language: 'python', backend: 'auto', tools: { pay } });
  assert.equal(here.backend, 'native', 'this process reads suspended runs without running them');
});

test('a run in a daemon is forked', { skip }, async () => {
  at(somewhere);
  await using box = await createSandbox({ language: 'python', backend: 'daemon', tools: { pay } });
  const run = waiting(await box.start('print(tools.pay(euros=1))'));
  const forks = await run.fork(3);
  const outputs = forks.map(async (fork, index) => ended(await fork.answer({ answers: { 0: index } })).stdout);
  assert.deepEqual(await Promise.all(outputs), ['0\n', '1\n', '2\n']);
});

test('a run in a daemon is cancelled', { skip }, async () => {
  at(somewhere);
  await using box = await createSandbox({ language: 'python', backend: 'daemon', tools: { pay } });
  const run = waiting(await box.start('tools.pay(euros=1)'));
  run.cancel();
  assert.equal(ended(await run.answer()).outcome.kind, 'cancelled');
  const controller = new AbortController();
  const next = waiting(await box.start('tools.pay(euros=1)\nwhile True: pass', { signal: controller.signal }));
  setTimeout(() => controller.abort(new Error('enough')), 200);
  await assert.rejects(next.answer({ answers: { 0: 1 } }), /enough/);
});

test('a run in a session of a daemon is suspended and resumed in a restored session', { skip }, async () => {
  at(somewhere);
  await using box = await createSandbox({ language: 'python', backend: 'daemon', tools: { pay } });
  await using session = await box.session();
  await session.execute('x = [1]');
  const run = waiting(await session.start('x.append(2)\nx.append(tools.pay(euros=x[0]))\nx'));
  const state = await run.suspend();
  assert.deepEqual((await session.execute('x')).value, [1], 'the session is rolled back');
  assert.deepEqual(await box.suspendedCalls(state), run.calls);
  for (const answer of [2, 3]) {
    await using restored = await box.resumeSuspendedSession(state);
    assert.deepEqual(await restored.variables.get('x'), [1], 'the state before the run');
    assert.deepEqual(ended(await restored.resumeSuspended(state, { answers: { 0: answer } })).value, [1, 2, answer]);
    assert.deepEqual(await restored.variables.get('x'), [1, 2, answer]);
  }
  const forks = await waiting(await session.start('x.append(tools.pay(euros=0))\nx')).fork(2);
  const values = forks.map(async (fork, index) => ended(await fork.answer({ answers: { 0: index } })).value);
  assert.deepEqual(await Promise.all(values), [[1, 0], [1, 1]]);
  await assert.rejects(box.resumeSuspended(state), (error) => error instanceof SuspensionError && /resumeSuspendedSession/.test(error.message));
  for (const damaged of [new Uint8Array(), state.slice(1)]) {
    await assert.rejects(box.resumeSuspendedSession(damaged), SuspensionError);
    await assert.rejects(session.resumeSuspended(damaged), SuspensionError);
  }
  assert.deepEqual((await session.execute('x')).value, [1], 'the session is unchanged');
});

test('a run in a session of a daemon waits in memory', { skip }, async () => {
  at(somewhere);
  await using box = await createSandbox({ language: 'python', backend: 'daemon', tools: { pay } });
  await using session = await box.session();
  await session.execute('x = 1');
  const run = waiting(await session.start('y = tools.pay(euros=x)\ny'));
  assert.equal(ended(await run.answer({ answers: { 0: 2 } })).value, 2);
  assert.equal(ended(await session.start('import os; os._exit(3)')).outcome.kind, 'exited');
  assert.notEqual(session.ended, undefined);
  await assert.rejects(session.start('1'), SessionError);
});
