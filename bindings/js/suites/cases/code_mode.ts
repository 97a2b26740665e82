// Cases for `@ai-sdk/code-mode`, from its README and its types. The package runs scripts with the package `run`.
import {
  type CodeModeInterrupt,
  type RunCodeModeInput,
  experimental_continueCodeModeApproval as continueApproval,
  experimental_continueCodeModeInterrupt as continueInterrupt,
  experimental_createCodeModeTool as createCodeModeTool,
  experimental_isCodeModeApprovalInterrupt as isApprovalInterrupt,
  experimental_isCodeModeInterrupt as isInterrupt,
  experimental_requestCodeModeInterrupt as requestInterrupt,
  experimental_runCodeMode as runCodeMode,
  experimental_unwrapCodeModeResult as unwrapResult,
} from '@ai-sdk/code-mode';
import { tool } from 'ai';
import { z } from 'zod';
import { type Case, settled } from './observe.ts';

const security = { signingKey: 's'.repeat(32) };
const product = z.object({ productId: z.string() });

/** Returns the tools of a shop, and the list of calls that had an effect. */
function shop() {
  const effects: unknown[] = [];
  const tools = {
    inventory: tool({ inputSchema: product, execute: async ({ productId }) => ({ productId, units: 42 }) }),
    demand: tool({ inputSchema: product, outputSchema: z.object({ units: z.number() }), execute: async () => ({ units: 31 }) }),
    fail: tool({ inputSchema: z.object({}), execute: async (): Promise<string> => { throw new TypeError('no such luck'); } }),
    nothing: tool({ inputSchema: z.object({}), execute: async () => undefined }),
    stream: tool({
      inputSchema: z.object({}),
      execute: async function* () {
        yield 'first';
        yield 'last';
      },
    }),
    order: tool({ inputSchema: product, needsApproval: true, execute: async ({ productId }) => (effects.push(productId), `ordered ${productId}`) }),
    ask: tool({
      inputSchema: product,
      execute: async ({ productId }, { codeModeInterrupt }: { codeModeInterrupt?: { resolution: unknown } }) =>
        codeModeInterrupt ? { productId, answer: codeModeInterrupt.resolution } : requestInterrupt({ kind: 'question', productId }),
    }),
    external: tool({ inputSchema: product }),
    context: tool({ inputSchema: z.object({}), execute: async (_, { toolCallId, messages }) => [typeof toolCallId, messages.length] }),
  };
  return { tools, effects };
}

/** Runs a script and returns its result or error. */
const script = (js: string, options: RunCodeModeInput['options'] = {}, rest: Partial<RunCodeModeInput> = {}): Case => () =>
  settled(runCodeMode({ js, tools: shop().tools, options, ...rest }));

/** Runs a script that is expected to fail, and returns the name and code of the error. Each engine has its own texts. */
const failure = (js: string, options: RunCodeModeInput['options'] = {}, rest: Partial<RunCodeModeInput> = {}): Case => async () => {
  const outcome = (await script(js, options, rest)()) as { value?: unknown; name: string; code: string };
  return 'value' in outcome ? outcome : [outcome.name, outcome.code];
};

/** Runs a script with approvals as interruptions, answers all of them, and returns the requests, effects and result. */
async function approve(js: string, approved: boolean): Promise<unknown> {
  const { tools, effects } = shop();
  const options = { approval: { mode: 'interrupt' as const }, continuationSecurity: security };
  const asked: unknown[] = [];
  let result = await settled(runCodeMode({ js, tools, options, toolExecutionOptions: { toolCallId: 'outer', messages: [] } }));
  for (let turn = 0; turn < 4; turn += 1) {
    const interrupt = (result as { value?: unknown }).value;
    if (!isApprovalInterrupt(interrupt, security)) break;
    asked.push([interrupt.toolName, interrupt.input]);
    const approvalResponse = { approvalId: interrupt.interruptId, approved, reason: 'because' };
    result = await settled(continueApproval({ interrupt, approvalResponse, tools, options, toolExecutionOptions: { toolCallId: 'outer', messages: [] } }));
  }
  // Concurrent calls take effect in any order.
  return { asked, effects: effects.toSorted(), result };
}

/** Runs a script that asks the host, and continues it with a resolution. */
async function resolve(js: string, resolution: unknown, change: (interrupt: CodeModeInterrupt) => CodeModeInterrupt = (same) => same): Promise<unknown> {
  const { tools } = shop();
  const options = { continuationSecurity: security };
  const first = await runCodeMode({ js, tools, options });
  if (!isInterrupt(first, security)) return first;
  return [first.payload, unwrapResult(first, security).status, await settled(continueInterrupt({ interrupt: change(first), resolution, tools, options }))];
}

export const cases: Record<string, Case> = {
  'README: two tools at once': script(
    `const [inventory, demand] = await Promise.all([tools.inventory({ productId: 'a' }), tools.demand({ productId: 'a' })]);
     return { sufficient: inventory.units >= demand.units, remaining: inventory.units - demand.units };`,
  ),
  'result: none': script(''),
  'result: null': script('return null;'),
  'result: array': script('return [1, "a", { b: true }];'),
  'result: date': script('return new Date(0);'),
  'result: bigint': failure('return 1n;'),
  'result: function': failure('return () => 1;'),
  'result: not a number': script('return [NaN];'),
  'source: TypeScript': script('const n: number = 1; return n as number;'),
  'source: syntax error': failure('return ; }'),
  'source: too long': failure('return 1;', { executionPolicy: { maxSourceBytes: 3 } }),
  'tool: input': script('return await tools.inventory({ productId: "a" });'),
  'tool: invalid input': failure('return await tools.inventory({ productId: 1 });'),
  'tool: no input': failure('return await tools.inventory();'),
  'tool: error': failure('return await tools.fail({});'),
  'tool: error is catchable': script('try { await tools.fail({}); } catch (error) { return error instanceof Error; }'),
  'tool: absent': failure('return await tools.absent({});'),
  'tool: inherited property': failure('return await tools.constructor({});'),
  'tool: undefined result': script('return (await tools.nothing({})) === undefined;'),
  'tool: stream': script('return await tools.stream({});'),
  'tool: without execute': failure('return await tools.external({ productId: "a" });'),
  'tool: context': script('return await tools.context({});'),
  'tool: context of the caller': script('return await tools.context({});', {}, { toolExecutionOptions: { toolCallId: 'outer', messages: [{ role: 'user', content: 'a' }] } }),
  'tool: names': script('return Object.keys(tools).length;'),
  'tool: concurrent': script('return (await Promise.all(Array.from({ length: 10 }, (_, n) => tools.inventory({ productId: String(n) })))).map(({ productId }) => productId);'),
  'tool: not awaited': failure('tools.inventory({ productId: "a" }); return 1;'),
  'limit: time': script('for (;;);', { executionPolicy: { timeoutMs: 200 } }),
  'limit: memory': failure('const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1));', { executionPolicy: { memoryLimitBytes: 32 << 20 } }),
  'limit: result': failure('return "x".repeat(100);', { executionPolicy: { maxResultBytes: 50 } }),
  'limit: input': failure('return await tools.inventory({ productId: "x".repeat(100) });', { executionPolicy: { maxToolInputBytes: 50 } }),
  'limit: output': failure('return await tools.inventory({ productId: "x".repeat(100) });', { executionPolicy: { maxToolOutputBytes: 50 } }),
  'limit: number of calls': failure('for (let i = 0; i < 4; i += 1) await tools.nothing({});', { executionPolicy: { maxBridgeRequests: 3 } }),
  'abort: before': failure('return 1;', {}, { toolExecutionOptions: { toolCallId: 'a', messages: [], abortSignal: AbortSignal.abort() } }),
  'abort: during': () => failure('for (;;);', {}, { toolExecutionOptions: { toolCallId: 'a', messages: [], abortSignal: AbortSignal.timeout(150) } })(),
  'error: thrown': failure('throw new TypeError("mine");'),
  'error: message': async () => /mine/.test(((await script('throw new TypeError("mine");')()) as { message: string }).message),
  'error: rejected promise': failure('await Promise.reject(new Error("r"));'),
  'approval: no callback': failure('return await tools.order({ productId: "a" });'),
  'approval: approved by the callback': script('return await tools.order({ productId: "a" });', { approval: { onApprovalRequired: () => 'approved' } }),
  'approval: denied by the callback': failure('return await tools.order({ productId: "a" });', { approval: { onApprovalRequired: () => ({ approved: false, reason: 'no' }) } }),
  'approval: denial is catchable': script('try { await tools.order({ productId: "a" }); } catch { return "denied"; }', { approval: { onApprovalRequired: () => 'denied' } }),
  'approval: interrupt and approve': () => approve('return await tools.order({ productId: "a" });', true),
  'approval: interrupt and deny': () => approve('return await tools.order({ productId: "a" });', false),
  'approval: two in a row': () => approve('return [await tools.order({ productId: "a" }), await tools.order({ productId: "b" })];', true),
  'approval: two at once': () => approve('return await Promise.all([tools.order({ productId: "a" }), tools.order({ productId: "b" })]);', true),
  'approval: after other calls': () => approve('const { units } = await tools.inventory({ productId: "a" }); return [units, await tools.order({ productId: "a" })];', true),
  'interrupt: resolution': () => resolve('return await tools.ask({ productId: "a" });', { yes: true }),
  'interrupt: text as resolution': () => resolve('const { answer } = await tools.ask({ productId: "a" }); return answer.length;', 'four'),
  'interrupt: other script': () => resolve('return await tools.ask({ productId: "a" });', 1, (interrupt) => ({ ...interrupt, continuation: { ...interrupt.continuation, js: 'return 1;' } })),
  'interrupt: other signature': () =>
    resolve('return await tools.ask({ productId: "a" });', 1, (interrupt) => ({ ...interrupt, continuation: { ...interrupt.continuation, auth: { ...interrupt.continuation.auth, signature: 'x' } } })),
  'sandbox: no Node.js': script('return typeof process;'),
  'sandbox: no evaluation': failure('return eval("1 + 1");'),
  'code mode tool: executes': async () => {
    const { execute } = createCodeModeTool(shop().tools);
    return settled(Promise.resolve(execute?.({ js: 'return (await tools.inventory({ productId: "a" })).units;' }, { toolCallId: 'outer', messages: [], context: undefined } as never)));
  },
};
