import { createSandbox } from 'glovebox-sandbox';

await using box = await createSandbox({ language: 'python', limits: { fuel: 50_000_000 } });

const run = await box.execute("print(sum(range(10))); open('out.txt', 'w').write('hi')");
console.log(run.outcome.kind, run.stdout.trim(), await run.files.readText('out.txt'));

// Whatever a script does is an outcome, and the sandbox goes on.
const endless = await box.execute('while True: pass');
console.log(endless.outcome.kind, endless.outcome.resource);

// An interpreter that persists.
await using session = await box.session();
await session.execute('total = 40');
console.log((await session.execute('total + 2')).value);
