// Cases for the functions of the `run` package, from its README.
import { type HostFunctions, createRunner, createSignedContinuationCodec, getHostFunctionContext, isRunInterruptedResult, run } from 'run';
import { type Case, settled } from './observe.ts';

const continuationSecret = 's'.repeat(32);
const runner = createRunner({ continuationSecret });

const tools = {
  sum: (...values: number[]) => values.reduce((total, value) => total + value, 0),
  later: async (value: unknown) => (await new Promise((done) => setTimeout(done, 5)), value),
  echo: (...values: unknown[]) => values,
  nothing: () => undefined,
  fail: () => {
    throw new TypeError('no such luck');
  },
};

/** Runs a script and returns its result or error. */
const script = (source: string, options: object = {}): Case => () => settled(run({ source, hostFunctions: { tools }, ...options }));

/** Runs a script that is expected to fail, and returns the code of the error. The texts are those of each engine. */
const code = (source: string, options: object = {}): Case => async () => {
  const outcome = (await script(source, options)()) as { code?: string; value?: unknown };
  return 'value' in outcome ? outcome : outcome.code;
};

/** Sends a value to a host function and returns it, and describes what the script and the host received. */
const value = (expression: string): Case => async () => {
  const received: unknown[] = [];
  const hostFunctions = { tools: { keep: (given: unknown) => (received.push(given), given) } };
  return [await settled(run({ source: `return await tools.keep(${expression});`, hostFunctions })), received];
};

/** Returns host functions that ask for a decision, and the list of calls that had an effect. */
function bank(): { hostFunctions: HostFunctions; effects: unknown[] } {
  const effects: unknown[] = [];
  const pay = (to: string): string => {
    const { interrupt, resume } = getHostFunctionContext();
    if (!resume) return interrupt({ pay: to });
    if (resume.resolution !== true) throw new Error(`no payment to ${to}`);
    effects.push(to);
    return `paid ${to}`;
  };
  return { hostFunctions: { bank: { pay, balance: () => effects.push('balance') } }, effects };
}

/** Runs a script, decides its interruptions up to three times, and returns the interruptions, effects and the result. */
async function decide(source: string, decision: unknown, changes: object = {}, other = runner): Promise<unknown> {
  const { hostFunctions, effects } = bank();
  const asked: unknown[] = [];
  let result = await runner.run({ source, hostFunctions });
  while (isRunInterruptedResult(result) && asked.length < 3) {
    const { continuation, interruptions } = result;
    asked.push(interruptions.map(({ hostFunctionName, arguments: args, payload }) => ({ hostFunctionName, args, payload })));
    const resolutions = interruptions.map(({ id }) => ({ interruptionId: id, value: decision }));
    const next = await settled(other.run({ source, hostFunctions, continuation, resolutions, ...changes }));
    if (!(next as { value?: unknown }).value) return { asked, effects: effects.toSorted(), error: (next as { name: string; code: string }).code };
    result = (next as { value: typeof result }).value;
  }
  // Concurrent calls take effect in any order. Tokens and IDs are different in each run.
  return { asked, effects: effects.toSorted(), result: isRunInterruptedResult(result) ? result.status : result };
}

const PAY_TWICE = 'const a = await bank.pay("a");\nreturn [a, await bank.pay("b")];';

export const cases: Record<string, Case> = {
  'result: object': script('return { total: await tools.sum(1, 2, 3, 4) };'),
  'result: none': script('const n = 1;'),
  'result: null': script('return null;'),
  'result: text': script('return "é\\u{1f600}\\0";'),
  'result: nested': script('return { a: [{ b: [[]] }], c: {} };'),
  'source: TypeScript': script('interface P { x: number }\nconst p: P = { x: 1 };\nreturn (p as P).x satisfies number;'),
  'source: top-level await': script('const n = await Promise.resolve(2);\nreturn n;'),
  'source: strict mode': script('return (function () { return this === undefined; })();'),
  'source: generators and destructuring': script('function* g() { yield* [1, 2]; }\nconst [a, ...b] = g();\nreturn { a, b };'),
  'source: syntax error': code('return ; }'),
  'source: too long': script('return 1', { limits: { maxSourceBytes: 3 } }),
  'call: positional arguments': script('return await tools.echo(1, "a", null, [2]);'),
  'call: no argument': script('return await tools.echo();'),
  'call: undefined argument': script('return (await tools.echo(undefined, 1)).length;'),
  'call: undefined result': script('return await tools.nothing() === undefined;'),
  'call: asynchronous function': script('return await tools.later("done");'),
  'call: concurrent': script('return await Promise.all([1, 2, 3].map((n) => tools.later(n)));'),
  'call: groups': script('return [await a.f(), await b.f()];', { hostFunctions: { a: { f: () => 'a' }, b: { f: () => 'b' } } }),
  'call: error is catchable': script('try { await tools.fail(); } catch (error) { return [error instanceof Error, error.message]; }'),
  'call: uncaught error': code('await tools.fail();'),
  'call: absent function': code('await tools.absent();'),
  'call: inherited property': code('await tools.constructor();'),
  'call: absent group': code('await absent.f();'),
  'call: not awaited': code('tools.later(1); return 2;'),
  'call: invalid name of a group': script('', { hostFunctions: { 'a b': {} } }),
  'call: invalid name of a function': script('', { hostFunctions: { a: { 'b c': () => 1 } } }),
  'call: inherited functions': code('return await a.f();', { hostFunctions: { a: Object.create({ f: () => 1 }) } }),
  'value: undefined': value('undefined'),
  'value: negative zero': value('-0'),
  'value: not a number': value('[NaN, Infinity, -Infinity]'),
  'value: bigint': value('2n ** 70n'),
  'value: small bigint': value('1n'),
  'value: large number': value('[2 ** 53, 2 ** 64, 1e300]'),
  'value: date': value('new Date(0)'),
  'value: regular expression': value('/a+/gi'),
  'value: map and set': value('[new Map([["a", 1]]), new Set([1])]'),
  'value: typed arrays': value('[new Uint8Array([0, 255]), new ArrayBuffer(2)]'),
  'value: float array': value('new Float64Array([0.5])'),
  'value: error': script('const [error] = await tools.echo(new RangeError("r"));\nreturn [error instanceof Error, error.name, error.message];'),
  'value: sparse array': value('[1, , 3]'),
  'value: cycle': value('(() => { const a = {}; a.self = a; return a; })()'),
  'value: repeated reference': script('const a = {}; const [x, y] = await tools.echo(a, a); return x === y;'),
  'value: key __proto__': value('JSON.parse(\'{"__proto__": 1, "a": 2}\')'),
  'value: class instance': value('new (class A { x = 1 })()'),
  'value: function': code('return () => 1;'),
  'value: symbol': code('return Symbol("s");'),
  'limit: time': script('for (;;);', { limits: { timeoutMs: 200 } }),
  'limit: time in a call': script('await tools.wait();', { limits: { timeoutMs: 200 }, hostFunctions: { tools: { wait: () => new Promise(() => undefined) } } }),
  'limit: memory': code('const all = [];\nfor (;;) all.push(new Uint8Array(1 << 20).fill(1));', { limits: { memoryLimitBytes: 32 << 20 } }),
  'limit: stack is catchable': script('const f = () => f() + 1;\ntry { f(); } catch { return "caught"; }'),
  'limit: result': code('return "x".repeat(100);', { limits: { maxResultBytes: 50 } }),
  'limit: arguments': code('await tools.echo("x".repeat(100));', { limits: { maxHostFunctionArgumentsBytes: 50 } }),
  'limit: output of a function': code('await tools.big();', { limits: { maxHostFunctionOutputBytes: 50 }, hostFunctions: { tools: { big: () => 'x'.repeat(100) } } }),
  'limit: number of calls': code('for (let i = 0; i < 4; i += 1) await tools.sum();', { limits: { maxBridgeRequests: 3 } }),
  'limit: concurrent calls': code('await Promise.all([1, 2, 3].map(tools.later));', { limits: { maxInFlightBridgeRequests: 2 } }),
  'limit: enough calls': script('for (let i = 0; i < 3; i += 1) await tools.sum();\nreturn "done";', { limits: { maxBridgeRequests: 3 } }),
  'limit: zero': script('', { limits: { timeoutMs: 0 } }),
  'limit: too large': script('', { limits: { maxResultBytes: 2 ** 31 } }),
  'limit: of the runner': () => settled(createRunner({ limits: { timeoutMs: 150 } }).run({ source: 'for (;;);' })),
  'abort: before': script('return 1;', { abortSignal: AbortSignal.abort() }),
  'abort: during': () => settled(run({ source: 'for (;;);', abortSignal: AbortSignal.timeout(150) })),
  'context: of a call': async () => {
    const seen: unknown[] = [];
    const look = async () => {
      await Promise.resolve();
      const { hostFunctionName, requestIndex, resume, logicalRunId, invocationId, requestId } = getHostFunctionContext();
      seen.push({ hostFunctionName, requestIndex, resume, types: [typeof logicalRunId, typeof invocationId, typeof requestId] });
    };
    return [await settled(run({ source: 'await tools.look(); await tools.look();', hostFunctions: { tools: { look } } })), seen];
  },
  'context: outside a call': async () => {
    try {
      return getHostFunctionContext() && 'found';
    } catch {
      return 'thrown';
    }
  },
  'error: name and message': script('throw new TypeError("mine");'),
  'error: own class': script('class Mine extends Error { name = "Mine" }\nthrow new Mine("m");'),
  'error: own code': script('throw Object.assign(new Error("m"), { code: "RUN_TIMEOUT" });'),
  'error: text': code('throw "text";'),
  'error: rejected promise': script('await Promise.reject(new RangeError("r"));'),
  'sandbox: no Node.js': script('return [typeof process, typeof require, typeof fetch];'),
  'sandbox: no timers': script('return typeof setTimeout;'),
  'sandbox: no evaluation': code('return eval("1 + 1");'),
  'sandbox: no functions from text': code('return new Function("return 1")();'),
  'sandbox: frozen prototypes': script('"use strict"; try { Array.prototype.mine = 1; } catch {} return [].mine;'),
  'sandbox: fresh context': async () => {
    await run({ source: 'globalThis.kept = 1;' }).catch(() => undefined);
    return settled(run({ source: 'return typeof kept;' }));
  },
  'sandbox: replaced group': code('tools = {}; return 1;'),
  'console: no effect on the result': script('console.log("a"); console.error("b"); return 1;'),
  'concurrency: separate functions': () => Promise.all([1, 2, 3].map((n) => settled(run({ source: 'return await tools.n();', hostFunctions: { tools: { n: () => n } } })))),
  'interrupt: one call': () => decide('return await bank.pay("a");', true),
  'interrupt: one after the other': () => decide(PAY_TWICE, true),
  'interrupt: together': () => decide('return await Promise.all([bank.pay("a"), bank.pay("b")]);', true),
  'interrupt: completed calls are not repeated': () => decide('const n = await bank.balance();\nawait bank.pay("a");\nreturn [n, await bank.balance()];', true),
  'interrupt: refused': () => decide('return await bank.pay("a");', false),
  'interrupt: refusal is catchable': () => decide('try { return await bank.pay("a"); } catch (error) { return error.message; }', false),
  'interrupt: the same random numbers': async () => {
    const seen: unknown[] = [];
    const { hostFunctions } = bank();
    const functions = { ...hostFunctions, seen: { keep: (n: unknown) => void seen.push(n) } };
    const source = 'const before = [Math.random(), Date.now()];\nawait bank.pay("a");\nawait seen.keep(before);\nreturn before;';
    const first = await runner.run({ source, hostFunctions: functions });
    if (!isRunInterruptedResult(first)) return first;
    const resolutions = first.interruptions.map(({ id }) => ({ interruptionId: id, value: true }));
    const again = () => runner.run({ source, hostFunctions: functions, continuation: first.continuation, resolutions });
    const [one, two] = [await again(), await again()];
    return [one.status, JSON.stringify(one) === JSON.stringify(two)];
  },
  'interrupt: some of the decisions': async () => {
    const { hostFunctions, effects } = bank();
    const source = 'return await Promise.all([bank.pay("a"), bank.pay("b")]);';
    const first = await runner.run({ source, hostFunctions });
    if (!isRunInterruptedResult(first)) return first;
    const [, second] = first.interruptions;
    const next = await runner.run({ source, hostFunctions, continuation: first.continuation, resolutions: [{ interruptionId: second?.id ?? '', value: true }] });
    if (!isRunInterruptedResult(next)) return next;
    return [effects, next.interruptions.map(({ payload }) => payload), next.interruptions[0]?.id === first.interruptions[0]?.id];
  },
  'interrupt: logical run': async () => {
    const runs: unknown[] = [];
    const ask = () => {
      const { logicalRunId, invocationId, interrupt, resume } = getHostFunctionContext();
      runs.push([logicalRunId, invocationId]);
      return resume ? resume.payload : interrupt('payload');
    };
    const input = { source: 'return await tools.ask();', hostFunctions: { tools: { ask } } };
    const first = await runner.run(input);
    if (!isRunInterruptedResult(first)) return first;
    const last = await runner.run({ ...input, continuation: first.continuation, resolutions: first.interruptions.map(({ id }) => ({ interruptionId: id, value: 1 })) });
    const [[logical, invocation], [logicalAgain, invocationAgain]] = runs as [[unknown, unknown], [unknown, unknown]];
    return [last, logical === logicalAgain, invocation === invocationAgain];
  },
  'interrupt: without a secret': async () => {
    delete process.env['RUN_CONTINUATION_SECRET'];
    return settled(run({ source: 'return await bank.pay("a");', hostFunctions: bank().hostFunctions }));
  },
  'continuation: other source': () => decide('return await bank.pay("a");', true, { source: 'return 1;' }),
  'continuation: other functions': () => decide('return await bank.pay("a");', true, { hostFunctions: { bank: { pay: () => 1 } } }),
  'continuation: other context': () => decide('return await bank.pay("a");', true, { continuationContext: { tenant: 2 } }),
  'continuation: other audience': () => decide('return await bank.pay("a");', true, {}, createRunner({ continuationSecret, continuationAudience: 'other' })),
  'continuation: other secret': () => decide('return await bank.pay("a");', true, {}, createRunner({ continuationSecret: 'o'.repeat(32) })),
  'continuation: changed': () => decide('return await bank.pay("a");', true, { continuation: 'changed' }),
  'continuation: other process with the secret': () => decide(PAY_TWICE, true, {}, createRunner({ continuationSecret })),
  'continuation: unknown decision': () => decide('return await bank.pay("a");', true, { resolutions: [{ interruptionId: 'unknown', value: true }] }),
  'continuation: decision without a continuation': script('return 1;', { resolutions: [{ interruptionId: 'unknown', value: true }] }),
  'continuation: signed codec with an earlier secret': () =>
    decide('return await bank.pay("a");', true, {}, createRunner({ continuationCodec: createSignedContinuationCodec({ secret: 'n'.repeat(32), verificationSecrets: [continuationSecret] }) })),
  'continuation: short secret': async () => {
    try {
      return createRunner({ continuationSecret: 'short' }) && 'created';
    } catch (error) {
      return (error as Error).name;
    }
  },
};
