// Measures the overhead of the JavaScript part of an execution: compares `Sandbox.execute` with a loop in Rust over the
// engine's `execute`. The two alternate in one process, so that other load on the machine affects both.
//
// usage: node bench/overhead.ts [--max-us N]      prints JSON in microseconds; fails if the overhead exceeds N
import { parseArgs } from 'node:util';
import { openNative } from '../src/native/backend.ts';
import { findNative } from '../src/native/find.ts';
import type { NativeSandbox } from '../src/native/module.ts';
import { checked } from '../src/options.ts';
import { Sandbox } from '../src/sandbox.ts';

const TURNS = 40;
const EACH = 50;
const SCRIPTS = { python: 'print(1)', javascript: 'console.log(1)' };

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}

/** Calls a function `EACH` times and returns the duration of each call, in microseconds. */
async function timed(call: () => Promise<unknown>): Promise<number[]> {
  const times = [];
  for (let turn = 0; turn < EACH; turn += 1) {
    const begun = performance.now();
    await call();
    times.push((performance.now() - begun) * 1e3);
  }
  return times;
}

async function measure(language: 'python' | 'javascript'): Promise<Record<string, number>> {
  const native = findNative();
  if (native instanceof Error) throw native;
  const host = { answer: async () => ['failed', ''] as const, answerNow: () => ['failed', ''] as const, progress: () => undefined };
  const backend = (await openNative(native, language, checked({}).policy, host)) as Awaited<ReturnType<typeof openNative>> & { native: NativeSandbox };
  const box = new Sandbox('native', backend);
  const source = SCRIPTS[language];
  const [js, text, rust]: number[][] = [[], [], []];
  // The first two turns are warm-up.
  for (let turn = 0; turn < TURNS + 2; turn += 1) {
    const [ofJs, ofText] = [await timed(() => box.execute(source)), await timed(async () => (await box.execute(source)).stdout)];
    const ofRust = backend.native.time(source, EACH);
    if (turn < 2) continue;
    js?.push(median(ofJs));
    text?.push(median(ofText));
    rust?.push(median(ofRust));
  }
  const differences = (js ?? []).map((each, index) => each - (rust?.[index] ?? 0));
  const round = (value: number): number => Math.round(value * 10) / 10;
  return {
    rust_us: round(median(rust ?? [])),
    javascript_us: round(median(js ?? [])),
    javascript_with_stdout_us: round(median(text ?? [])),
    overhead_us: round(median(differences)),
  };
}

const { values } = parseArgs({ options: { 'max-us': { type: 'string' } } });
const maxUs = Number(values['max-us'] ?? Infinity);
const measured = { python: await measure('python'), javascript: await measure('javascript') };
console.log(JSON.stringify(measured, null, 2));
const over = Object.entries(measured).filter(([, { overhead_us }]) => !((overhead_us ?? NaN) <= maxUs));
if (over.length > 0) {
  console.error(`the overhead exceeds ${maxUs} µs: ${over.map(([language, { overhead_us }]) => `${language} ${overhead_us}`).join(', ')}`);
  process.exitCode = 1;
}
