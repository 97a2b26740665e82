import { ToolDenied } from '../errors.ts';
import { parseJson, stringifyJson } from '../json.ts';
import type { Answer } from '../tools.ts';
import type { Tool as ToolOfContract } from './contract.ts';
import type { Imports } from './provider.ts';

/** A function that scripts can call by name. */
export interface Tool {
  /** The name in scripts: ASCII letters, digits and underscores, starting with a letter. */
  name: string;
  /** The description that `help(tools.name)` shows. */
  description: string;
  /** A JSON Schema of the arguments object. Arguments are validated against it before the call. Default: any object. */
  argumentsSchema?: object;
  /**
   * Replaces `call` for tools that process JSON text themselves. Returns the outcome of the call, and the result as
   * JSON text or the message of the failure.
   */
  answer?(parameters: string): Answer;
  /**
   * Answers a call synchronously, while the script waits for the result. Integers outside ±(2^53 − 1) in the arguments are
   * bigints, and bigints in the result become integers. A thrown error becomes an exception in the script: a
   * `ToolDenied` remains a `ToolDenied`, and any other error becomes a `ToolError`.
   */
  call(parameters: Record<string, unknown>): unknown;
}

/** Implements `glovebox:sandbox/tools` with functions. */
export function toolsImport(tools: readonly Tool[]): Imports {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const described: ToolOfContract[] = tools.map(({ name, description, argumentsSchema }) => ({
    name,
    description,
    ...(argumentsSchema && { argumentsSchema: stringifyJson(argumentsSchema) }),
  }));
  return {
    'glovebox:sandbox/tools': {
      listTools: () => described,
      call: (name: string, parameters: string): string => {
        const tool = byName.get(name);
        if (!tool) throw failure('unknown', `unknown tool \`${name}\`; call a registered tool`);
        if (tool.answer) {
          const [kind, text] = tool.answer(parameters);
          if (kind !== 'returned') throw failure(kind, text);
          return text;
        }
        let result: unknown;
        try {
          result = tool.call(parseJson(parameters) as Record<string, unknown>);
        } catch (error) {
          throw failure(error instanceof ToolDenied ? 'denied' : 'failed', error instanceof Error ? error.message : String(error));
        }
        if (result instanceof Promise) throw failure('failed', `the tool \`${name}\` returned a promise`);
        return stringifyJson(result ?? null);
      },
    },
  };
}

/** Returns an object to throw. It is not an `Error`, which jco would treat as a trap. */
function failure(kind: 'unknown' | 'failed' | 'denied', message: string): { kind: string; message: string } {
  return { kind, message };
}
