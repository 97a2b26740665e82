// Functions that scripts can call.
import * as check from './check.ts';
import { ToolDenied } from './errors.ts';
import { parseJson } from './json.ts';

/** The context of a tool call, passed after the arguments. */
export interface ToolContext {
  /** Aborted when the answer is no longer needed: the call timed out, or the execution was cancelled. */
  signal: AbortSignal;
}

/** A function that scripts call as `tools.name(…)`. */
export interface Tool {
  /**
   * The name in scripts: ASCII letters, digits and underscores, starting with a letter. Default: the function's own
   * name.
   */
  name?: string;
  /** The description that `help(tools.name)` shows. Default: empty. */
  description?: string;
  /**
   * A JSON Schema of an object whose properties are the named arguments. Arguments are validated before the call.
   * Default: any object.
   */
  schema?: object;
  /**
   * Answers a call, synchronously or with a promise. Integers outside ±(2^53 − 1) in the arguments are bigints. JSON
   * must be able to represent the result, except that bigints become integers. A thrown `ToolDenied` becomes a
   * `ToolDenied` in the script, and any other error becomes a `ToolError`. Without this function, calls wait for an
   * answer from the caller of `Sandbox.start`.
   */
  execute?(parameters: any, context: ToolContext): unknown;
}

/** A function, which scripts call by its name. `Tool` adds a description and a schema. */
export type ToolFunction = (parameters: any, context: ToolContext) => unknown;

/** The tools of a sandbox: an array of functions and tools with names, or a record by name. */
export type Tools = readonly (Tool | ToolFunction)[] | Readonly<Record<string, Tool | ToolFunction>>;

/** A tool with all fields set. `call` is `undefined` if calls wait for the caller's answer. */
export interface NamedTool {
  name: string;
  description: string;
  schema: object;
  call: ToolFunction | undefined;
}

/** A tool with a function that answers its calls. */
export type AnsweringTool = NamedTool & { call: ToolFunction };

/** Returns `true` if the tool has a function that answers its calls. */
export function isAnswering(tool: NamedTool | undefined): tool is AnsweringTool {
  return tool?.call !== undefined;
}

/** Checks the tools that the caller passed, and fills in defaults. */
export function toolsOf(name: string, tools: unknown): NamedTool[] {
  if (tools === undefined || Array.isArray(tools)) return check.list(name, tools, (at, tool) => toolOf(at, tool));
  if (typeof tools === 'function') throw check.wrong(name, 'an array or an object', tools);
  return check.entries(name, tools, (at, tool) => [at, tool] as const).map(([key, [at, tool]]) => toolOf(at, tool, key));
}

function toolOf(at: string, tool: unknown, key?: string): NamedTool {
  if (typeof tool === 'function') {
    const name = key ?? tool.name;
    if (name === '') throw new TypeError(`${at} is a function without a name; pass { name, execute }`);
    return { name, description: '', schema: { type: 'object' }, call: tool as ToolFunction };
  }
  if (typeof tool !== 'object' || tool === null) throw check.wrong(at, 'a function or an object', tool);
  const { name, description, schema, execute } = tool as Partial<Tool>;
  const answer = check.optional(`${at}.execute`, 'function', execute) as ToolFunction | undefined;
  const called = check.optional(`${at}.name`, 'string', name) ?? key ?? answer?.name;
  if (called === undefined) throw new TypeError(`${at} has neither a name nor execute; pass { name, execute }`);
  if (schema !== undefined && (typeof schema !== 'object' || schema === null)) throw check.wrong(`${at}.schema`, 'an object', schema);
  return {
    name: called,
    description: check.optional(`${at}.description`, 'string', description) ?? '',
    schema: schema ?? { type: 'object' },
    call: answer && ((parameters, context) => answer.call(tool as never, parameters as never, context as never)),
  };
}

/** A tool's answer: the outcome of the call, and the result as JSON text or the message of the failure. */
export type Answer = readonly [kind: 'returned' | 'failed' | 'denied', text: string];

/** Calls a tool with arguments as JSON text, and converts its result or error to an answer. Never rejects. */
export async function answer(tool: AnsweringTool, parameters: string, signal: AbortSignal): Promise<Answer> {
  try {
    return result(tool, await tool.call(parseJson(parameters), { signal }));
  } catch (error) {
    return failed(error);
  }
}

/** Like `answer`, but synchronous, for backends that cannot wait for a promise. */
export function answerNow(tool: AnsweringTool, parameters: string): Answer {
  try {
    const value = tool.call(parseJson(parameters), { signal: new AbortController().signal });
    if (value instanceof Promise) {
      value.catch(() => undefined);
      return ['failed', `the tool \`${tool.name}\` returned a promise, and direct mode cannot wait for it; remove worker: false`];
    }
    return result(tool, value);
  } catch (error) {
    return failed(error);
  }
}

function result(tool: NamedTool, value: unknown): Answer {
  try {
    return ['returned', check.json('', value ?? null)];
  } catch (error) {
    return ['failed', `${tool.name} returned a value that JSON cannot represent: ${(error as Error).message}`];
  }
}

function failed(error: unknown): Answer {
  let text: string;
  try {
    text = String(error instanceof Error ? error.message || error.name : error);
  } catch {
    // The conversion of the thrown value to text can itself throw.
    text = 'the tool threw a value that cannot be converted to text';
  }
  return [error instanceof ToolDenied ? 'denied' : 'failed', text.toWellFormed()];
}
