// Examples: those of docs/examples, and the page's own. The build puts them in.
import type { Language } from './backend/backend.ts';

/** A script and the files that it reads. */
export interface Example {
  title: string;
  language: Language;
  source: string;
  files: Record<string, string>;
  /** Whether it imports packages that are not everywhere. */
  needsPackages: boolean;
}

declare const GLOVEBOX_EXAMPLES: readonly Example[];

export const EXAMPLES: readonly Example[] = GLOVEBOX_EXAMPLES;
