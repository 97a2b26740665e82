import { createRunner, getHostFunctionContext } from 'glovebox-sandbox/run';

const runner = createRunner({ continuationSecret: process.env['SECRET'] ?? '' });

function publish(draft: string): string {
  const { interrupt, resume } = getHostFunctionContext();
  if (!resume) return interrupt({ message: `Publish ${draft}?` });
  if (resume.resolution !== true) throw new Error('not approved');
  return `published ${draft}`;
}

export async function ask(decide: (question: unknown) => Promise<boolean>): Promise<unknown> {
  const input = { source: 'return await documents.publish("one");', hostFunctions: { documents: { publish } } };
  let result = await runner.run(input);
  while (result.status === 'interrupted') {
    const { interruptions, continuation } = result;
    const resolutions = await Promise.all(interruptions.map(async ({ id, payload }) => ({ interruptionId: id, value: await decide(payload) })));
    result = await runner.run({ ...input, continuation, resolutions });
  }
  return result.value;
}
