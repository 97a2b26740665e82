// The example in docs/forks.md. It prints nothing if all its assertions hold.
import assert from 'node:assert/strict';
import { Run, WaitingRun, createSandbox } from 'glovebox-sandbox';

const box = await createSandbox({ tools: { choose: { description: 'Chooses a color.' } } });
const run = await box.start('print(tools.choose())');
assert.ok(run instanceof WaitingRun);

const colors = ['red', 'green', 'blue'];
const forks = await run.fork(colors.length);
const ends = await Promise.all(forks.map((fork, index) => fork.answer({ answers: { 0: colors[index] } })));
assert.deepEqual(ends.map((end) => end instanceof Run && end.stdout), ['red\n', 'green\n', 'blue\n']);
