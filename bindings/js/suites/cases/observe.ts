// Observations that the cases of all suites make.
import { inspect } from 'node:util';


/** A case runs a script with the executor under test and returns its observations. They must not depend on the time. */
export type Case = () => Promise<unknown>;

/** Awaits a promise and returns its value, or the name, code and message of its error. */
export async function settled(promise: Promise<unknown>): Promise<unknown> {
  try {
    return { value: await promise };
  } catch (error) {
    const { name, code, message } = error as Error & { code?: string };
    return { name, code, message };
  }
}

/** Runs all cases in order and returns their outcomes as JSON, by name. */
export async function inspectAll(cases: Record<string, Case>): Promise<string> {
  const outcomes: Record<string, string> = {};
  for (const [name, run] of Object.entries(cases)) {
    const text = inspect(await settled(run()), { depth: null, sorted: true, maxArrayLength: null, maxStringLength: null, breakLength: Infinity });
    // Versions of Node.js print the length of an ArrayBuffer differently.
    outcomes[name] = text.replaceAll('[byteLength]', 'byteLength');
  }
  return JSON.stringify(outcomes);
}
