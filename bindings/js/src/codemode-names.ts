// The names of providers, connectors and functions in Code Mode.
import type { HostFunction, ResolvedProvider } from './codemode.ts';
import { IDENTIFIER } from './report.ts';

/** Globals that a provider must not replace. Names that begin with two underscores are also reserved. */
const GLOBALS = new Set(['Promise', 'setTimeout', 'Error', 'console']);

/** Converts a function's name to an identifier for scripts, like the framework's executor. */
function scriptName(name: string): string {
  const plain = name.replace(/[-.\s]/g, '_').replace(/[^\w$]/g, '') || '_';
  return /^\d/.test(plain) ? `_${plain}` : plain;
}

/** Returns a provider's functions, keyed by the names that scripts use. Throws if two functions have the same name. */
export function functionsOf({ name: provider, fns }: ResolvedProvider): Map<string, HostFunction> {
  const functions = new Map<string, HostFunction>();
  const names = new Map<string, string>();
  for (const [name, call] of Object.entries(fns)) {
    const plain = scriptName(name);
    const other = names.get(plain);
    if (other !== undefined) throw new TypeError(`Tool names ${JSON.stringify(other)} and ${JSON.stringify(name)} both sanitize to ${JSON.stringify(plain)} in provider ${JSON.stringify(provider)}`);
    names.set(plain, name);
    functions.set(plain, call);
  }
  return functions;
}

/**
 * Throws if the name of a provider or connector is reserved, is not an identifier, or is not unique. The messages are
 * those of the framework's executor.
 */
export function checkNames(providers: readonly { name: string }[], connectors: readonly { name: string }[]): void {
  const seen = new Set<string>();
  const check = (kind: string, name: string, duplicate: string): void => {
    const shown = JSON.stringify(name);
    if (GLOBALS.has(name) || name.startsWith('__')) throw new TypeError(`${kind} name ${shown} is reserved`);
    if (!IDENTIFIER.test(name)) throw new TypeError(`${kind} name ${shown} is not a valid JavaScript identifier`);
    if (seen.has(name)) throw new TypeError(duplicate);
    seen.add(name);
  };
  for (const { name } of providers) check('Provider', name, `Duplicate provider name ${JSON.stringify(name)}`);
  for (const { name } of connectors) check('Connector', name, `Duplicate name ${JSON.stringify(name)} (connector clashes with provider)`);
}
