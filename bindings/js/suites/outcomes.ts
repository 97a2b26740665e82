// Runs the cases of a suite with one executor and writes the outcomes as JSON, by the names of the cases.
// usage: node outcomes.ts SUITE framework|adapter FILE
import { writeFile } from 'node:fs/promises';
import { registerHooks } from 'node:module';
import { type Case, inspectAll } from './cases/observe.ts';

const [suite, executor, file] = process.argv.slice(2) as [string, string, string];

/** Returns the cases of a suite that runs in Node.js. */
async function casesOf(): Promise<Record<string, Case>> {
  if (suite === 'codemode') {
    const { GloveboxExecutor } = await import('glovebox-sandbox/codemode');
    const codemode = await import('./cases/codemode.ts');
    return codemode.casesOf((timeoutMs) => new GloveboxExecutor({ limits: { timeoutMs } }), (callTool) => ({ callTool }));
  }
  // The cases, and Code Mode of the AI SDK, import the package `run` by its name, which this hook resolves to the adapter.
  if (executor === 'adapter') registerHooks({ resolve: (specifier, context, next) => next(specifier === 'run' ? 'glovebox-sandbox/run' : specifier, context) });
  return ((await import(`./cases/${suite}.ts`)) as { cases: Record<string, Case> }).cases;
}

if (suite === 'codemode' && executor === 'framework') {
  const { outcomesInWorker } = await import('./workerd.ts');
  await writeFile(file, await outcomesInWorker());
} else {
  await writeFile(file, await inspectAll(await casesOf()));
}
// Executors can keep threads, and calls that never end.
process.exit();
