/**
 * A tool for the AI SDK (`ai`) that runs code. The module imports nothing from the SDK: a tool is a plain object, and
 * its schema is a Standard Schema.
 */
import { type Sandbox, type SandboxOptions, type Session, createSandbox } from 'glovebox-sandbox';
import { type CodeTools, scriptTools, toolList } from './ai-tools.ts';
import * as check from './check.ts';
import { MAX_CHARACTERS, adapterLimits, report } from './report.ts';
import { toolsOf } from './tools.ts';

/** The options of a code tool, including those of its sandbox. */
export interface CodeToolOptions extends Omit<SandboxOptions, 'tools'> {
  /**
   * Functions that scripts can call, including the AI SDK's tools. The default description lists them. Default: none.
   */
  tools?: CodeTools;
  /** The tool's description for the model. */
  description?: string;
  /** Keeps variables, functions and files between calls. Default: true. */
  keep?: boolean;
  /** Maximum length of a result, in characters. The middle of a longer result is cut out. Default: 20,000. */
  maxCharacters?: number;
}

const SCHEMA = {
  type: 'object',
  properties: { code: { type: 'string', description: 'The code to run.' } },
  required: ['code'],
  additionalProperties: false,
} as const;

/** The schema of the tool's input, as a Standard Schema. */
const INPUT = {
  '~standard': {
    version: 1,
    vendor: 'glovebox',
    validate(value: unknown): { value: { code: string } } | { issues: { message: string }[] } {
      const code = typeof value === 'object' && value !== null && 'code' in value ? value.code : undefined;
      return typeof code === 'string' ? { value: { code } } : { issues: [{ message: 'code must be a string' }] };
    },
    jsonSchema: { input: (): Record<string, unknown> => SCHEMA, output: (): Record<string, unknown> => SCHEMA },
    types: undefined as { input: { code: string }; output: { code: string } } | undefined,
  },
} as const;

/** A tool of the AI SDK. */
export interface CodeTool extends AsyncDisposable {
  description: string;
  inputSchema: typeof INPUT;
  execute(input: { code: string }, options?: { abortSignal?: AbortSignal | undefined }): Promise<string>;
  /** Ends the session and releases the sandbox. */
  close(): Promise<void>;
}

const NAMES: Record<string, string> = { python: 'Python', javascript: 'JavaScript' };

/**
 * Creates a tool for `generateText({ tools: { run_code: codeTool() } })`. All conversations that use the tool share its
 * session, so create a tool for each conversation. The result of a failing script tells the model the cause of the
 * failure. By default, a call times out after 60 seconds.
 */
export function codeTool(options: CodeToolOptions = {}): CodeTool {
  const { description, keep: kept, maxCharacters: most, tools: given, ...others } = options;
  const tools = scriptTools(given);
  const rest: SandboxOptions = tools === undefined ? others : { ...others, tools };
  const keep = check.optional('keep', 'boolean', kept) ?? true;
  const maxCharacters = Number(check.whole('maxCharacters', most ?? MAX_CHARACTERS));
  const language = rest.language ?? 'python';
  const memory = keep ? 'Variables, functions and files persist between calls.' : 'Every call uses a new interpreter.';
  const result = 'The result is what the code prints and the value of its last expression.';
  const list = toolList(language, toolsOf('tools', tools));
  let sandbox: Promise<Sandbox> | undefined;
  let session: Promise<Session> | undefined;
  /** Opens the sandbox and session at the first call, because opening them is slow. */
  const open = async (): Promise<Session> => {
    sandbox ??= createSandbox({ ...rest, limits: adapterLimits(rest) });
    sandbox.catch(() => (sandbox = undefined));
    return (await sandbox).session();
  };
  const current = async (): Promise<Session> => {
    const asked = (session ??= open());
    try {
      const known = await asked;
      if (known.ended === undefined) return known;
    } catch (error) {
      if (session === asked) session = undefined;
      throw error;
    }
    if (session === asked) session = open();
    return session ?? open();
  };
  const close = async (): Promise<void> => {
    const [known, box] = [await session?.catch(() => undefined), await sandbox?.catch(() => undefined)];
    session = sandbox = undefined;
    await known?.close();
    await box?.close();
  };
  return {
    description:
      check.optional('description', 'string', description) ??
      [`Runs ${NAMES[language] ?? language} code in a sandbox without network access. ${result} ${memory}`, list].filter(Boolean).join('\n'),
    inputSchema: INPUT,
    async execute({ code }, { abortSignal } = {}) {
      const used = await (keep ? current() : open());
      try {
        return report(await used.execute(code, abortSignal ? { signal: abortSignal } : {}), maxCharacters);
      } finally {
        if (!keep) await used.close();
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
