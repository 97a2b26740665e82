// Failures of requests. A script's failure is not a problem but an outcome.

/** The category of a problem, which selects the page's reaction. */
export type ProblemKind = 'unauthorized' | 'busy' | 'lost' | 'cancelled' | 'conflict' | 'refused';

/** A failed request. */
export class Problem extends Error {
  readonly kind: ProblemKind;
  /** The heading above the message. */
  readonly title: string;
  /** Seconds to wait before the next attempt. */
  readonly retryAfter: number | undefined;

  constructor(kind: ProblemKind, title: string, message: string, retryAfter?: number) {
    super(message);
    this.name = 'Problem';
    this.kind = kind;
    this.title = title;
    this.retryAfter = retryAfter;
  }
}

/** Returns the message as a sentence: messages of the API begin in lower case and have no full stop. */
export function sentence({ message, retryAfter }: Problem): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  const again = retryAfter === undefined || /try again in/i.test(text) ? '' : ` Try again in ${retryAfter} s.`;
  return `${text}${/[.!?]$/.test(text) ? '' : '.'}${again}`;
}

/** Converts a thrown value to a problem. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof DOMException && error.name === 'AbortError') return new Problem('cancelled', 'Stopped', 'The script was stopped.');
  return new Problem('refused', 'Request failed', error instanceof Error ? error.message : String(error));
}
