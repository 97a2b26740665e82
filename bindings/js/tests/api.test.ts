// Tests the API on every backend.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FilesError, Opaque, PolicyError, ScriptError, SessionError, ToolDenied, type Tools, UnsupportedError } from '../src/node.ts';
import { sandbox, ways } from './backends.ts';

for (const way of ways) {
  const of = (name: string, run: () => Promise<void>): void => void test(`${way}: ${name}`, run);

  of('the next script runs after any outcome', async () => {
    const box = await sandbox(way, { limits: { fuel: 50_000_000 } });
    for (const [source, kind, text, exitCode] of [
      ['console.log(1)', 'completed', 'completed', 0],
      ['throw new TypeError("no")', 'raised', 'TypeError: no', 1],
      ['for (;;);', 'exhausted', 'out of fuel: used 50000000 of 50000000 units', 137],
      ['process.exit(3)', 'exited', 'exited with 3', 3],
    ] as const) {
      const run = await box.execute(source);
      assert.deepEqual([run.outcome.kind, String(run.outcome), run.outcome.exitCode], [kind, text, exitCode]);
      assert.equal(run.ok, kind === 'completed');
      assert.ok(run.fuelConsumed > 0);
    }
    assert.equal((await box.execute('console.log("still here")')).stdout, 'still here\n');
  });

  of('Python exceptions have a type, line and traceback', async () => {
    const box = await sandbox(way, { language: 'python' });
    const run = await box.execute('def f():\n    return 1 / 0\nf()', { name: 'report.py' });
    assert.deepEqual([run.outcome.type, run.outcome.line], ['ZeroDivisionError', 2]);
    assert.match(run.outcome.traceback ?? '', /report\.py/);
    // Components contain CPython 3.12, and the native package contains CPython 3.15.
    const version = way === 'worker' || way === 'direct' ? '3.12' : '3.15';
    assert.deepEqual([box.language, box.runtimeName, box.version], ['python', `python-${version}`, `${version}.0`]);
  });

  of('displays have all their forms', async () => {
    const box = await sandbox(way, { limits: { displayBytes: 70 } });
    const shows = "display(1); display({ 'text/html': '<b>é</b>', 'image/png': new Uint8Array([137, 80, 78, 71]) }, { raw: true });";
    const run = await box.execute(shows);
    assert.deepEqual(run.displays.map((shown) => [...shown.data.keys()]), [['text/plain'], ['text/html', 'image/png']]);
    const [one, two] = run.displays;
    assert.deepEqual([one?.text, one?.html, two?.html, [...(two?.png ?? [])]], ['1', undefined, '<b>é</b>', [137, 80, 78, 71]]);
    assert.deepEqual([one?.isResult, run.displaysDropped, run.stdout], [false, 0, '']);
    assert.deepEqual(run.toJSON()['displays'][1], { is_result: false, data: { 'text/html': '<b>é</b>', 'image/png': 'iVBORw==' } });
    const dropped = await box.execute(shows + shows);
    assert.deepEqual([dropped.displays.length, dropped.displaysDropped], [2, 2]);
    const session = await (await sandbox(way)).session();
    const [result] = (await session.execute("({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<i>' }) })")).displays;
    assert.deepEqual([result?.isResult, result?.html], [true, '<i>']);
    assert.deepEqual((await session.execute('1')).displays, []);
  });

  of('an outcome becomes an error on request', async () => {
    const box = await sandbox(way);
    assert.equal((await box.execute('1')).throwForOutcome().ok, true);
    const run = await box.execute('throw new RangeError("far")');
    assert.throws(() => run.throwForOutcome(), (error) => error instanceof ScriptError && error.run === run && error.message === 'RangeError: far');
  });

  of('standard input, context, arguments and environment reach the script', async () => {
    const box = await sandbox(way, { args: ['one'], env: { CITY: 'Oslo' } });
    const source = 'console.log(require("fs").readFileSync(0, "utf8"), context.n, process.argv.at(-1), process.env.CITY)';
    assert.equal((await box.execute(source, { stdin: 'in', context: { n: 3 } })).stdout, 'in 3 one Oslo\n');
  });

  of('listeners receive each output stream separately', async () => {
    const box = await sandbox(way);
    const heard: string[] = [];
    const options = { onStdout: (text: string) => void heard.push(`out ${text}`), onStderr: (text: string) => void heard.push(`err ${text}`) };
    await box.execute('console.log("å"); console.error("e")', options);
    assert.deepEqual(heard, ['out å\n', 'err e\n']);
    const failing = box.execute('console.log(1)', {
      onStdout: () => {
        throw new Error('full');
      },
    });
    await assert.rejects(failing, /full/);
  });

  of('files are passed in and returned', async () => {
    const box = await sandbox(way, { files: { 'in/a.txt': 'one', 'b.bin': Uint8Array.of(1, 2) } });
    const source = 'const fs = require("fs"); fs.writeFileSync("out.txt", fs.readFileSync("in/a.txt", "utf8") + "!")';
    const run = (await box.execute(source)).throwForOutcome();
    assert.deepEqual(run.filesCreated, ['out.txt']);
    assert.equal(await run.files.readText('out.txt'), 'one!');
    assert.deepEqual([...(await run.files.read('./b.bin'))], [1, 2]);
    assert.deepEqual((await run.files.list()).map(({ path, kind }) => `${kind} ${path}`), ['file b.bin', 'directory in', 'file in/a.txt', 'file out.txt']);
    await assert.rejects(run.files.read('absent'), FilesError);
  });

  of('validation reports positions', async () => {
    const box = await sandbox(way);
    assert.deepEqual(await box.validate('let x = 1'), []);
    assert.equal((await box.validate('\nlet = ='))[0]?.line, 2);
  });

  of('a session keeps variables and files', async () => {
    const box = await sandbox(way);
    await using session = await box.session({ context: { doc: 'a long text' } });
    assert.deepEqual((await session.execute('var words = context.doc.split(" "); words')).value, ['a', 'long', 'text']);
    await session.files.write('d/notes.txt', 'first');
    const child = await session.fork();
    await session.execute('words = []');
    assert.deepEqual(await session.variables.get('words'), []);
    assert.deepEqual(await child.variables.get('words'), ['a', 'long', 'text']);
    await session.undo();
    assert.deepEqual(await session.variables.get('words'), ['a', 'long', 'text']);
    await session.variables.set('n', 20);
    const run = await session.execute('n + 1');
    assert.deepEqual([run.value, run.valueRepr, run.sessionId], [21, '21', session.id]);
    assert.deepEqual([await session.variables.get('absent'), await session.variables.has('absent'), await session.variables.has('n')], [undefined, false, true]);
    assert.ok((await session.execute('(() => 1)')).value instanceof Opaque);
    assert.equal(await run.files.readText('d/notes.txt'), 'first');
    assert.deepEqual((await session.files.list('d/*')).map(({ path }) => path), ['d/notes.txt']);
    await session.files.delete('d', { recursive: true });
    assert.deepEqual(await session.files.list(), []);
    await assert.rejects(session.files.read('d/notes.txt'), FilesError);
    await child.close();
  });

  of('checkpoints are restored, and hibernated sessions resumed', async () => {
    const box = await sandbox(way, { checkpoints: 'never' });
    const session = await box.session();
    await session.execute('var n = 1');
    const checkpoint = await session.checkpoint();
    await session.execute('n = 2');
    assert.equal((await session.checkpoints()).at(-1)?.id, checkpoint);
    assert.equal(await session.undo(checkpoint), checkpoint);
    assert.equal(await session.variables.get('n'), 1);
    await assert.rejects(session.undo(4711), SessionError);
    const state = await session.hibernate();
    const elsewhere = await sandbox(way);
    const resumed = await elsewhere.resume(state);
    assert.equal(await resumed.variables.get('n'), 1);
    await assert.rejects(elsewhere.resume(Uint8Array.of(1, 2, 3)), SessionError);
    const info = await session.info();
    assert.deepEqual([info.id, info.language, info.ended], [session.id, 'javascript', undefined]);
  });

  // The tests of runs that wait are in `suspend.test.ts` for the engine, and in `daemon.test.ts` for a daemon.
  if (way !== 'native' && way !== 'daemon') {
    of('runs that wait for answers are not supported', async () => {
      const box = await sandbox(way);
      for (const ask of [() => box.start('1'), () => box.resumeSuspended(Uint8Array.of(1)), () => box.suspendedCalls(Uint8Array.of(1))]) {
        await assert.rejects(ask, (error) => error instanceof UnsupportedError && /use backend: "native"/.test(error.message));
      }
    });
  }

  of('an ended session reports it', async () => {
    const box = await sandbox(way);
    const session = await box.session();
    await session.close();
    await session.close();
    assert.match(session.ended ?? '', /closed/);
    await assert.rejects(session.execute('1'), SessionError);
  });

  of('concurrent calls of a session run in order', async () => {
    const session = await (await sandbox(way)).session();
    const runs = await Promise.all(['var s = "a"', 's += "b"', 's += "c"', 's'].map((source) => session.execute(source)));
    assert.equal(runs.at(-1)?.value, 'abc');
  });

  of('time is limited', async () => {
    const options = { limits: { fuel: 1_000_000_000_000 }, terminateAfterMs: 60_000 };
    const box = await sandbox(way, { ...options, timeout: 200 });
    const { outcome, guidance } = await box.execute('for (;;);');
    assert.deepEqual([outcome.resource, outcome.limit, outcome.exitCode], ['time', 200, 124]);
    assert.equal(guidance.advice.length > 0, true);
    const long = await sandbox(way, { ...options, timeout: 60_000 });
    const cancelled = await long.execute('for (;;);', { timeoutMs: 50 });
    assert.equal(cancelled.outcome.kind, 'cancelled');
  });

  of('tools answer, fail, and are recorded', async () => {
    const box = await sandbox(way, {
      tools: {
        double: ({ x }) => 2 * x,
        fail: () => {
          throw new Error('no such luck');
        },
        deny: () => {
          throw new ToolDenied('not today');
        },
        typed: { description: 'Checks.', schema: { properties: { x: { type: 'number' } }, required: ['x'] }, execute: ({ x }) => x },
        big: () => 'x'.repeat(200_000),
      },
    });
    const run = await box.execute('console.log(await tools.double({ x: 21 }), (await tools.big({})).length)');
    assert.equal(run.throwForOutcome().stdout, '42 200000\n');
    assert.deepEqual(run.toolCalls.slice(0, 1).map(({ name, result }) => [name, result]), [['double', 42]]);
    const failed = await box.execute('try { await tools.fail({}) } catch (error) { console.log(error.message) }');
    assert.equal(failed.stdout, 'no such luck\n');
    const denied = await box.execute('try { await tools.deny({}) } catch (error) { console.log(error instanceof tools.ToolDenied, error.message) }');
    assert.deepEqual([denied.stdout, denied.toolCalls[0]?.error], ['true not today\n', 'ToolDenied: not today']);
    assert.match((await box.execute('await tools.typed({ x: "a" })')).toolCalls[0]?.error ?? '', /^InvalidArguments/);
  });

  of('integers keep all digits in both directions', async () => {
    const integers = [2n ** 53n + 1n, -(2n ** 63n) - 1n, 10n ** 30n + 7n];
    const sent = { integers, small: [2 ** 53 - 1, 1 - 2 ** 53, 0.1, 1n], number: 2 ** 64 };
    // All integers outside the safe range arrive as bigints.
    const received = { integers, small: [2 ** 53 - 1, 1 - 2 ** 53, 0.1, 1], number: 2n ** 64n };
    const given: unknown[] = [];
    const tools = {
      echo: ({ x }: { x: unknown }) => {
        given.push(x);
        return x;
      },
    };
    for (const [language, sources] of [
      ['javascript', ['var x = await tools.echo({ x: context }); console.log(x.integers.join(" "))', 'display({ "application/json": context.integers }, { raw: true })']],
      ['python', ['x = tools.echo(x=context); print(*x["integers"])', 'display({"application/json": context["integers"]}, raw=True)']],
    ] as const) {
      const box = await sandbox(way, { language, tools });
      const [source, shows] = sources;
      const run = (await box.execute(source, { context: sent })).throwForOutcome();
      assert.deepEqual([run.stdout, given.pop()], [`${integers.join(' ')}\n`, received]);
      const [call] = run.toolCalls;
      assert.deepEqual([call?.arguments, call?.result], [{ x: received }, received]);
      // The run's JSON form contains numbers instead of bigints.
      assert.deepEqual(JSON.parse(JSON.stringify(run)).tool_calls[0].result.integers, integers.map(Number));

      const session = await box.session({ context: sent });
      await session.execute(source);
      const all = [(await session.execute('x')).value, await session.variables.get('x')];
      await session.variables.set('context', integers);
      all.push({ ...received, integers: await session.variables.get('context') });
      const fork = await session.fork({ context: sent });
      all.push(await fork.variables.get('context'));
      assert.deepEqual(all, [received, received, received, received]);
      const shown = (await fork.execute(shows)).displays[0]?.json ?? '';
      assert.equal(shown.replaceAll(' ', ''), `[${integers.join()}]`);
      if (language === 'python') assert.deepEqual((await session.execute('[1e20, 10**20]')).value, [1e20, 10n ** 20n]);
    }
  });

  of('integers beyond 1.8e308 are not converted to JSON', async () => {
    const given: unknown[] = [];
    const box = await sandbox(way, { tools: { take: ({ x }) => given.push(x) } });
    const session = await box.session();
    assert.equal((await session.execute('10n ** 307n')).value, 10n ** 307n);
    assert.ok((await session.execute('10n ** 400n')).value instanceof Opaque);
    const { stdout } = await session.execute('try { await tools.take({ x: 10n ** 400n }) } catch (error) { console.log(error.message) }');
    assert.match(stdout, /contains a number beyond 1\.8e308/);
    assert.deepEqual(given, []);
  });

  of('an argument of the wrong type is a TypeError that names it', async () => {
    const box = await sandbox(way);
    const session = await box.session();
    const wrong = <Value>(value: unknown): Value => value as Value;
    for (const [name, ask] of [
      ['source', () => box.execute(wrong(1))],
      ['name', () => box.execute('1', { name: wrong(1) })],
      ['stdin', () => box.execute('1', { stdin: wrong(1) })],
      ['timeoutMs', () => box.execute('1', { timeoutMs: wrong('1') })],
      ['signal', () => box.execute('1', { signal: wrong({}) })],
      ['onStdout', () => box.execute('1', { onStdout: wrong(1) })],
      ['context', () => box.execute('1', { context: () => 1 })],
      ['`timeout`', () => box.execute('1', wrong({ timeout: 1 }))],
      ['kind must be one of "detect"', () => box.execute('1', { kind: wrong('cjs') })],
      ['state', () => box.resume(wrong('x'))],
      ['contents', () => session.files.write('a', wrong(1))],
      ['limits.fuel', () => sandbox(way, { limits: { fuel: wrong('1') } })],
      ['limits: unknown key `fule`', () => sandbox(way, { limits: wrong({ fule: 1 }) })],
      ['tools\\["a"\\]', () => sandbox(way, { tools: wrong({ a: 1 }) })],
      ['commit', () => sandbox(way, { commit: wrong('sometimes') })],
      ['files\\["a"\\]', () => sandbox(way, { files: { a: wrong(1) } })],
    ] as [string, () => Promise<unknown>][]) {
      await assert.rejects(ask(), (error) => error instanceof TypeError && new RegExp(name).test(error.message), name);
    }
    for (const [name, ask] of [
      ['timeoutMs', () => box.execute('1', { timeoutMs: -1 })],
      ['timeout must be a whole number from 0 to 18446744073709551615', () => sandbox(way, { timeout: wrong(2n ** 64n) })],
      ['seed', () => sandbox(way, { seed: 1.5 })],
      ['limits.openFiles must be a whole number from 0 to 4294967295', () => sandbox(way, { limits: { openFiles: 2 ** 32 } })],
      ['source contains a lone surrogate', () => box.execute('\ud800')],
      ['stdin contains a lone surrogate', () => box.execute('1', { stdin: 'a\udfff' })],
      ['path contains a lone surrogate', () => session.files.read('\ud800')],
      ['env\\["a"\\] contains a lone surrogate', () => sandbox(way, { env: { a: '\ud800' } })],
      ['a key of files contains a lone surrogate', () => sandbox(way, { files: { '\ud800': '' } })],
    ] as [string, () => Promise<unknown>][]) {
      await assert.rejects(ask(), (error) => error instanceof RangeError && new RegExp(name).test(error.message), name);
    }
    await assert.rejects(box.execute('1', { context: { '\ud800': 1 } }), /^TypeError: context must be a JSON value: UTF-8 cannot encode a lone surrogate/);
    await session.variables.set('pair', ['😀', '\\ud800', '\\\\ud800']);
    assert.deepEqual(await session.variables.get('pair'), ['😀', '\\ud800', '\\\\ud800']);
  });

  of('any result or exception of a tool answers the script', async () => {
    const tools = {
      number: () => { throw 5; },
      hostile: () => { throw { toString() { throw new Error('no'); } }; },
      message: () => { throw Object.assign(new Error(), { message: 7 }); },
      surrogate: () => '\ud800',
      circular: () => { const made: unknown[] = []; made.push(made); return made; },
      big: () => 1n,
      nothing: () => undefined,
    };
    const box = await sandbox(way, { tools });
    const errorOfTool = async (name: string) => (await box.execute(`try { console.log(await tools.${name}({})) } catch (error) { console.log(error.message) }`)).stdout;
    const answers = [];
    for (const name of Object.keys(tools)) answers.push(await errorOfTool(name));
    const [number, hostile, message, surrogate, circular, big, nothing] = answers;
    assert.deepEqual([number, hostile, message, big, nothing], ['5\n', 'the tool threw a value that cannot be converted to text\n', '7\n', '1\n', 'null\n']);
    for (const each of [surrogate, circular]) assert.match(each ?? '', / returned a value that JSON cannot represent: /);
  });

  of('invalid options are rejected when the sandbox is created', async () => {
    await assert.rejects(sandbox(way, { limits: { fuel: 0 } }), (error) => error instanceof PolicyError && /fuel/.test(error.message));
    await assert.rejects((await sandbox(way, { limits: { sourceBytes: 7 } })).execute('x'.repeat(8)), PolicyError);
  });

  of('every limit accepts a number and a bigint', async () => {
    for (const as of [Number, BigInt]) {
      const few = { openFiles: as(100), sessionCount: as(100), toolCallsAtOnce: as(10) };
      const box = await sandbox(way, { limits: { ...few, timeoutMs: as(60_000), stdoutBytes: as(100) } });
      assert.equal((await box.execute('console.log(1)')).stdout, '1\n');
    }
  });

  of('a closed sandbox reports it', async () => {
    const box = await sandbox(way);
    await box.close();
    await box.close();
    await assert.rejects(box.execute('1'), SessionError);
  });

  // A script on the calling thread blocks the code that could cancel it.
  if (way === 'direct') continue;

  of('the caller is not blocked while a script runs', async () => {
    let count = 0;
    let timer: ReturnType<typeof setInterval> | undefined;
    const tick = (): void => {
      count += 1;
      if (count === 10) box.cancel();
    };
    const begun = (): void => {
      timer = setInterval(tick, 10);
    };
    const box = await sandbox(way, { tools: { begun }, timeout: 100_000, terminateAfterMs: 60_000 });
    const run = await box.execute('await tools.begun({}); for (;;);');
    clearInterval(timer);
    assert.equal(run.outcome.kind, 'cancelled');
    assert.ok(count >= 10, String(count));
  });

  of('a signal ends a script, and the promise is rejected with its reason', async () => {
    const reason = new Error('enough');
    let controller = new AbortController();
    const begun = (): void => void setTimeout(() => controller.abort(reason), 200);
    const box = await sandbox(way, { language: 'python', tools: { begun }, timeout: 100_000, terminateAfterMs: 60_000 });
    for (const source of ['while True: pass', 'import time; time.sleep(90)']) {
      const started = performance.now();
      controller = new AbortController();
      const running = box.execute(`tools.begun()\n${source}`, { signal: controller.signal });
      await assert.rejects(running, (error) => error === reason);
      assert.ok(performance.now() - started < 60_000);
    }
    await assert.rejects(box.execute('1', { signal: AbortSignal.abort() }), { name: 'AbortError' });
    assert.equal((await box.execute('print(1)')).stdout, '1\n');
  });

  of('cancel() interrupts a script, which may clean up', async () => {
    const begun = (): void => void setTimeout(() => box.cancel(), 200);
    const limits = { timeoutMs: 100_000, timeoutReserveMs: 10_000 };
    const box = await sandbox(way, { language: 'python', tools: { begun }, limits, terminateAfterMs: 60_000 });
    const session = await box.session();
    await session.execute('n = 1');
    const run = await session.execute('try:\n    tools.begun()\n    while True:\n        pass\nfinally:\n    print("cleaned")');
    assert.deepEqual([run.outcome.kind, run.stdout], ['cancelled', 'cleaned\n']);
    assert.equal(await session.variables.get('n'), 1);
  });

  of('tools may be asynchronous, and are aborted with their call', async () => {
    let onAborted: () => void = () => undefined;
    const aborted = new Promise<void>((resolve) => (onAborted = resolve));
    let called: () => void = () => undefined;
    const tools: Tools = {
      later: async ({ x }) => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        return x + 1;
      },
      never: (_, { signal }) => {
        called();
        if (signal.aborted) onAborted();
        signal.addEventListener('abort', onAborted);
        return new Promise(() => undefined);
      },
    };
    const box = await sandbox(way, { tools, timeout: 100_000, terminateAfterMs: 60_000 });
    assert.equal((await box.execute('console.log(await tools.later({ x: 1 }))')).throwForOutcome().stdout, '2\n');
    const short = await sandbox(way, { tools, limits: { toolTimeoutMs: 1_000, timeoutMs: 100_000 } });
    const run = await short.execute('await tools.never({})');
    assert.equal(run.outcome.kind, 'raised');
    // The result and the abort arrive separately, in any order. If the result arrives first, only this timer keeps the
    // event loop alive.
    const alive = setInterval(() => undefined, 1_000);
    await aborted;
    clearInterval(alive);
    called = () => void setTimeout(() => box.cancel(), 50);
    assert.equal((await box.execute('await tools.never({})')).outcome.kind, 'cancelled');
  });
}
