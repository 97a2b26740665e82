// The examples of docs/examples and of the page itself. The build inserts them.
import type { Language } from './backend/backend.ts';

/** A script with the files that it reads. */
export interface Example {
  title: string;
  language: Language;
  source: string;
  files: Record<string, string>;
  /** True if the example imports packages that not every backend has. */
  needsPackages: boolean;
}

declare const GLOVEBOX_EXAMPLES: readonly Example[];

export const EXAMPLES: readonly Example[] = GLOVEBOX_EXAMPLES;
