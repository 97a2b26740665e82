// Runs scripts in a daemon, if one is available.
import { createSandbox } from 'glovebox-sandbox';

// Uses the daemon if one answers, otherwise this process.
await using box = await createSandbox({
  language: 'javascript',
  backend: 'auto',
  tools: { shout: ({ text }: { text: string }) => text.toUpperCase() },
});
await using session = await box.session({ context: ['one', 'two'] });
const run = await session.execute("var answers = await Promise.all(context.map((text) => tools.shout({ text }))); console.log(answers.join())");
console.log(run.stdout.trim(), (await session.variables.get('answers') as string[])[1]);
