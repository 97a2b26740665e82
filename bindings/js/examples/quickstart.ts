import { createSandbox } from 'glovebox-sandbox';

await using box = await createSandbox({ language: 'python', limits: { fuel: 50_000_000 } });

const run = await box.execute("print(sum(range(10))); open('out.txt', 'w').write('hi')");
console.log(run.outcome.kind, run.stdout.trim(), await run.files.readText('out.txt'));

// An endless script ends at its limit, and the sandbox stays usable.
const endless = await box.execute('while True: pass');
console.log(endless.outcome.kind, endless.outcome.resource);

// A session keeps its interpreter between scripts.
await using session = await box.session();
await session.execute('total = 40');
console.log((await session.execute('total + 2')).value);
