// Reports of runs for models that write scripts.
import type { Run } from './run.ts';

/** The parts of a run that a report uses. */
type Reported = Pick<Run, 'ok' | 'stdout' | 'stderr' | 'valueRepr' | 'outcome' | 'guidance' | 'rolledBackTo'>;

/** Default maximum length of a report, in characters. */
export const MAX_CHARACTERS = 20_000;

/**
 * The default limits of adapters. A script's tools may call models, which takes longer than the ten seconds of a
 * sandbox's own default.
 */
export const DEFAULT_LIMITS = { timeoutMs: 60_000, toolTimeoutMs: 60_000, toolCalls: 1_000 } as const;

/** Cuts out the middle of a text that is too long for a model. */
export function shorten(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  const half = Math.floor(maxCharacters / 2);
  return `${text.slice(0, half)}\n[${text.length - 2 * half} characters left out]\n${text.slice(-half)}`;
}

/**
 * Explains a script's failure to a model that is to write a better script: traceback, advice, and the fate of the
 * session.
 */
export function failure(run: Reported): string {
  const lines = [run.outcome.traceback?.trim() || run.outcome.toString(), ...run.guidance.advice.map(({ summary }) => summary)];
  if (run.rolledBackTo) lines.push('The script was stopped, and its changes to variables and files are undone.');
  return lines.join('\n');
}

/** Returns a script's output and the value of its last expression, and the cause of a failure. */
export function report(run: Reported, maxCharacters: number): string {
  const rest = run.ok ? [run.stderr.trimEnd(), run.valueRepr ?? ''] : [failure(run)];
  return shorten([run.stdout.trimEnd(), ...rest].filter(Boolean).join('\n'), maxCharacters) || '(no output)';
}
