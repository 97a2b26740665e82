// The example in docs/approvals.md. It prints nothing if all its assertions hold.
import assert from 'node:assert/strict';
import { Run, WaitingRun, createSandbox } from 'glovebox-sandbox';

const box = await createSandbox({ tools: { pay: { description: 'Pays an invoice.' } } });
const run = await box.start("print('before')\nprint(tools.pay(euros=20))");
assert.ok(run instanceof WaitingRun);
const bytes = await run.suspend();

// Days later, in another process:
const calls = await box.suspendedCalls(bytes);
assert.deepEqual(calls, [{ id: 0, name: 'pay', arguments: { euros: 20 } }]);
const paid = await box.resumeSuspended(bytes, { answers: { 0: 'paid' } });
assert.ok(paid instanceof Run);
assert.equal(paid.stdout, 'before\npaid\n');

// Resume the same bytes with a different answer. The call raises `ToolDenied`.
const refused = await box.resumeSuspended(bytes, { denied: { 0: 'too expensive' } });
assert.ok(refused instanceof Run);
assert.equal(String(refused.outcome), 'ToolDenied: too expensive');
