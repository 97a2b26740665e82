import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { InstanceLostError, type Provider, SandboxError, createSandbox, loadProvider, textOf } from '../src/component/node.ts';

const NAME = 'glovebox-javascript-closed';

test('the next script runs after any outcome', async () => {
  const sandbox = await createSandbox(NAME);
  for (const [source, tag] of [
    ['console.log(1)', 'completed'],
    ['throw new TypeError("no")', 'raised'],
    ['for (;;);', 'exhausted'],
    ['function f() { return f(); } f()', 'trapped'],
    ['std.exit(3)', 'exited'],
  ] as const) {
    const { outcome } = await sandbox.execute(source, { policy: { limits: { fuel: 50_000_000n } } });
    assert.equal(outcome.tag, tag, source);
    const after = await sandbox.execute('console.log("still here")');
    assert.equal(textOf(after.stdout), 'still here\n');
  }
});

test('a script costs the same every time', async () => {
  const costs = new Set<bigint>();
  for (let turn = 0; turn < 3; turn += 1) {
    const sandbox = await createSandbox(NAME);
    for (let again = 0; again < 2; again += 1) costs.add((await sandbox.execute('[3, 1, 2].sort()')).fuelConsumed);
  }
  assert.equal(costs.size, 1, [...costs].join());
});

test('each provider error has its class', async () => {
  const sandbox = await createSandbox(NAME);
  await assert.rejects(sandbox.execute('1', { runtime: 'cobol' }), (error) => {
    assert.ok(error instanceof SandboxError);
    assert.equal(error.tag, 'unknown-runtime');
    return true;
  });
  await assert.rejects(sandbox.execute('1', { policy: { limits: { fuel: 0n } } }), /invalid-policy: .*fuel/);
  await assert.rejects(sandbox.execute({ source: 'x'.repeat(8) }, { policy: { limits: { sourceBytes: 7n } } }), /8 bytes; the maximum is 7/);
});

test('a request has files and a context', async () => {
  const sandbox = await createSandbox(NAME);
  const source = 'print(std.loadFile("a/b"), context[1])';
  const files = [{ path: 'a/b', bytes: new TextEncoder().encode('one') }];
  const execution = await sandbox.execute({ source, files, context: '[0, "two"]' });
  assert.equal(textOf(execution.stdout), 'one two\n');
  assert.deepEqual(execution.filesCreated, []);
});

test('the text of truncated output ends with a whole character', async () => {
  const sandbox = await createSandbox(NAME);
  const source = 'console.log("\ufeffa\u00e9")';
  const printed = async (stdoutBytes: bigint) => textOf((await sandbox.execute(source, { policy: { limits: { stdoutBytes } } })).stdout);
  assert.equal(await printed(5n), '\ufeffa');
  assert.equal(await printed(6n), '\ufeffa\u00e9');
  assert.equal(await printed(7n), '\ufeffa\u00e9\n');
  const bytes = Uint8Array.of(0xff, 0x61, 0xc3);
  const text = (retainedBytes: bigint, totalBytes: bigint) => textOf({ bytes, retainedBytes, totalBytes });
  assert.equal(text(3n, 3n), '\ufffda\ufffd');
  assert.equal(text(3n, 4n), '\ufffda');
  assert.equal(text(4n, 4n), '\ufffda');
});

test('guidance suggests changes', async () => {
  const sandbox = await createSandbox(NAME);
  const { guidance } = await sandbox.execute("require('paht')");
  assert.equal(guidance.fuel.status, 'efficient');
  assert.deepEqual(guidance.advice.map(({ kind }) => kind), ['module']);
  assert.deepEqual(guidance.advice[0]?.correction, { line: 1, text: "require('path')" });
});

test('validation reports positions', async () => {
  const sandbox = await createSandbox(NAME);
  assert.deepEqual(await sandbox.validate('let x = 1'), []);
  assert.equal((await sandbox.validate('let = ='))[0]?.line, 1);
});

test('a session keeps variables and files', async () => {
  const sandbox = await createSandbox(NAME);
  await using session = await sandbox.open({ context: { city: 'Oslo' } });
  assert.equal((await session.execute('context.city')).value?.json, '"Oslo"');
  await session.setVariable('n', 20);
  await session.execute('var m = n + 1');
  assert.equal((await session.getVariable('m'))?.json, '21');
  assert.equal(await session.getVariable('absent'), undefined);
  await session.writeFile('d/notes.txt', 'one\n');
  assert.deepEqual((await session.listFiles()).map(({ path }) => path), ['d', 'd/notes.txt']);
  assert.equal(new TextDecoder().decode(await session.readFile('d/notes.txt')), 'one\n');
  await session.deleteFile('d', { recursive: true });
  assert.deepEqual(await session.listFiles(), []);

  const checkpoint = await session.checkpoint();
  const fork = await session.fork();
  await session.execute('m = 0');
  assert.equal((await fork.getVariable('m'))?.json, '21');
  await session.undoTo(checkpoint);
  assert.equal((await session.getVariable('m'))?.json, '21');

  const elsewhere = await createSandbox(NAME);
  const resumed = await elsewhere.resume(await session.hibernate());
  assert.equal((await resumed.getVariable('m'))?.json, '21');
  await resumed.close();
  await assert.rejects(resumed.info(), /session-ended/);
});

test('a mistyped argument keeps the session', async () => {
  const sandbox = await createSandbox(NAME);
  const session = await sandbox.open();
  await session.execute('var x = 1');
  await assert.rejects(sandbox.execute({ source: 1 as unknown as string }), TypeError);
  assert.equal((await session.getVariable('x'))?.json, '1');
});

/** Returns a provider whose instances can be made to trap, and a function that counts the instances. */
async function trapping(): Promise<{ provider: Provider; instances: () => number }> {
  const provider = await loadProvider(NAME);
  let count = 0;
  return {
    instances: () => count,
    provider: {
      async instantiate(imports) {
        count += 1;
        const instance = await provider.instantiate(imports);
        const execute: typeof instance.execute = (runtime, request, policy) => {
          if (request.source === 'trap') trap();
          return instance.execute(runtime, request, policy);
        };
        return { ...instance, execute };
      },
    },
  };
}

function trap(): never {
  // (module (func (export "f") unreachable))
  const bytes = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 7, 5, 1, 1, 0x66, 0, 0, 10, 5, 1, 3, 0, 0, 11];
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(bytes)));
  (exports['f'] as () => never)();
  throw new Error('unreachable was reached');
}

test('a trap ends the sessions of its instance, and the next call has a new one', async () => {
  const { provider, instances } = await trapping();
  const sandbox = await createSandbox(provider);
  const sessions = [await sandbox.open(), await sandbox.open()];
  const closed = await sandbox.open();
  await closed.close();
  await assert.rejects(sandbox.execute('trap'), (error) => {
    assert.ok(error instanceof InstanceLostError);
    assert.deepEqual(error.sessions, sessions.map(({ id }) => id));
    assert.ok(error.cause instanceof WebAssembly.RuntimeError);
    return true;
  });
  assert.equal(textOf((await sandbox.execute('console.log(2)')).stdout), '2\n');
  assert.equal(instances(), 2);
  for (const session of sessions) await assert.rejects(session.execute('1'), /session-ended/);
  // Closing a lost session is allowed, so that callers can clean up.
  await using session = await sandbox.open();
  assert.equal((await session.execute('1 + 1')).value?.json, '2');
});

test('after a host stack overflow the sandbox names the lost sessions and continues', () => {
  const program = new URL('fixtures/small-stack.ts', import.meta.url).pathname;
  const printed = execFileSync(process.execPath, ['--stack-size=150', program], { encoding: 'utf8' });
  const trapped = "the sandbox's instance has trapped, and the";
  assert.deepEqual(printed.trim().split('\n'), [
    `${trapped} sessions session-1, session-2 were lost with it true`,
    'session-ended',
    'session-ended',
    'in a new instance',
    `${trapped} session session-1 was lost with it`,
  ]);
});

test('scripts call tools if the provider has tools', { skip: !(await exists('glovebox-javascript')) && !process.env['CI'] }, async () => {
  const sandbox = await createSandbox('glovebox-javascript', {
    tools: [
      {
        name: 'double',
        description: 'Twice a number.',
        argumentsSchema: { properties: { x: { type: 'number' } }, required: ['x'] },
        call: ({ x }) => 2 * (x as number),
      },
      {
        name: 'fail',
        description: 'Fails.',
        call: () => {
          throw new Error('no such luck');
        },
      },
    ],
  });
  assert.equal(textOf((await sandbox.execute('console.log(await tools.double({ x: 21 }))')).stdout), '42\n');
  const failed = await sandbox.execute('try { await tools.fail({}) } catch (error) { console.log(error.message) }');
  assert.equal(textOf(failed.stdout), 'no such luck\n');
  // The failed calls above have not trapped the instance.
  assert.equal((await sandbox.execute('1')).outcome.tag, 'completed');
});

test('time is limited if the provider has a clock', { skip: !(await exists('glovebox-javascript')) && !process.env['CI'] }, async () => {
  const sandbox = await createSandbox('glovebox-javascript');
  const { outcome } = await sandbox.execute('for (;;);', { policy: { limits: { timeoutMs: 100n, fuel: 1_000_000_000_000n } } });
  assert.ok(outcome.tag === 'exhausted' && outcome.val.resource === 'time', JSON.stringify(outcome.tag));
});

async function exists(name: Parameters<typeof loadProvider>[0]): Promise<boolean> {
  return loadProvider(name).then(
    () => true,
    () => false,
  );
}
