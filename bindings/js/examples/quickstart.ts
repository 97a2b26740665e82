import { createSandbox, textOf } from '@glovebox/sandbox/node';

const sandbox = await createSandbox('glovebox-javascript-closed');

const { outcome, stdout, fuelConsumed } = await sandbox.execute('console.log([1, 2, 3].map((x) => x * x).join())');
console.log(outcome.tag, textOf(stdout).trim(), fuelConsumed > 0n);

// Whatever a script does is an outcome, and the sandbox goes on.
const endless = await sandbox.execute('for (;;);', { policy: { limits: { fuel: 50_000_000n } } });
console.log(endless.outcome.tag);

// An interpreter that is kept.
const session = await sandbox.open();
await session.execute('var total = 40');
console.log((await session.execute('total + 2')).value?.repr);
await session.close();
