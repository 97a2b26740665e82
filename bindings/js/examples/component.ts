import { createSandbox } from 'glovebox-sandbox';

const box = await createSandbox({ language: 'javascript', backend: 'component', timeout: 30_000 });

const run = await box.execute('console.log([1, 2, 3].map((x) => x * x).join())');
console.log(run.outcome.kind, run.stdout.trim(), run.fuelConsumed > 0);

// The component runs in a worker: an endless script does not block the page, and ends no later than its timeout.
const endless = box.execute('for (;;);');
setTimeout(() => box.cancel(), 100);
console.log((await endless).outcome.kind);

// A session keeps its interpreter between scripts.
const session = await box.session();
await session.execute('var total = 40');
console.log((await session.execute('total + 2')).value);
await box.close();
