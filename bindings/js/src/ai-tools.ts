// Converts tools of the AI SDK (`ai`) for scripts, and lists tools for a model. Imports nothing from the SDK.
import type { NamedTool, Tool, ToolFunction, Tools } from './tools.ts';

/** The fields of the SDK's tools that scripts need. */
export interface SdkTool {
  description?: unknown;
  inputSchema: unknown;
  execute?: ((input: any, options: any) => unknown) | undefined;
  needsApproval?: unknown;
}

/** Tools for scripts. A record can also contain the SDK's tools. */
export type CodeTools = Tools | Readonly<Record<string, Tool | ToolFunction | SdkTool>>;

/** A schema of the SDK, or of a library that implements Standard Schema. */
interface InputSchema {
  jsonSchema?: unknown;
  validate?(value: unknown): Result | PromiseLike<Result>;
  '~standard'?: {
    validate(value: unknown): Issues | Promise<Issues>;
    jsonSchema?: { input(options: { target: string }): object };
  };
}

type Result = { success: true; value: unknown } | { success: false; error: Error };
type Issues = { value: unknown; issues?: undefined } | { issues: readonly { message: string }[] };

/** Maximum length of a list of tools in characters. English text of this length is at most 1,000 tokens long. */
const MAX_LIST = 3_500;

/** Maximum number of names in a list. Short names with numbers take four tokens each. */
const MAX_NAMES = 200;

/** Maximum length of the note about omitted names. */
const MAX_END = 20;

/** Maximum length of a tool's description in a list, in characters. */
const MAX_SUMMARY = 120;

/** Converts the SDK's tools, and returns other tools unchanged. */
export function scriptTools(tools: CodeTools | undefined): Tools | undefined {
  if (typeof tools !== 'object' || tools === null || Array.isArray(tools)) return tools as Tools | undefined;
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, isSdkTool(tool) ? scriptTool(name, tool) : tool]));
}

function isSdkTool(tool: Tool | ToolFunction | SdkTool): tool is SdkTool {
  return typeof tool === 'object' && tool !== null && 'inputSchema' in tool;
}

function scriptTool(name: string, tool: SdkTool): Tool {
  const { description, inputSchema, needsApproval } = tool;
  if (needsApproval) throw new TypeError(`tools.${name} needs approval, and scripts cannot wait for it; offer it to the model directly`);
  if (!tool.execute) throw new TypeError(`tools.${name} has no execute; offer it to the model directly`);
  // The SDK also accepts functions that return the schema.
  const input = (typeof inputSchema === 'function' && !('~standard' in inputSchema) ? inputSchema() : inputSchema) as InputSchema;
  const schema = input.jsonSchema ?? input['~standard']?.jsonSchema?.input({ target: 'draft-07' });
  return {
    description: typeof description === 'string' ? description : '',
    schema: typeof schema === 'object' && schema !== null && !('then' in schema) ? schema : { type: 'object' },
    execute: async (parameters, { signal }) => {
      const options = { toolCallId: crypto.randomUUID(), messages: [], abortSignal: signal };
      const result = await tool.execute?.(await parsed(input, parameters), options);
      return isIterable(result) ? last(result) : result;
    },
  };
}

/** Validates the input of a call against the schema, and returns the converted value. */
async function parsed(schema: InputSchema, value: unknown): Promise<unknown> {
  const standard = schema['~standard'];
  if (standard) {
    const checked = await standard.validate(value);
    if (checked.issues) throw new TypeError(checked.issues.map(({ message }) => message).join('; '));
    return checked.value;
  }
  const checked = await schema.validate?.(value);
  if (checked && !checked.success) throw checked.error;
  return checked ? checked.value : value;
}

function isIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

/** Returns the last result of a tool that yields preliminary results. */
async function last(results: AsyncIterable<unknown>): Promise<unknown> {
  let result: unknown;
  for await (const each of results) result = each;
  return result;
}

/** Describes the tools of a script for a model. Lists only names if there are too many tools. */
export function toolList(language: string, tools: readonly NamedTool[]): string {
  if (tools.length === 0) return '';
  const call = language === 'javascript' ? 'await tools.name({ argument: value })' : 'tools.name(argument=value)';
  const whole = tools.map(signature).join('\n');
  const list = `The code can call these functions: ${call}\n${whole}`;
  if (list.length <= MAX_LIST) return list;
  const search = 'tools.search("words") returns the name, description and signature of the functions that match best.';
  let names = `The code can call ${tools.length} functions: ${call}. ${search}\nNames:`;
  for (const [index, { name }] of tools.entries()) {
    if (index === MAX_NAMES || names.length + name.length + 1 + MAX_END > MAX_LIST) return `${names} and ${tools.length - index} more`;
    names += ` ${name}`;
  }
  return names;
}

function signature({ name, description, schema }: NamedTool): string {
  const { properties, required } = schema as { properties?: object; required?: unknown };
  const isRequired = (key: string): boolean => Array.isArray(required) && required.includes(key);
  const keys = Object.keys(properties ?? {}).map((key) => (isRequired(key) ? key : `${key}?`));
  const [line = ''] = description.trim().split('\n', 1);
  const summary = line.length > MAX_SUMMARY ? `${line.slice(0, MAX_SUMMARY)}…` : line;
  return `tools.${name}(${keys.join(', ')})${summary && `: ${summary}`}`;
}
