// The backends that the tests of the API are passed on.
import { after } from 'node:test';
import { type Sandbox, type SandboxOptions, createSandbox } from '../src/node.ts';

/** Whether this engine runs components: Node.js 24 does, 20 does not. */
export const RUNS_COMPONENTS = Number(process.versions.node.split('.')[0]) >= 24;

/** Each way to run scripts. */
export const WAYS = {
  native: { backend: 'native' },
  worker: { backend: 'component' },
  direct: { backend: 'component', worker: false },
} as const satisfies Record<string, SandboxOptions>;

export type Way = keyof typeof WAYS;

/** Those that this engine can. */
export const ways = (Object.keys(WAYS) as Way[]).filter((way) => RUNS_COMPONENTS || way === 'native');

const open = new Set<Sandbox>();
after(async () => {
  for (const box of open) await box.close();
});

/** A sandbox of a way, which is closed after all tests. */
export async function sandbox(way: Way, options: SandboxOptions = {}): Promise<Sandbox> {
  const box = await createSandbox({ language: 'javascript', ...options, ...WAYS[way] });
  open.add(box);
  return box;
}
