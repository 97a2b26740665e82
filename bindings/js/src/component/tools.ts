import type { Tool as ToolOfContract } from './contract.ts';
import type { Imports } from './provider.ts';

/** A function that scripts may call by name. */
export interface Tool {
  /** What scripts call it by: ASCII letters, digits and underscores, beginning with a letter. */
  name: string;
  /** What `help(tools.name)` shows. */
  description: string;
  /** A JSON Schema of its arguments, an object. They are held to it before the tool is called. Default: any object. */
  argumentsSchema?: object;
  /** Answers a call with text both ways: the result as JSON text, or why there is none. In place of `call`. */
  answer?(parameters: string): readonly [isOk: boolean, text: string];
  /** Answers a call at once: the script waits for it. What it throws is an exception in the script. */
  call(parameters: Record<string, unknown>): unknown;
}

/** `glovebox:sandbox/tools`, answered by these functions. */
export function toolsImport(tools: readonly Tool[]): Imports {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const described: ToolOfContract[] = tools.map(({ name, description, argumentsSchema }) => ({
    name,
    description,
    ...(argumentsSchema && { argumentsSchema: JSON.stringify(argumentsSchema) }),
  }));
  return {
    'glovebox:sandbox/tools': {
      listTools: () => described,
      call: (name: string, parameters: string): string => {
        const tool = byName.get(name);
        if (!tool) throw failure('unknown', `there is no tool \`${name}\``);
        if (tool.answer) {
          const [isOk, text] = tool.answer(parameters);
          if (!isOk) throw failure('failed', text);
          return text;
        }
        let result: unknown;
        try {
          result = tool.call(JSON.parse(parameters) as Record<string, unknown>);
        } catch (error) {
          throw failure('failed', error instanceof Error ? error.message : String(error));
        }
        if (result instanceof Promise) throw failure('failed', `the tool \`${name}\` answered with a promise`);
        return JSON.stringify(result ?? null);
      },
    },
  };
}

/** Thrown as it is: an `Error` would be taken for a trap. */
function failure(kind: 'unknown' | 'failed', message: string): { kind: string; message: string } {
  return { kind, message };
}
