// Tests the executor for Code Mode with the real framework and a scripted model.
import assert from 'node:assert/strict';
import { registerHooks } from 'node:module';
import { test } from 'node:test';
import { generateText, isStepCount, tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { GloveboxExecutor } from 'glovebox-sandbox/codemode';
import { z } from 'zod';

// The framework's entry point for the AI SDK also imports modules that exist only on Cloudflare's platform.
const platform = 'export class RpcTarget {} export class WorkerEntrypoint {} export class DurableObject {} export const env = {}, exports = {};';
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'cloudflare:workers' ? { url: `data:text/javascript,${encodeURIComponent(platform)}`, shortCircuit: true } : next(specifier, context),
});
const { createCodeTool } = await import('@cloudflare/codemode/ai');

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined },
};

const tools = {
  weather: tool({
    description: 'The weather.',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => ({ city, degrees: city.length }),
  }),
};

test('a model writes code that calls the tools', async () => {
  await using executor = new GloveboxExecutor();
  let turn = 0;
  const code = `async () => {
    const cities = await Promise.all(['Oslo', 'Bergen'].map((city) => codemode.weather({ city })));
    console.log('asked', cities.length);
    return cities.map(({ degrees }) => degrees);
  }`;
  const model = new MockLanguageModelV4({
    doGenerate: async () => {
      turn += 1;
      if (turn > 1) return { content: [{ type: 'text', text: 'done' }], finishReason: { unified: 'stop', raw: 'stop' }, usage, warnings: [] };
      const call = { type: 'tool-call', toolCallId: 'call', toolName: 'codemode', input: JSON.stringify({ code }) } as const;
      return { content: [call], finishReason: { unified: 'tool-calls', raw: 'tool_calls' }, usage, warnings: [] };
    },
  });
  const codemode = createCodeTool({ tools, executor });
  const { steps } = await generateText({ model, tools: { codemode }, prompt: 'Go.', stopWhen: isStepCount(3) });
  const [output] = steps.flatMap(({ toolResults }) => toolResults.map((result) => result.output as { result: unknown; logs?: string[] }));
  assert.deepEqual([output?.result, output?.logs], [[4, 6], ['asked 2']]);
});

test('errors are in the result', async () => {
  await using executor = new GloveboxExecutor({ limits: { fuel: 100_000_000 } });
  const fns = {
    fail: async () => {
      throw new Error('no such luck');
    },
  };
  assert.deepEqual(await executor.execute('async () => { throw new Error("mine") }', fns), { result: undefined, error: 'mine' });
  assert.equal((await executor.execute('async () => codemode.fail()', fns)).error, 'no such luck');
  assert.match((await executor.execute('async () => codemode.absent()', fns)).error ?? '', /^Tool \"absent\" not found/);
  assert.match((await executor.execute('async () => codemode.constructor()', fns)).error ?? '', /^Tool \"constructor\" not found/);
  assert.match((await executor.execute('async () => { for (;;); }', fns)).error ?? '', /fuel/);
  assert.match((await executor.execute('async () => {', fns)).error ?? '', /./);
  assert.match((await executor.execute('async () => 1', [{ name: 'a b', fns }])).error ?? '', /not a valid JavaScript identifier/);
});

test('providers have namespaces, preludes and connectors', async () => {
  await using executor = new GloveboxExecutor();
  const providers = [
    { name: 'db', fns: { query: async (text: unknown) => `rows of ${text}` } },
    { name: 'codemode', fns: { double: async (n: unknown) => 2 * Number(n) }, prelude: 'codemode.step = async (f) => (await f()) + 1;' },
  ];
  const binding = { callTool: async (method: string, given: unknown) => `${method} ${JSON.stringify(given)}` };
  const code = 'async () => [await db.query("t"), await codemode.step(() => codemode.double(20)), await mail.send({ to: "a" })]';
  const { result, error } = await executor.execute(code, providers, { connectors: [{ name: 'mail', binding }] });
  assert.equal(error, undefined);
  assert.deepEqual(result, ['rows of t', 41, 'send {"to":"a"}']);
});

test('connectors can stop a script, and report errors', async () => {
  await using executor = new GloveboxExecutor();
  const binding = {
    callTool: async (method: string) => (method === 'pay' ? { __codemode_control__: 'pause' } : { __codemode_control__: 'error', message: 'no such bill' }),
  };
  const run = (code: string) => executor.execute(code, [], { connectors: [{ name: 'bank', binding }] });
  assert.equal((await run('async () => { await bank.pay({}); return "paid"; }')).error, '__CODEMODE_PAUSE__');
  assert.equal((await run('async () => bank.find({})')).error, 'no such bill');
});

test('binary data is passed in both directions', async () => {
  await using executor = new GloveboxExecutor();
  const given: unknown[] = [];
  const keep = async (...values: unknown[]) => (given.push(...values), { copy: values[0] });
  const code = `async () => {
    const { copy } = await codemode.keep(new Uint8Array([0, 128, 255]), [new Uint8Array([7, 8, 9]).buffer], new DataView(new ArrayBuffer(4), 1, 2));
    return [copy instanceof Uint8Array, copy, { __codemode_binary_v1__: 'Uint8Array', data: 'é' }];
  }`;
  const { result, error } = await executor.execute(code, { keep });
  assert.equal(error, undefined);
  assert.deepEqual(given, [Uint8Array.of(0, 128, 255), [Uint8Array.of(7, 8, 9).buffer], Uint8Array.of(0, 0)]);
  assert.deepEqual(result, [true, Uint8Array.of(0, 128, 255), { __codemode_binary_v1__: 'Uint8Array', data: 'é' }]);
});

test('names are those of the framework, and warnings are in the logs', async () => {
  await using executor = new GloveboxExecutor({ limits: { timeoutMs: 200 } });
  const one = async () => 1;
  for (const [names, message] of [
    [['Promise'], 'Provider name "Promise" is reserved'],
    [['__glovebox'], 'Provider name "__glovebox" is reserved'],
    [['a', 'a'], 'Duplicate provider name "a"'],
  ] as const) {
    assert.equal((await executor.execute('async () => 1', names.map((name) => ({ name, fns: {} })))).error, message);
  }
  const twice = await executor.execute('async () => 1', { 'a-b': one, a_b: one });
  assert.match(twice.error ?? '', /both sanitize to "a_b"/);
  // A provider can have the name `tools`, like the global through which scripts call the host's functions.
  const named = await executor.execute('async () => [await tools.a_b(), await tools._2()]', [{ name: 'tools', fns: { 'a-b': one, '2': one } }]);
  assert.deepEqual(named.result, [1, 1]);
  const { logs } = await executor.execute('async () => { console.log("a"); console.warn("b"); console.error("c", 1); }', {});
  assert.deepEqual(logs, ['a', '[warn] b', '[error] c 1']);
  assert.match((await executor.execute('async () => new Promise((done) => setTimeout(done, 5000))', {})).error ?? '', /execution timed out/);
});

test('the framework receives only numbers', async () => {
  await using executor = new GloveboxExecutor();
  const given: unknown[] = [];
  const echo = async (n: unknown) => (given.push(n), n);
  const { result } = await executor.execute('async () => [await codemode.echo(2n ** 64n), 2n ** 53n + 1n]', { echo });
  assert.deepEqual([given, result], [[2 ** 64], [2 ** 64, 2 ** 53]]);
});

test('requests to the network are refused', async () => {
  await using executor = new GloveboxExecutor();
  const refused = await executor.execute('async () => fetch("http://127.0.0.1/")', {});
  assert.match(refused.error ?? '', /^fetch failed: the network is off in this sandbox/);
});

test('concurrent executions have separate functions', async () => {
  await using executor = new GloveboxExecutor();
  const of = (n: number) => executor.execute('async () => codemode.which()', { which: async () => n });
  assert.deepEqual((await Promise.all([0, 1, 2, 3].map(of))).map(({ result }) => result), [0, 1, 2, 3]);
});
