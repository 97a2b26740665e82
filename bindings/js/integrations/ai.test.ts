// Tests the tool for the AI SDK with the real SDK and a scripted model.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { generateText, isStepCount, jsonSchema, streamText, tool } from 'ai';
import { MockLanguageModelV4, simulateReadableStream } from 'ai/test';
import { type CodeToolOptions, codeTool } from 'glovebox-sandbox/ai';
import { z } from 'zod';

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined },
};

/** Returns a model that calls the tool with each source, and then says `done`. */
function model(sources: string[]): MockLanguageModelV4 {
  let turn = 0;
  return new MockLanguageModelV4({
    doGenerate: async () => {
      const code = sources[turn];
      turn += 1;
      if (code === undefined) return { content: [{ type: 'text', text: 'done' }], finishReason: { unified: 'stop', raw: 'stop' }, usage, warnings: [] };
      const call = { type: 'tool-call', toolCallId: `call-${turn}`, toolName: 'run_code', input: JSON.stringify({ code }) } as const;
      return { content: [call], finishReason: { unified: 'tool-calls', raw: 'tool_calls' }, usage, warnings: [] };
    },
  });
}

/** Returns the tool's result for each source. */
async function results(sources: string[], options: CodeToolOptions = {}): Promise<unknown[]> {
  await using run_code = codeTool(options);
  const scripted = model(sources);
  const { steps, text } = await generateText({ model: scripted, tools: { run_code }, prompt: 'Go.', stopWhen: isStepCount(9) });
  assert.equal(text, 'done');
  const [described] = scripted.doGenerateCalls[0]?.tools ?? [];
  assert.ok(described?.type === 'function');
  assert.match(described.description ?? '', /code in a sandbox without network/);
  assert.deepEqual(described.inputSchema.required, ['code']);
  return steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output));
}

test('a model runs code, and variables are kept', async () => {
  assert.deepEqual(await results(['x = 40', 'print("hi")\nx + 2']), ['(no output)', 'hi\n42']);
  assert.match(String((await results(['x = 40', 'x'], { keep: false }))[1]), /NameError/);
});

test('a script that fails is a result, with advice', async () => {
  const [failed, endless] = await results(['1 / 0', 'while True: pass'], { limits: { fuel: 50_000_000 } });
  assert.match(String(failed), /ZeroDivisionError: division by zero/);
  assert.match(String(endless), /fuel limit|out of fuel/);
});

test('JavaScript runs, with tools and files, and a long result is shortened', async () => {
  const options = { language: 'javascript', tools: { price: ({ item }: { item: string }) => item.length }, maxCharacters: 100 };
  const [priced, long] = await results(['await tools.price({ item: "tea" })', '"x".repeat(1000)'], options);
  assert.equal(priced, '3');
  assert.match(String(long), /^.{50}\n\[\d+ characters omitted\]\n.{50}$/);
});

test('scripts call tools of the SDK, which the model sees in the description', async () => {
  const weather = tool({
    description: 'The weather in a city.\nMore.',
    inputSchema: z.object({ city: z.string(), days: z.number().default(3) }),
    execute: async ({ city, days }, { abortSignal, toolCallId }) => `${city} ${days} ${abortSignal?.aborted} ${typeof toolCallId}`,
  });
  const count = tool({
    inputSchema: jsonSchema<{ to: number }>({ type: 'object', properties: { to: { type: 'integer' } }, required: ['to'] }),
    async *execute({ to }) {
      for (let n = 1; n <= to; n += 1) yield n;
    },
  });
  const options: CodeToolOptions = { language: 'javascript', tools: { weather, count } };
  await using described = codeTool(options);
  assert.ok(described.description.endsWith(': await tools.name({ argument: value })\ntools.weather(city, days?): The weather in a city.\ntools.count(to)'));
  assert.deepEqual(
    await results(['await tools.weather({ city: "Oslo" })', 'await tools.count({ to: 4 })', 'try { await tools.weather({}) } catch (error) { error.name }'], options),
    ["'Oslo 3 false string'", '4', "'InvalidArguments'"],
  );
  assert.throws(() => codeTool({ tools: { pay: tool({ inputSchema: z.object({}), needsApproval: true, execute: async () => 1 }) } }), /tools\.pay needs approval/);
  assert.throws(() => codeTool({ tools: { ask: tool({ inputSchema: z.object({}) }) } }), /tools\.ask has no execute/);
});

test('a description of a thousand tools is short', async () => {
  const tools = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`service_operation_number_${n}`, { description: 'Does.', execute: () => n }]));
  await using many = codeTool({ tools });
  await using none = codeTool();
  // The list costs a model at most 1,000 tokens.
  assert.ok(many.description.length - none.description.length <= 3_501, String(many.description.length));
  assert.match(many.description, /tools\.search\("words"\).*\nNames: service_operation_number_0 .* and \d+ more$/s);
});

test('invalid input does not reach the sandbox', async () => {
  await using run_code = codeTool();
  const scripted = model([undefined as unknown as string]);
  let asked = false;
  scripted.doGenerate = async () => {
    const call = { type: 'tool-call', toolCallId: 'call', toolName: 'run_code', input: '{"code":1}' } as const;
    if (asked) return { content: [{ type: 'text', text: 'done' }], finishReason: { unified: 'stop', raw: 'stop' }, usage, warnings: [] };
    asked = true;
    return { content: [call], finishReason: { unified: 'tool-calls', raw: 'tool_calls' }, usage, warnings: [] };
  };
  const { steps } = await generateText({ model: scripted, tools: { run_code }, prompt: 'Go.', stopWhen: isStepCount(3) });
  const [part] = steps[0]?.content.filter(({ type }) => type === 'tool-error') ?? [];
  assert.match(String((part as { error?: unknown } | undefined)?.error), /code must be a string/);
});

test('streamed text contains the result', async () => {
  await using run_code = codeTool({ language: 'javascript' });
  let turn = 0;
  const streaming = new MockLanguageModelV4({
    doStream: async () => {
      turn += 1;
      const call = { type: 'tool-call', toolCallId: 'call', toolName: 'run_code', input: '{"code":"6 * 7"}' } as const;
      const texts = [{ type: 'text-start', id: '1' }, { type: 'text-delta', id: '1', delta: 'done' }, { type: 'text-end', id: '1' }] as const;
      const reason = turn === 1 ? ({ unified: 'tool-calls', raw: 'tool_calls' } as const) : ({ unified: 'stop', raw: 'stop' } as const);
      return { stream: simulateReadableStream({ chunks: [...(turn === 1 ? [call] : texts), { type: 'finish', finishReason: reason, usage }] }) };
    },
  });
  const { steps, text } = streamText({ model: streaming, tools: { run_code }, prompt: 'Go.', stopWhen: isStepCount(3) });
  assert.equal(await text, 'done');
  assert.deepEqual((await steps)[0]?.toolResults.map(({ output }) => output), ['42']);
});

test('aborting a conversation ends its script', async () => {
  await using run_code = codeTool();
  const begun = performance.now();
  const abortSignal = AbortSignal.timeout(500);
  await assert.rejects(generateText({ model: model(['while True: pass']), tools: { run_code }, prompt: 'Go.', stopWhen: isStepCount(3), abortSignal }));
  assert.ok(performance.now() - begun < 10_000);
});
