// Tests the component: its sources, its worker, and its unsupported options.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import type { AddressInfo } from 'node:net';
import { INTEGRITY } from '../src/own.ts';
import {
  Run,
  type SandboxOptions,
  SessionLostError,
  TerminatedError,
  UnavailableError,
  UnsupportedError,
  createSandbox,
} from '../src/node.ts';
import { RUNS_COMPONENTS } from './backends.ts';

const options = { language: 'javascript', backend: 'component' } as const;
const providers = new URL('../providers/', import.meta.url);
const skip = !RUNS_COMPONENTS;

/** The paths of the requests to the server. */
const requested: string[] = [];
/** Serves the providers: `/NAME/FILE` unchanged, `/spoilt/FILE` with a corrupted module, and nothing else. */
const server = createServer((request, response) => {
  const [, name = '', file = ''] = (request.url ?? '').split('/');
  requested.push(`${name}/${file}`);
  readFile(new URL(`${name === 'spoilt' ? 'glovebox-javascript' : name}/${file}`, providers)).then(
    (bytes) => response.end(name === 'spoilt' && file.endsWith('.js') ? Buffer.concat([bytes, Buffer.from(' ')]) : bytes),
    () => response.writeHead(404).end(),
  );
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
after(() => server.close());

/** Opens a sandbox for `use` and closes it afterwards. */
async function using(given: SandboxOptions, use: (box: Awaited<ReturnType<typeof createSandbox>>) => Promise<void>): Promise<void> {
  const box = await createSandbox({ ...options, ...given });
  try {
    await use(box);
  } finally {
    await box.close();
  }
}

test('URLs are tried in order, and changed bytes are not run', { skip }, async () => {
  const indexURL = [`${base}/absent`, `${base}/spoilt/`, `${base}/glovebox-javascript/`];
  await using({ indexURL }, async (box) => {
    assert.equal((await box.execute('console.log(1)')).stdout, '1\n');
  });
  assert.deepEqual([...new Set(requested.map((path) => path.split('/')[0]))], ['absent', 'spoilt', 'glovebox-javascript']);
  await assert.rejects(createSandbox({ ...options, indexURL: indexURL.slice(0, 2) }), (error) => {
    assert.ok(error instanceof UnavailableError);
    assert.match(error.message, /absent\/: HTTP status 404; or from .*spoilt\/: the hash of `component.js` is sha256-.*, expected sha256-/);
    return true;
  });
});

test('integrity hashes of any kind are checked', { skip }, async () => {
  const componentUrls = new URL(`${base}/glovebox-javascript`);
  const own = INTEGRITY['glovebox-javascript'] ?? {};
  await assert.rejects(createSandbox({ ...options, componentUrls, integrity: { ...own, 'component.core.wasm': `sha512-${'a'.repeat(86)}==` } }), /expected sha512-/);
  await assert.rejects(createSandbox({ ...options, componentUrls, integrity: { 'component.js': own['component.js'] ?? '' } }), /integrity: no hash for `component.core/);
  await assert.rejects(createSandbox({ ...options, componentUrls, integrity: { ...own, 'component.js': 'md5-x' } }), /must begin with sha256-/);
  await using({ indexURL: `${base}/spoilt`, integrity: false }, async (box) => assert.equal((await box.execute('1')).ok, true));
  await assert.rejects(createSandbox({ ...options, indexURL: 'nowhere' }), /indexURL must be an absolute URL/);
});

test('engine-only options are rejected with a hint', { skip }, async () => {
  for (const [given, expected] of [
    [{ workspace: '/tmp' }, /^workspace: .*backend: "native"/],
    [{ mounts: { '/in': '/tmp' } }, /^mounts/],
    [{ commit: 'never' }, /^commit/],
    [{ metering: 'none' }, /^metering/],
    [{ packages: true }, /^packages/],
    [{ network: { allow: [] } }, /^network/],
  ] as [SandboxOptions, RegExp][]) {
    await assert.rejects(createSandbox({ ...options, ...given }), (error) => error instanceof UnsupportedError && expected.test(error.message));
  }
  await using({}, (box) => assert.rejects(box.session({ id: 'mine' }), UnsupportedError));
  await assert.rejects(createSandbox({ ...options, language: 'cobol' }), /the package has no component `glovebox-cobol`; it has .*glovebox-python/);
});

/** A component without a clock, which ignores interrupts. */
const closed = { indexURL: new URL('glovebox-javascript-closed', providers), integrity: false, terminateAfterMs: 200 } as const;

/** Cancels a script while it runs, and returns the error. Increases the delay until the script has begun. */
async function cancelled(box: Awaited<ReturnType<typeof createSandbox>>, execute: () => Promise<Run>): Promise<unknown> {
  for (const delay of [100, 3_000, 30_000]) {
    setTimeout(() => box.cancel(), delay);
    const ended = await execute().catch((error: unknown) => error);
    if (!(ended instanceof Run)) return ended;
    assert.equal(ended.outcome.kind, 'cancelled');
  }
  return undefined;
}

test('a script that ignores interrupts ends with its worker, and the sandbox continues in another', { skip }, async () => {
  await using(closed, async (box) => {
    const [session, other] = [await box.session(), await box.session()];
    await other.execute('var n = 1');
    assert.ok((await cancelled(box, () => session.execute('for (;;);'))) instanceof SessionLostError);
    assert.match(session.ended ?? '', /lost with its worker: the script ignored an interrupt for 200 ms/);
    await assert.rejects(other.variables.get('n'), SessionLostError);
    await other.close();
    assert.equal((await box.execute('console.log(2)')).stdout, '2\n');
    assert.ok((await cancelled(box, () => box.execute('for (;;);'))) instanceof TerminatedError);
  });
  let ended: unknown;
  for (const timeout of [100, 3_000, 30_000]) {
    await using({ ...closed, timeout }, async (short) => {
      ended = await short.execute('for (;;);').catch((error: unknown) => error);
    });
    if (ended instanceof TerminatedError) break;
  }
  assert.ok(ended instanceof TerminatedError);
});

test('closing ends running scripts', { skip }, async () => {
  const box = await createSandbox(options);
  const running = assert.rejects(box.execute('for (;;);'), SessionLostError);
  setTimeout(() => void box.close(), 200);
  await running;
});

test('a script cancelled in advance does not begin', { skip }, async () => {
  await using({ terminateAfterMs: 60_000 }, async (box) => {
    const first = box.execute('for (;;);');
    const second = box.execute('console.log(1)');
    setTimeout(() => box.cancel(), 100);
    assert.deepEqual([(await first).outcome.kind, (await second).outcome.kind, (await second).stdout], ['cancelled', 'cancelled', '']);
    assert.equal((await box.execute('console.log(2)')).stdout, '2\n');
  });
});

test("on the caller's own thread a tool must answer synchronously", { skip }, async () => {
  await using({ worker: false, tools: { later: async () => 1, now: () => 2 } }, async (box) => {
    assert.equal((await box.execute('console.log(await tools.now({}))')).stdout, '2\n');
    assert.match((await box.execute('await tools.later({})')).outcome.message ?? '', /returned a promise, and direct mode cannot wait for it/);
  });
});

test('the entry for browsers runs in direct mode without workers', { skip }, async () => {
  // Node.js has no global `Worker`, and its `fetch` cannot read files.
  const { createSandbox: create } = await import('../src/index.ts');
  await assert.rejects(create({ ...options, worker: true, indexURL: `${base}/glovebox-javascript` }), UnsupportedError);
  await assert.rejects(create({ ...options, backend: 'native' }), /the native engine is unavailable: this platform is not supported/);
  const box = await create({ ...options, indexURL: `${base}/glovebox-javascript` });
  assert.deepEqual([box.backend, (await box.execute('console.log(1)')).stdout], ['component', '1\n']);
});

test('a precompiled component is used, and its form is checked', { skip }, async () => {
  const component = await import(new URL('glovebox-javascript/component.js', providers).href);
  const names = Object.keys(INTEGRITY['glovebox-javascript'] ?? {}).filter((name) => name.endsWith('.wasm'));
  const bytes = async (name: string) => WebAssembly.compile(await readFile(new URL(`glovebox-javascript/${name}`, providers)));
  const compiled = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await bytes(name)] as const)));
  const provider = { component, compiled };
  // The option `provider` selects the component, even if an engine is available.
  const box = await createSandbox({ language: 'javascript', provider });
  assert.deepEqual([box.backend, (await box.execute('console.log(1)')).stdout], ['component', '1\n']);
  await assert.rejects(createSandbox({ language: 'javascript', provider: { component, compiled: {} } }), /component\.core.*is not loaded/);
  for (const [given, what] of [
    [{ provider: 1 }, /^provider must be an object, not number/],
    [{ provider: { component: {}, compiled } }, /^provider\.component\.instantiate must be a function, not undefined/],
    [{ provider: { component, compiled: { 'a.wasm': 1 } } }, /^provider\.compiled\["a\.wasm"\] must be a WebAssembly\.Module, not number/],
    [{ provider, backend: 'native' }, /^provider requires the component backend/],
    [{ provider, worker: true }, /^provider runs on the caller's own thread/],
    [{ provider, indexURL: base }, /^provider and indexURL/],
  ] as const) {
    await assert.rejects(createSandbox(given as unknown as SandboxOptions), (error) => error instanceof TypeError && what.test(error.message));
  }
});
