// Tests runs that wait for answers from the caller, and their suspension, with the engine in this process.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import {
  type CallAnswers,
  PolicyError,
  Run,
  type Sandbox,
  type SandboxOptions,
  SessionError,
  SuspensionError,
  type Tools,
  UnsupportedError,
  WaitingRun,
  createSandbox,
} from '../src/node.ts';
import { program } from './program.ts';

const directory = await mkdtemp(join(tmpdir(), 'glovebox-suspend-'));
after(() => rm(directory, { recursive: true, force: true }));

/** A tool whose calls wait for answers. */
const pay = { description: 'Pays an invoice.', schema: { properties: { euros: { type: 'number' } }, required: ['euros'] } };

function sandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  // The timeouts are long, because runs can wait for a long time on a busy machine.
  const limits = { timeoutMs: 100_000, toolTimeoutMs: 100_000 };
  return createSandbox({ language: 'python', backend: 'native', tools: { pay }, limits, ...options });
}

function waiting(run: Run | WaitingRun): WaitingRun {
  assert.ok(run instanceof WaitingRun, String((run as Run).outcome));
  return run;
}

function ended(run: Run | WaitingRun): Run {
  assert.ok(run instanceof Run);
  return run;
}

/** Starts a script, and suspends it when it waits. */
async function suspended(box: Sandbox, source: string): Promise<Uint8Array> {
  return waiting(await box.start(source)).suspend();
}

const PAYS = 'print("before")\nprint("paid:", tools.pay(euros=20))';

test('a run waits for answers', async () => {
  const box = await sandbox();
  const run = waiting(await box.start(PAYS));
  assert.deepEqual(run.calls, [{ id: 0, name: 'pay', arguments: { euros: 20 } }]);
  assert.deepEqual([run.stdout, run.stderr], ['before\n', '']);
  const done = ended(await run.answer({ answers: { 0: { receipt: 17 } } }));
  assert.equal(done.throwForOutcome().stdout, "before\npaid: {'receipt': 17}\n");
  assert.deepEqual(done.toolCalls.map(({ name, result }) => [name, result]), [['pay', { receipt: 17 }]]);
  assert.equal(ended(await box.start('print(1)')).stdout, '1\n');
});

test('a run is suspended in one process and resumed in another', async () => {
  const log = join(directory, 'log');
  const box = `import { appendFileSync } from 'node:fs';
    const note = ({ text }) => appendFileSync(${JSON.stringify(log)}, text + ' ');
    const tools = { note, pay: ${JSON.stringify(pay)} };
    const box = await createSandbox({ language: 'python', backend: 'native', tools, files: { 'a.txt': 'A' } });\n`;
  const script = `import random\nn = random.random()\ntools.note(text="begun")\nopen("b.txt", "w").write("B")
print(n)\nprint(tools.pay(euros=20), n, open("a.txt").read(), open("b.txt").read())\ntools.note(text="paid")`;
  const state = await program(`${box}const run = await box.start(${JSON.stringify(script)}, { name: 'pay.py', stdin: 'x' });
    process.stdout.write(Buffer.from(await run.suspend()).toString('base64'));`);
  assert.equal(await readFile(log, 'utf8'), 'begun ');
  const printed = await program(`${box}const heard = [];
    const options = { answers: { 1: 'ok' }, onStdout: (text) => heard.push(text) };
    const run = await box.resumeSuspended(Buffer.from('${state}', 'base64'), options);
    console.log(JSON.stringify([run.outcome.kind, run.stdout, heard.join(''), run.toolCalls.length, run.filesCreated]));`);
  assert.equal(await readFile(log, 'utf8'), 'begun paid ');
  const [kind, stdout, heard, calls, created] = JSON.parse(printed);
  const [first, second] = stdout.split('\n');
  assert.deepEqual([kind, second, heard, calls, created], ['completed', `ok ${first} A B`, `ok ${first} A B\n`, 3, ['b.txt']]);
});

test('denied and failed calls raise errors in the script', async () => {
  const box = await sandbox();
  const state = await suspended(box, 'try: tools.pay(euros=20)\nexcept tools.ToolDenied as error: print("denied:", error)');
  const run = ended(await box.resumeSuspended(state, { denied: { 0: 'too expensive' } }));
  assert.equal(run.throwForOutcome().stdout, 'denied: too expensive\n');
  const failing = await suspended(box, 'try: tools.pay(euros=20)\nexcept tools.ToolError as error: print(type(error).__name__, error)');
  assert.equal(ended(await box.resumeSuspended(failing, { failed: { 0: 'no money' } })).stdout, 'ToolError no money\n');
  const script = 'try { await tools.pay({ euros: 1 }) } catch (error) { console.log(error instanceof tools.ToolDenied, error.message) }';
  const javascript = waiting(await (await sandbox({ language: 'javascript' })).start(script));
  assert.equal(ended(await javascript.answer({ denied: { 0: 'no' } })).stdout, 'true no\n');
});

test('changed and cut bytes are rejected', async () => {
  const box = await sandbox();
  const state = await suspended(box, PAYS);
  for (const at of [0, 8, 100, state.length - 1]) {
    const changed = Uint8Array.from(state);
    changed[at] = (changed[at] ?? 0) ^ 1;
    for (const bytes of [changed, state.slice(0, at)]) {
      for (const rejected of [() => box.resumeSuspended(bytes, { answers: { 0: 1 } }), () => box.suspendedCalls(bytes)]) {
        await assert.rejects(rejected, (error) => error instanceof SuspensionError && /not a suspended execution/.test(error.message));
      }
    }
  }
  await assert.rejects(box.resume(state), SessionError);
  const session = await box.session();
  await assert.rejects(box.resumeSuspended(await session.hibernate(), { answers: {} }), SuspensionError);
});

test('the same bytes are resumed twice with different answers', async () => {
  const box = await sandbox();
  const state = await suspended(box, PAYS);
  const runs = await Promise.all(['a', 'b'].map((answer) => box.resumeSuspended(state, { answers: { 0: answer } })));
  assert.deepEqual(runs.map((run) => ended(run).stdout), ['before\npaid: a\n', 'before\npaid: b\n']);
});

test('forks are answered differently', async () => {
  const box = await sandbox();
  const heard: string[] = [];
  const script = 'print("begun")\nx = tools.pay(euros=1)\nprint(x, tools.pay(euros=2))';
  const run = waiting(await box.start(script, { onStdout: (text) => void heard.push(text) }));
  const forks = await run.fork(2);
  assert.deepEqual([run.session, forks[0]?.calls, forks[0]?.session], [undefined, run.calls, undefined]);
  const outputs = await Promise.all(forks.map(async (fork, index) => {
    const again = await waiting(await fork.answer({ answers: { 0: 'ab'[index] } })).fork(2);
    return Promise.all(again.map(async (each, last) => ended(await each.answer({ answers: { 1: 'cd'[last] } })).stdout));
  }));
  assert.deepEqual(outputs.flat(), ['a c', 'a d', 'b c', 'b d'].map((line) => `begun\n${line}\n`));
  assert.deepEqual(heard.join('').split('\n').sort(), ['', 'a c', 'a d', 'b c', 'b d', 'begun']);
  await assert.rejects(run.fork(1), (error) => error instanceof SuspensionError && /already continued or suspended/.test(error.message));
  const other = waiting(await box.start(PAYS));
  await assert.rejects(other.fork(-1), RangeError);
  await assert.rejects(other.fork('2' as unknown as number), TypeError);
  assert.deepEqual(await other.fork(0), []);
});

test('forks obey the timeout and the signal of the run', async () => {
  const box = await sandbox();
  const endless = 'tools.pay(euros=1)\nwhile True: pass';
  const [timed] = await waiting(await box.start(endless, { timeoutMs: 3_000 })).fork(1);
  assert.ok(timed);
  assert.equal(ended(await timed.answer({ answers: { 0: 1 } })).outcome.kind, 'cancelled');
  const controller = new AbortController();
  const [aborted] = await waiting(await box.start(endless, { signal: controller.signal })).fork(1);
  assert.ok(aborted);
  setTimeout(() => controller.abort(new Error('enough')), 200);
  await assert.rejects(aborted.answer({ answers: { 0: 1 } }), /enough/);
});

test('several calls are answered in steps', async () => {
  const box = await sandbox({ language: 'javascript' });
  const script = `const paid = await Promise.all([1, 2, 3].map((euros) => tools.pay({ euros }).catch((error) => error.message)));
    console.log(paid.join(), await tools.pay({ euros: 4 }));`;
  let state = await suspended(box, script);
  const listed = waiting(await box.resumeSuspended(state));
  assert.deepEqual(listed.calls.map(({ id, arguments: { euros } }) => [id, euros]), [[0, 1], [1, 2], [2, 3]]);
  assert.deepEqual(await box.suspendedCalls(state), listed.calls);
  listed.cancel();
  let run = waiting(await box.resumeSuspended(state, { answers: { 1: 'two' }, denied: { 2: 'no' } }));
  assert.deepEqual(run.calls.map(({ id }) => id), [0]);
  state = await run.suspend();
  run = waiting(await box.resumeSuspended(state, { answers: { 0: 'one' } }));
  assert.deepEqual(run.calls, [{ id: 3, name: 'pay', arguments: { euros: 4 } }]);
  assert.equal(ended(await run.answer({ answers: { 3: 'four' } })).stdout, 'one,two,no four\n');
});

test('a script that behaves differently is an error', async () => {
  const script = 'print(open("a.txt").read())\ntools.pay(euros=20)';
  const state = await suspended(await sandbox({ files: { 'a.txt': 'one' } }), script);
  const answers = { 0: null };
  const same = await sandbox({ files: { 'a.txt': 'one' } });
  assert.equal(ended(await same.resumeSuspended(state, { answers })).throwForOutcome().stdout, 'one\n');
  const different = await sandbox({ files: { 'a.txt': 'another' } });
  const diverged = (error: unknown): boolean => error instanceof SuspensionError && /behaves differently/.test(error.message);
  await assert.rejects(different.resumeSuspended(state, { answers }), diverged);
  const answering = await sandbox({ files: { 'a.txt': 'one' }, tools: { pay: () => 1 } });
  await assert.rejects(answering.resumeSuspended(state, { answers }), diverged);
  const other = await sandbox({ language: 'javascript' });
  const needsOther = (error: unknown): boolean => error instanceof SuspensionError && /needs the image/.test(error.message);
  await assert.rejects(other.resumeSuspended(state, { answers }), needsOther);
});

test('a workspace is written when the script ends', async () => {
  const workspace = await mkdtemp(join(directory, 'workspace-'));
  const box = await sandbox({ workspace });
  const state = await suspended(box, 'open("a.txt", "w").write("one")\ntools.pay(euros=20)');
  assert.deepEqual(await readdir(workspace), []);
  const denied = ended(await box.resumeSuspended(state, { denied: { 0: 'no' } }));
  assert.deepEqual([denied.outcome.type, await readdir(workspace)], ['ToolDenied', ['a.txt']]);
});

test('each instance of a run is used once', async () => {
  const box = await sandbox();
  const run = waiting(await box.start(PAYS));
  for (const [answers, error, message] of [
    [{ answers: { 1: 1 } }, PolicyError, /is not waiting for call 1; answer one of these calls: 0$/],
    [{ answers: { pay: 1 } }, PolicyError, /call pay/],
    [{ answers: { 0: 1 }, denied: { 0: 'no' } }, TypeError, /call 0/],
    [{ answers: { 0: undefined } }, TypeError, /answers\["0"\] must be a JSON value/],
    [{ answers: [1] }, TypeError, /answers must be an object/],
    [{ denied: { 0: 'no' }, failed: { 0: 'no' } }, TypeError, /call 0 more than once/],
    [{ failed: { 0: 1 } }, TypeError, /failed\["0"\] must be a string/],
    [{ denied: { 0: 1 } }, TypeError, /denied\["0"\] must be a string/],
    [{ answer: {} }, TypeError, /options: unknown key `answer`/],
  ] as [CallAnswers, new () => Error, RegExp][]) {
    const rejected = (thrown: unknown): boolean => thrown instanceof error && message.test(thrown.message);
    await assert.rejects(run.answer(answers), rejected);
    if (['answers', 'denied', 'failed'].some((name) => name in answers)) await assert.rejects(box.resumeSuspended(await suspended(box, PAYS), answers), rejected);
  }
  const state = await run.suspend();
  for (const again of [() => run.suspend(), () => run.answer()]) {
    await assert.rejects(again, (error) => error instanceof SuspensionError && /already continued or suspended/.test(error.message));
  }
  assert.equal(ended(await box.resumeSuspended(state, { answers: { 0: 1 } })).stdout, 'before\npaid: 1\n');
  await assert.rejects(box.resumeSuspended(state, { answers: {}, id: 'a' } as CallAnswers), /options: unknown key `id`/);
});

test('a waiting run is cancelled', async () => {
  const box = await sandbox();
  const run = waiting(await box.start(PAYS));
  run.cancel();
  assert.equal(ended(await run.answer()).outcome.kind, 'cancelled');
  run.cancel();
  const controller = new AbortController();
  const heard: string[] = [];
  const listening = { signal: controller.signal, onStdout: (text: string) => void heard.push(text) };
  const aborted = waiting(await box.start(`${PAYS}\nprint(tools.pay(euros=1))`, listening));
  const next = waiting(await aborted.answer({ answers: { 0: 1 } }));
  assert.equal(heard.join(''), 'before\npaid: 1\n');
  controller.abort(new Error('enough'));
  await assert.rejects(next.answer({ answers: { 1: 2 } }), /enough/);
  const state = await suspended(box, 'tools.pay(euros=1)\nwhile True: pass');
  const stopped = ended(await box.resumeSuspended(state, { answers: { 0: 1 }, timeoutMs: 500 }));
  assert.equal(stopped.outcome.kind, 'cancelled');
});

test('calls without an answer exceed their timeout', async () => {
  const box = await sandbox({ limits: { toolTimeoutMs: 1_000, timeoutMs: 60_000 } });
  const heard: string[] = [];
  const script = 'try: tools.pay(euros=20)\nexcept tools.ToolTimeout: print("late")';
  const run = waiting(await box.start(script, { onStdout: (text) => heard.push(text) }));
  while (run.stdout === '') await new Promise((resolve) => setTimeout(resolve, 20));
  await assert.rejects(run.suspend(), SuspensionError);
  const done = ended(await run.answer({ answers: { 0: 'too late' } }));
  assert.deepEqual([done.throwForOutcome().stdout, heard.join('')], ['late\n', 'late\n']);
  const state = await suspended(box, script);
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  assert.equal(ended(await box.resumeSuspended(state, { answers: { 0: 1 } })).stdout, '', 'time passed while the run was suspended');
});

test('a run in a session is resumed in a restored session', async () => {
  const box = await sandbox();
  const session = await box.session();
  await session.execute('total = 20');
  const heard: string[] = [];
  const script = 'total += 1\nprint("before")\nreceipt = tools.pay(euros=total)\nprint("paid")\nreceipt';
  const run = waiting(await session.start(script, { onStdout: (text) => heard.push(text) }));
  assert.deepEqual([run.calls, heard.join('')], [[{ id: 0, name: 'pay', arguments: { euros: 21 } }], 'before\n']);
  const state = await run.suspend();
  assert.equal((await session.execute('total')).value, 20);
  for (const receipt of ['one', 'two']) {
    const restored = await box.resumeSuspendedSession(state);
    const done = ended(await restored.resumeSuspended(state, { answers: { 0: receipt }, onStdout: (text) => heard.push(text) }));
    assert.deepEqual([done.value, done.stdout], [receipt, 'before\npaid\n']);
    assert.deepEqual([await restored.variables.get('receipt'), await restored.variables.get('total')], [receipt, 21]);
    await restored.close();
  }
  assert.equal(heard.join(''), 'before\npaid\npaid\n');
  await assert.rejects(box.resumeSuspended(state), (error) => error instanceof SuspensionError && /resumeSuspendedSession/.test(error.message));
  const outside = await suspended(box, PAYS);
  for (const rejected of [() => session.resumeSuspended(outside), () => box.resumeSuspendedSession(outside)]) {
    await assert.rejects(rejected, (error) => error instanceof SuspensionError && /outside a session/.test(error.message));
  }
});

test('each fork in a session has its own session', async () => {
  const session = await (await sandbox()).session();
  await session.execute('x = [0]');
  const run = waiting(await session.start('x.append(tools.pay(euros=1))\nx'));
  assert.equal(run.session, session);
  const forks = await run.fork(2);
  for (const [index, fork] of forks.entries()) {
    assert.deepEqual(ended(await fork.answer({ answers: { 0: index } })).value, [0, index]);
  }
  for (const [index, { session: own }] of forks.entries()) {
    assert.ok(own);
    assert.notEqual(own.id, session.id);
    assert.deepEqual(await own.variables.get('x'), [0, index]);
    await own.close();
  }
  assert.deepEqual(await session.variables.get('x'), [0]);
});

test('other executions wait until a run in a session has ended', async () => {
  const session = await (await sandbox()).session();
  const run = waiting(await session.start('x = tools.pay(euros=1)'));
  const later = session.execute('x');
  const done = ended(await run.answer({ answers: { 0: 5 } }));
  assert.deepEqual([done.outcome.kind, (await later).value], ['completed', 5]);
});

test('only `start` waits for tools without `execute`', async () => {
  const box = await sandbox();
  const run = await box.execute('tools.pay(euros=20)');
  assert.match(run.toolCalls[0]?.error ?? '', /not begun with `start`/);
  const nameless = [{ description: 'x' }] as unknown as Tools;
  await assert.rejects(sandbox({ tools: nameless }), /^TypeError: tools\[0\] has neither a name nor execute/);
});

test('components reject tools without `execute`', async () => {
  const rejected = (error: unknown): boolean => error instanceof UnsupportedError && /`pay` has no `execute`/.test(error.message);
  await assert.rejects(createSandbox({ backend: 'component', tools: { pay } }), rejected);
});
