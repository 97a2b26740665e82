// Functions that scripts may call.
import * as check from './check.ts';

/** What a tool is told beside its arguments. */
export interface ToolContext {
  /** Aborted when nobody waits for the answer any longer: its time is over, or the execution was cancelled. */
  signal: AbortSignal;
}

/** A function that scripts call as `tools.name(…)`. */
export interface Tool {
  /** The name that scripts use: ASCII letters, digits and underscores, beginning with a letter. Default: the function's own. */
  name?: string;
  /** What `help(tools.name)` shows. Default: nothing. */
  description?: string;
  /** A JSON Schema of an object, whose properties are the named arguments. They are held to it before the call. Default: any object. */
  schema?: object;
  /**
   * Answers a call, at once or with a promise. What it returns is a value that JSON has; what it throws is a `ToolError` in the script.
   */
  execute(parameters: any, context: ToolContext): unknown;
}

/** A function alone, which scripts call by its name, or one with a description and a schema. */
export type ToolFunction = (parameters: any, context: ToolContext) => unknown;

/** The tools of a sandbox: functions with names of their own, or by their names. */
export type Tools = readonly (Tool | ToolFunction)[] | Readonly<Record<string, Tool | ToolFunction>>;

/** A tool, complete. */
export interface NamedTool {
  name: string;
  description: string;
  schema: object;
  call: ToolFunction;
}

/** The tools that were given, complete. */
export function toolsOf(name: string, tools: unknown): NamedTool[] {
  if (tools === undefined || Array.isArray(tools)) return check.list(name, tools, (at, tool) => toolOf(at, tool));
  if (typeof tools === 'function') throw check.wrong(name, 'an array or an object', tools);
  return check.entries(name, tools, (at, tool) => [at, tool] as const).map(([key, [at, tool]]) => toolOf(at, tool, key));
}

function toolOf(at: string, tool: unknown, key?: string): NamedTool {
  if (typeof tool === 'function') {
    const name = key ?? tool.name;
    if (name === '') throw new TypeError(`${at} is a function without a name; give { name, execute }`);
    return { name, description: '', schema: { type: 'object' }, call: tool as ToolFunction };
  }
  if (typeof tool !== 'object' || tool === null) throw check.wrong(at, 'a function or an object', tool);
  const { name, description, schema, execute } = tool as Partial<Tool>;
  const answer = check.of(`${at}.execute`, 'function', execute) as ToolFunction;
  const called = check.optional(`${at}.name`, 'string', name) ?? key ?? answer.name;
  if (schema !== undefined && (typeof schema !== 'object' || schema === null)) throw check.wrong(`${at}.schema`, 'an object', schema);
  return {
    name: called,
    description: check.optional(`${at}.description`, 'string', description) ?? '',
    schema: schema ?? { type: 'object' },
    call: (parameters, context) => answer.call(tool as never, parameters as never, context as never),
  };
}

/** What a tool answered: the result as JSON text, or why there is none. */
export type Answer = readonly [isOk: boolean, text: string];

/** Answers a call, whose arguments are JSON text. It never fails. */
export async function answer(tool: NamedTool, parameters: string, signal: AbortSignal): Promise<Answer> {
  try {
    return result(tool, await tool.call(JSON.parse(parameters), { signal }));
  } catch (error) {
    return failed(error);
  }
}

/** The same at once, where nothing can wait for a promise. */
export function answerNow(tool: NamedTool, parameters: string): Answer {
  try {
    const value = tool.call(JSON.parse(parameters), { signal: new AbortController().signal });
    if (value instanceof Promise) {
      value.catch(() => undefined);
      return [false, `the tool \`${tool.name}\` answered with a promise, which direct mode cannot wait for; leave out worker: false`];
    }
    return result(tool, value);
  } catch (error) {
    return failed(error);
  }
}

function result(tool: NamedTool, value: unknown): Answer {
  try {
    return [true, check.json('', value ?? null)];
  } catch (error) {
    return [false, `${tool.name} returned what JSON has no form for: ${(error as Error).message}`];
  }
}

function failed(error: unknown): Answer {
  let text: string;
  try {
    text = String(error instanceof Error ? error.message || error.name : error);
  } catch {
    // What was thrown has a mind of its own.
    text = 'the tool threw what has no text';
  }
  return [false, text.toWellFormed()];
}
