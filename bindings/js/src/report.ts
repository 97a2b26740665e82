// What a run is to a model that writes scripts.
import type { Run } from './run.ts';

/** What a report is made of. */
type Reported = Pick<Run, 'ok' | 'stdout' | 'stderr' | 'valueRepr' | 'outcome' | 'guidance' | 'rolledBackTo'>;

/** How long a report is at most, unless the adapter is told otherwise. */
export const MAX_CHARACTERS = 20_000;

/** The limits where none are given: a script's tools may ask models, which takes longer than the ten seconds of a sandbox's own default. */
export const DEFAULT_LIMITS = { timeoutMs: 60_000, toolTimeoutMs: 60_000, toolCalls: 1_000 } as const;

/** A text with its middle left out where it is too long for a model. */
export function shorten(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  const half = Math.floor(maxCharacters / 2);
  return `${text.slice(0, half)}\n[${text.length - 2 * half} characters left out]\n${text.slice(-half)}`;
}

/** Why a script failed, for a model that is to write a better one: traceback, advice, and what became of the session. */
export function failure(run: Reported): string {
  const lines = [run.outcome.traceback?.trim() || run.outcome.toString(), ...run.guidance.advice.map(({ summary }) => summary)];
  if (run.rolledBackTo) lines.push('The script was stopped, and its changes to variables and files are undone.');
  return lines.join('\n');
}

/** What a script printed and the value of its last expression, and, where it failed, why. */
export function report(run: Reported, maxCharacters: number): string {
  const rest = run.ok ? [run.stderr.trimEnd(), run.valueRepr ?? ''] : [failure(run)];
  return shorten([run.stdout.trimEnd(), ...rest].filter(Boolean).join('\n'), maxCharacters) || '(no output)';
}
