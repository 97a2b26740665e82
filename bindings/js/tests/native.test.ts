// Tests the engine in this process: threads, host directories, first starts and images.
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, test } from 'node:test';
import { interpreters, platformPackage } from '../src/native/find.ts';
import { CommitError, PolicyError, UnsupportedError, createSandbox } from '../src/node.ts';
import { program } from './program.ts';

const directory = await mkdtemp(join(tmpdir(), 'glovebox-node-'));
after(() => rm(directory, { recursive: true, force: true }));

test('a hundred concurrent executions with nested executions finish', async () => {
  const inner = await createSandbox({ language: 'javascript', backend: 'native' });
  const box = await createSandbox({
    language: 'javascript',
    backend: 'native',
    tools: { nested: async ({ n }) => (await inner.execute(`console.log(${n} * 2)`)).stdout.trim() },
    limits: { toolTimeoutMs: 60_000, timeoutMs: 120_000 },
  });
  const runs = await Promise.all(Array.from({ length: 100 }, (_, n) => box.execute(`console.log(await tools.nested({ n: ${n} }))`)));
  assert.deepEqual(runs.map(({ stdout }) => Number(stdout)), Array.from({ length: 100 }, (_, n) => n * 2));
});

test('sessions validate scripts, but check no types', async () => {
  for (const [language, advice] of [['python', /use backend: "daemon"/], ['javascript', /use `TypeChecker`/]] as const) {
    await using box = await createSandbox({ language, backend: 'native' });
    await using session = await box.session();
    for (const validating of [session, await session.fork()]) {
      assert.deepEqual(await validating.validate('x = 1'), []);
      assert.equal((await validating.validate('x = )')).length, 1);
      await assert.rejects(validating.validate('1', { types: true }), (error) => error instanceof UnsupportedError && advice.test(error.message));
    }
    assert.equal((await session.info()).executions, 0);
  }
});

test('output is streamed while the script runs', async () => {
  const heard: string[] = [];
  const later = async () => {
    while (heard.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    return heard.length;
  };
  const box = await createSandbox({ language: 'javascript', backend: 'native', tools: { heard: later } });
  const run = await box.execute('console.log("a"); console.log(await tools.heard({}))', { onStdout: (text) => heard.push(text) });
  assert.equal(run.stdout, 'a\n1\n');
});

test('host directories are accessible as the policy allows', async () => {
  const [data, given] = [await mkdtemp(join(directory, 'data-')), await mkdtemp(join(directory, 'given-'))];
  await writeFile(join(given, 'in.txt'), 'given');
  const mounts = { '/in': { host: given, readOnly: true } };
  const box = await createSandbox({ backend: 'native', workspace: data, commit: 'on-success', mounts });
  (await box.execute('open("out.txt", "w").write(open("/in/in.txt").read())')).throwForOutcome();
  assert.equal(await readFile(join(data, 'out.txt'), 'utf8'), 'given');
  await box.execute('open("lost.txt", "w").write("x"); raise ValueError');
  assert.deepEqual(await readdir(data), ['out.txt']);
  assert.equal((await box.execute('open("/in/new", "w")')).outcome.type, 'OSError');
});

test('a failed commit is an error with the run', async () => {
  const data = await mkdtemp(join(directory, 'conflict-'));
  let wrote: () => Promise<void> = async () => undefined;
  const box = await createSandbox({ backend: 'native', workspace: data, tools: { meanwhile: () => wrote() } });
  await writeFile(join(data, 'a'), 'before');
  wrote = () => writeFile(join(data, 'a'), 'another program');
  const failing = box.execute('open("a").read()\ntools.meanwhile()\nopen("a", "w").write("script")\nprint(1)');
  await assert.rejects(failing, (error) => error instanceof CommitError && error.run.stdout === '1\n');
});

test('an unknown runtime error lists the runtimes', async () => {
  await assert.rejects(createSandbox({ language: 'cobol', backend: 'native' }), (error) => error instanceof PolicyError && /cobol.*python/.test(error.message));
});

test('invalid schemas and tool names are rejected', async () => {
  await assert.rejects(createSandbox({ backend: 'native', tools: [{ name: 'p', schema: { type: 'nothing' }, execute: () => 1 }] }), /`p`/);
  await assert.rejects(createSandbox({ backend: 'native', tools: [{ name: 'no name', execute: () => 1 }] }), /no name/);
});

test('the deadline ends an unmetered script', async () => {
  const options = { language: 'javascript', backend: 'native', metering: 'none' } as const;
  const box = await createSandbox({ ...options, limits: { fuel: 1000, timeoutMs: 60_000 } });
  const run = await box.execute('for (let i = 0; i < 1e5; i++) {}');
  assert.deepEqual([run.ok, run.fuelConsumed], [true, 0]);
  const short = await createSandbox({ ...options, limits: { fuel: 1000, timeoutMs: 300 } });
  assert.equal((await short.execute('for (;;);')).outcome.resource, 'time');
});

test('TypeScript runs', async () => {
  const box = await createSandbox({ language: 'javascript', backend: 'native' });
  assert.equal((await box.execute('const n: number = 6; console.log(n * 7)', { name: 'a.ts' })).stdout, '42\n');
});

test('a process exits after its last execution, and not before', async () => {
  const text = `const box = await createSandbox({ language: 'javascript', backend: 'native', tools: { a: () => 1 } });
    const session = await box.session();
    session.execute('for (const end = Date.now() + 300; Date.now() < end;); console.log(await tools.a({}))').then((run) => console.log(run.stdout));`;
  assert.equal(await program(text), '1\n\n');
});

test('the interpreters of all installed packages are found', async () => {
  const name = platformPackage();
  const inside = {
    engine: join(directory, 'project/node_modules', name),
    python: join(directory, 'project/node_modules/glovebox-sandbox-python'),
    data: join(directory, 'project/node_modules', name.replace('@glovebox-sandbox/', 'glovebox-sandbox-data-')),
  };
  const found = (file: string): string[] => interpreters(join(inside.engine, 'glovebox.node'), file, 'GLOVEBOX_NO_SUCH_VARIABLE');
  for (const each of Object.values(inside)) await mkdir(each, { recursive: true });
  assert.deepEqual(found('prepared.zip'), []);
  const [own, python, prepared] = [join(inside.engine, 'interpreters.zip'), join(inside.python, 'interpreters.zip'), join(inside.data, 'prepared.zip')];
  for (const file of [own, python, prepared]) await writeFile(file, '');
  assert.deepEqual([found('interpreters.zip'), found('prepared.zip')], [[own, python], [prepared]]);
  process.env['GLOVEBOX_SOME_VARIABLE'] = ['/a', '/b'].join(delimiter);
  assert.deepEqual(interpreters('/glovebox.node', 'prepared.zip', 'GLOVEBOX_SOME_VARIABLE'), ['/a', '/b']);
});

test('two processes can start concurrently for the first time', async () => {
  // Without a prepared bundle, one of the processes compiles the interpreter.
  const environment = { GLOVEBOX_CACHE_DIR: join(directory, 'cache'), XDG_DATA_HOME: join(directory, 'share'), GLOVEBOX_PREPARED: '/absent.zip' };
  const text = `const box = await createSandbox({ language: 'javascript', backend: 'native', packages: false, progress: () => undefined });
    console.log((await box.execute('console.log(6 * 7)')).stdout);`;
  const printed = await Promise.all([program(text, environment), program(text, environment), program(text, environment)]);
  assert.deepEqual(printed, ['42\n\n', '42\n\n', '42\n\n']);
});

test('a seed and a clock make runs equal', async () => {
  const options = { language: 'javascript', backend: 'native', seed: 1, clockNs: 1_700_000_000_123_456_789n } as const;
  const source = 'console.log(Math.random(), Date.now())';
  const [one, two] = [await createSandbox(options), await createSandbox(options)];
  const runs = [await one.execute(source), await two.execute(source)];
  assert.equal(runs[0]?.stdout, runs[1]?.stdout);
  assert.equal(runs[0]?.fuelConsumed, runs[1]?.fuelConsumed);
  assert.match(runs[0]?.stdout ?? '', / 1700000000123\n$/);
});

test('without the native module, native fails and auto uses the component', async () => {
  const environment = { GLOVEBOX_NATIVE_MODULE: join(directory, 'absent.node') };
  const text = `const refused = await createSandbox({ backend: 'native' }).catch((error) => error);
    console.log(refused.name, /use backend: "component"/.test(refused.message));
    const box = await createSandbox({ language: 'javascript' }).catch((error) => error);
    console.log(box.backend ?? box.name);`;
  const isNew = Number(process.versions.node.split('.')[0]) >= 24;
  assert.equal(await program(text, environment), `UnavailableError true\n${isNew ? 'component' : 'UnavailableError'}\n`);
});

test('the network reaches only named addresses', async () => {
  const server = createServer((request, response) => response.end(request.headers.authorization ?? 'none'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  process.env['GLOVEBOX_TEST_SECRET'] = 'the-real-one';
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const network = { allow: [url], allowPrivate: ['127.0.0.1'], secrets: { KEY: { env: 'GLOVEBOX_TEST_SECRET', host: '127.0.0.1' } }, requestCount: 1 };
    await using box = await createSandbox({ language: 'javascript', backend: 'native', network });
    const run = await box.execute(`const key = process.env.KEY; console.log(await (await fetch('${url}', { headers: { Authorization: key } })).text() === key)`);
    assert.equal(run.stdout, 'true\n');
    assert.equal(run.toolCalls[0]?.name, 'network.fetch');
    assert.match((await box.execute(`await fetch('${url}other')`)).stderr, /are not allowed at this path/);
    await assert.rejects(createSandbox({ language: 'javascript', backend: 'native', network: { allow: ['everything'] } }), PolicyError);
    await assert.rejects(createSandbox({ network: { allow: [1 as unknown as string] } }), /network\.allow\[0\] must be a string/);
  } finally {
    server.close();
  }
});
