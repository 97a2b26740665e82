// The examples in docs/from-javascript.md. They print nothing if all their assertions hold.
import assert from 'node:assert/strict';
import { type Run, ScriptError, UnsupportedError, createSandbox } from 'glovebox-sandbox';

const box = await createSandbox({ language: 'python', limits: { memoryBytes: 256 << 20, fuel: 5_000_000_000 } });
const run = await box.execute('print(6 * 7)');
assert.deepEqual([run.ok, run.stdout, run.fuelConsumed > 0], [true, '42\n', true]);

const raised = await box.execute('def f():\n    return 1 / 0\nf()', { name: 'report.py' });
assert.deepEqual([raised.outcome.kind, raised.outcome.type, raised.outcome.line], ['raised', 'ZeroDivisionError', 2]);
const endless = await box.execute('while True: pass');
assert.deepEqual([endless.outcome.kind, endless.outcome.resource], ['exhausted', 'fuel']);
assert.match(endless.guidance.advice[0]?.summary ?? '', /^The script used all of its fuel, 5000000000 units/);
assert.throws(() => endless.throwForOutcome(), ScriptError);

const greeting = await box.execute("print(input(), context['city'])", {
  stdin: 'from',
  context: { city: 'Oslo' },
  timeoutMs: 2000,
  onStdout: (text) => assert.equal(text, 'from Oslo\n'),
});
assert.equal(greeting.ok, true);
assert.deepEqual(await box.validate('print('), [{ line: 1, column: 6, message: "SyntaxError: '(' was never closed" }]);

const stuck = box.execute('while True: pass', { signal: AbortSignal.timeout(100) });
await assert.rejects(stuck, { name: 'TimeoutError' });
setTimeout(() => box.cancel(), 100);
assert.equal((await box.execute('while True: pass')).outcome.kind, 'cancelled');

const files = await createSandbox({ files: { 'in.csv': 'a,b\n1,2\n' } });
const upper = await files.execute("text = open('in.csv').read(); open('out.csv', 'w').write(text.upper())");
assert.deepEqual([upper.filesCreated, await upper.files.readText('out.csv')], [['out.csv'], 'A,B\n1,2\n']);

const tooled = await createSandbox({
  tools: {
    search: {
      description: 'Finds things.',
      schema: {
        properties: { query: { type: 'string' }, limit: { type: 'integer' } },
        required: ['query'],
        additionalProperties: false,
      },
      execute: async ({ query, limit = 3 }, { signal }) => {
        signal.throwIfAborted();
        return Array.from({ length: limit }, (_, n) => `${query} ${n}`);
      },
    },
  },
});
assert.equal((await tooled.execute("print(tools.search('tea', limit=2))")).stdout, "['tea 0', 'tea 1']\n");
const [call] = (await tooled.execute('tools.search(query=1)')).toolCalls;
assert.match(call?.error ?? '', /^InvalidArguments: /);

let state: Uint8Array;
{
  await using session = await box.session({ context: { doc: 'a long text' } });
  const count = await session.execute("words = context['doc'].split()\nlen(words)");
  await session.files.write('notes.txt', 'first');
  const child = await session.fork();
  await session.execute('words = []');
  assert.deepEqual([count.value, await session.variables.get('words')], [3, []]);
  assert.deepEqual(await child.variables.get('words'), ['a', 'long', 'text']);
  await session.undo();
  state = await session.hibernate();
}
const resumed = await box.resume(state);
assert.deepEqual((await resumed.execute("words[0], open('notes.txt').read()")).value, ['a', 'first']);

const anywhere = await createSandbox({
  backend: 'component',
  language: 'javascript',
  // Several URLs are tried in order. Files must match the hashes of this package's build, or those of `integrity`.
  // indexURL: ['https://cdn.example/glovebox-javascript/', 'https://example.org/glovebox-javascript/'],
  terminateAfterMs: 500,
});
const squares: Run[] = await Promise.all([0, 1, 2].map((n) => anywhere.execute(`console.log(${n} * ${n})`)));
assert.deepEqual(squares.map(({ stdout }) => stdout), ['0\n', '1\n', '4\n']);
await assert.rejects(createSandbox({ backend: 'component', workspace: './data' }), UnsupportedError);
await anywhere.close();
