import { createSandbox } from 'glovebox-sandbox';
import provider from 'glovebox-sandbox/providers/glovebox-javascript/modules.js';

export async function answer(script) {
  const box = await createSandbox({ language: 'javascript', provider, limits: { fuel: 20_000_000 } });
  const run = await box.execute(script);
  return { outcome: String(run.outcome), stdout: run.stdout };
}
