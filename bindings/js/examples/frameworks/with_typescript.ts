import { createSandbox } from 'glovebox-sandbox';
import { TypeChecker } from 'glovebox-sandbox/typescript';

const weather = {
  schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  execute: ({ city }: { city: string }) => ({ city, degrees: 5 }),
};

export async function run(source: string): Promise<string> {
  const tools = { weather };
  await using checker = new TypeChecker({ tools });
  const [first] = await checker.check(source, { name: 'script.ts' });
  if (first) return `line ${first.line}: ${first.message}`;
  await using box = await createSandbox({ language: 'javascript', tools });
  return (await box.execute(source, { name: 'script.ts' })).stdout;
}
