// Runs programs that use the package, in other processes.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const entry = new URL(import.meta.url.endsWith('.ts') ? '../src/node.ts' : '../src/node.js', import.meta.url).href;

/** Runs a program in another process and returns its output. */
export async function program(text: string, environment: Record<string, string> = {}): Promise<string> {
  const run = promisify(execFile);
  const source = `import { createSandbox } from ${JSON.stringify(entry)};\n${text}`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', source], {
    env: { ...process.env, ...environment },
    timeout: 300_000,
  });
  return stdout;
}
