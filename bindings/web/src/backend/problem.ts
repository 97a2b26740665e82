// Why something was not done. What a script does is never one.

/** What a problem is to the page, beside what it says. */
export type ProblemKind = 'unauthorized' | 'busy' | 'lost' | 'cancelled' | 'conflict' | 'refused';

/** Why something was not done. */
export class Problem extends Error {
  readonly kind: ProblemKind;
  /** A few words above the message. */
  readonly title: string;
  /** Seconds after which to try again. */
  readonly retryAfter: number | undefined;

  constructor(kind: ProblemKind, title: string, message: string, retryAfter?: number) {
    super(message);
    this.name = 'Problem';
    this.kind = kind;
    this.title = title;
    this.retryAfter = retryAfter;
  }
}

/** What a problem says, as a sentence: the API's messages begin in lower case and have no stop at their end. */
export function sentence({ message, retryAfter }: Problem): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  const again = retryAfter === undefined || /try again in/i.test(text) ? '' : ` Try again in ${retryAfter} s.`;
  return `${text}${/[.!?]$/.test(text) ? '' : '.'}${again}`;
}

/** Anything that was thrown, as a problem. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof DOMException && error.name === 'AbortError') return new Problem('cancelled', 'Stopped', 'The script was stopped.');
  return new Problem('refused', 'This did not work', error instanceof Error ? error.message : String(error));
}
