// Tests the adapter with the interface of `run`: alone, in comparison with the real package, and in the AI SDK's Code
// Mode.
import assert from 'node:assert/strict';
import { registerHooks } from 'node:module';
import { test } from 'node:test';
import { tool } from 'ai';
import { type HostFunctions, RunError, createRunner, getHostFunctionContext, isRunInterruptedResult } from 'glovebox-sandbox/run';
import * as original from 'run';
import { z } from 'zod';

// Code Mode imports the package `run` by its name, which this hook resolves to the adapter.
registerHooks({
  resolve: (specifier, context, next) => next(specifier === 'run' && context.parentURL?.includes('/code-mode/') ? 'glovebox-sandbox/run' : specifier, context),
});
const { experimental_runCodeMode: runCodeMode } = await import('@ai-sdk/code-mode');

const continuationSecret = 'k'.repeat(32);
const runner = createRunner({ continuationSecret });

/** Returns host functions that ask for a decision before they pay, and the list of payments. */
function bank(): { hostFunctions: HostFunctions; paid: string[] } {
  const paid: string[] = [];
  const pay = (to: string): string => {
    const { interrupt, resume } = getHostFunctionContext();
    if (!resume) return interrupt({ pay: to });
    if (resume.resolution !== true) throw new Error(`no payment to ${to}`);
    paid.push(to);
    return `paid ${to}`;
  };
  let balance = 0;
  return { hostFunctions: { bank: { pay, balance: () => (balance += 1) } }, paid };
}

test('results and errors are those of the package', async () => {
  const hostFunctions = {
    tools: {
      sum: (...values: number[]) => values.reduce((total, value) => total + value, 0),
      nothing: () => undefined,
      fail: () => {
        throw new Error('no such luck');
      },
    },
  };
  for (const source of [
    'const total: number = await tools.sum(1, 2, 3);\nreturn { total, nothing: await tools.nothing() === undefined };',
    'const n = 1;',
    'return [2 ** 60, await tools.sum(2 ** 64, 1)];',
    'return [null, "é", await Promise.all([tools.sum(1), tools.sum(2)]), new Uint8Array([1, 255])];',
  ]) {
    assert.deepEqual(await runner.run({ source, hostFunctions }), await original.run({ source, hostFunctions }), source);
  }
  for (const [source, limits, expected] of [
    ['throw new TypeError("mine")', {}, /^TypeError: mine/],
    ['return await tools.fail()', {}, /no such luck/],
    ['return ; }', {}, /^SyntaxError/],
    ['for (;;);', { timeoutMs: 200 }, /timed out after 200ms/],
    ['return 1', { maxSourceBytes: 3 }, /exceeds the 3 byte size limit/],
    ['return "abcdef"', { maxResultBytes: 4 }, /size limit/],
    ['return () => 1', {}, /serializ/],
    ['return 1', { timeoutMs: 0 }, /limits\.timeoutMs must be a positive integer/],
    ['await tools.sum(); await tools.sum()', { maxBridgeRequests: 1 }, /./],
  ] as const) {
    await assert.rejects(runner.run({ source, hostFunctions, limits }), expected, source);
  }
  await assert.rejects(runner.run({ source: 'for (;;);', abortSignal: AbortSignal.timeout(100) }), (error) => RunError.isInstance(error) && error.code === 'RUN_ABORTED');
  await assert.rejects(runner.run({ source: '', hostFunctions: { 'a b': {} } }), /Invalid host function namespace: a b/);
  assert.equal((await runner.run<string>({ source: 'return typeof tools.constructor + typeof tools.then', hostFunctions })).status, 'completed');
});

test('an interrupted script continues with decisions, and repeats no call', async () => {
  const { hostFunctions, paid } = bank();
  const source = 'const n = await bank.balance();\nreturn [n, Math.random(), ...await Promise.all([bank.pay("a" + n), bank.pay("b"), bank.balance()])];';
  const first = await runner.run({ source, hostFunctions });
  assert.ok(isRunInterruptedResult(first));
  assert.deepEqual(
    first.interruptions.map(({ id, ...rest }) => rest),
    ['a1', 'b'].map((to) => ({ hostFunctionName: 'bank.pay', arguments: [to], payload: { pay: to } })),
  );
  const decide = (value: boolean, ...at: number[]) => at.map((index) => ({ interruptionId: first.interruptions[index]?.id ?? '', value }));
  const { continuation } = first;
  const second = await runner.run({ source, hostFunctions, continuation, resolutions: decide(true, 0) });
  assert.ok(isRunInterruptedResult(second));
  assert.deepEqual([second.interruptions.length, paid], [1, ['a1']]);
  const last = await runner.run<unknown[]>({ source, hostFunctions, continuation: second.continuation as string, resolutions: decide(true, 1) });
  assert.ok(last.status === 'completed');
  assert.deepEqual([last.value[0], last.value.slice(2), paid], [1, ['paid a1', 'paid b', 2], ['a1', 'b']]);
  await assert.rejects(runner.run({ source, hostFunctions, continuation, resolutions: decide(false, 0, 1) }), /no payment to/);
  for (const [given, expected] of [
    [{ source, continuation: `${continuation}x` }, /continuation is invalid/],
    [{ source, continuation: `x${continuation}` }, /continuation is invalid/],
    [{ source: `${source} `, continuation }, /belongs to another script/],
    [{ source, continuation, continuationContext: 'other' }, /belongs to another script/],
  ] as const) {
    await assert.rejects(runner.run({ ...given, hostFunctions }), expected);
  }
  await assert.rejects(createRunner().run({ source, hostFunctions }), /Continuation signing is not configured/);
});

test('the clock advances with calls, and a repeated script sees the same times', async () => {
  const times: number[] = [];
  const { hostFunctions } = bank();
  const clock = { wait: () => new Promise((done) => setTimeout(done, 30)), tell: (...told: number[]) => void times.push(...told) };
  const source = `
    const begin = Date.now();
    await clock.wait();
    await clock.tell(begin, Date.now(), +new Date(), new Date(5).getTime());
    await bank.pay("a");
    return [begin, Date() === String(new Date()), new Date() instanceof Date, Date.UTC(1970, 0), typeof Date.parse];`;
  const functions = { ...hostFunctions, clock };
  const first = await runner.run({ source, hostFunctions: functions });
  assert.ok(isRunInterruptedResult(first));
  const [begin = 0, later = 0, made, given] = times;
  assert.ok(later >= begin + 30 && made === later && given === 5, String(times));
  const resolutions = first.interruptions.map(({ id }) => ({ interruptionId: id, value: true }));
  const last = await runner.run({ source, hostFunctions: functions, continuation: first.continuation as string, resolutions });
  assert.deepEqual([last, times.length], [{ status: 'completed', value: [begin, true, true, 0, 'function'] }, 4]);
});

test('a script uses a decision only once', async () => {
  const { hostFunctions, paid } = bank();
  const source = `
    const pay = () => tools.host_function({ index: 1, name: 'bank.pay', args: ['a'] });
    const results = await Promise.allSettled([pay(), pay(), pay()]);
    return results.map(({ status }) => status).sort();`;
  const first = await runner.run({ source, hostFunctions });
  assert.ok(isRunInterruptedResult(first));
  const [asked] = first.interruptions;
  const last = await runner.run({ source, hostFunctions, continuation: first.continuation as string, resolutions: [{ interruptionId: asked?.id ?? '', value: true }] });
  assert.deepEqual([last, paid], [{ status: 'completed', value: ['fulfilled', 'rejected', 'rejected'] }, ['a']]);
  const forged = 'return await tools.host_function({ index: 1, name: "constructor.constructor", args: ["return 1"] });';
  await assert.rejects(runner.run({ source: forged, hostFunctions }), /there is no host function constructor\.constructor/);
});

test('Code Mode of the AI SDK runs in the sandbox', async () => {
  const add = tool({ inputSchema: z.object({ a: z.number(), b: z.number() }), execute: async ({ a, b }) => ({ sum: a + b }) });
  const js = 'const { sum }: { sum: number } = await tools.add({ a: 1, b: 2 });\nreturn { sum, isSandbox: typeof requireVendor };';
  assert.deepEqual(await runCodeMode({ js, tools: { add } }), { sum: 3, isSandbox: 'function' });
  await assert.rejects(runCodeMode({ js: 'return tools.absent({})', tools: { add } }), /Unknown tool: absent/);
});
