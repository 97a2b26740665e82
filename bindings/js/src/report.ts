// Parts that several adapters share: limits, names, and reports of runs for the models that write the scripts.
import type { Limits, SandboxOptions } from './options.ts';
import type { Run } from './run.ts';

/** The fields of a run that a report uses. */
type Reported = Pick<Run, 'ok' | 'stdout' | 'stderr' | 'valueRepr' | 'outcome' | 'guidance' | 'rolledBackTo'>;

/** The names that scripts can use without quotation marks. */
export const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;

/** Default maximum length of a report, in characters. */
export const MAX_CHARACTERS = 20_000;

/** The engine's default ratio of fuel to time, with which a script times out before its fuel is exhausted. */
export const FUEL_PER_MS = 40_000_000;

/**
 * The default limits of the adapters. A script's tools may call models, which can take longer than a sandbox's default
 * timeout of ten seconds.
 */
const DEFAULT_LIMITS = { timeoutMs: 60_000, fuel: 60_000 * FUEL_PER_MS, toolTimeoutMs: 60_000, toolCalls: 1_000 } as const;

/**
 * Returns the limits of an adapter. `DEFAULT_LIMITS` apply only without a `timeout` and without a daemon: a daemon's
 * own limits can be lower, and a request cannot raise them.
 */
export function adapterLimits({ backend, limits, timeout }: Pick<SandboxOptions, 'backend' | 'limits' | 'timeout'>): Limits {
  return timeout === undefined && backend !== 'daemon' ? { ...DEFAULT_LIMITS, ...limits } : (limits ?? {});
}

/** Cuts the middle out of text that is too long for a model. */
export function shorten(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  const half = Math.floor(maxCharacters / 2);
  return `${text.slice(0, half)}\n[${text.length - 2 * half} characters omitted]\n${text.slice(-half)}`;
}

/**
 * Explains a script's failure to the model that corrects the script: the traceback or the outcome, advice, and a
 * rollback of the session.
 */
export function failure(run: Reported): string {
  const lines = [run.outcome.traceback?.trim() || run.outcome.toString(), ...run.guidance.advice.map(({ summary }) => summary)];
  if (run.rolledBackTo) lines.push('The script was stopped, and its changes to variables and files are undone.');
  return lines.join('\n');
}

/** Returns a script's output, and the value of its last expression or the cause of its failure. */
export function report(run: Reported, maxCharacters: number): string {
  const rest = run.ok ? [run.stderr.trimEnd(), run.valueRepr ?? ''] : [failure(run)];
  return shorten([run.stdout.trimEnd(), ...rest].filter(Boolean).join('\n'), maxCharacters) || '(no output)';
}
