// Tests the package in pages of a real browser. The functions passed to `run` execute in the page.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Browser } from './browser.ts';
import { serve } from './page.ts';

const server = await serve();
const browser = await Browser.start();
after(async () => {
  await browser.close();
  server.close();
});
const isolated = await browser.open(`${server.url}/isolated`);
const plain = await browser.open(`${server.url}/plain`);
const pages = { 'with shared memory': isolated, 'without shared memory': plain };

test('one page has shared memory, the other has none', async () => {
  const has = async () => typeof SharedArrayBuffer !== 'undefined';
  assert.deepEqual([await isolated.run(has), await plain.run(has)], [true, false]);
});

for (const [which, page] of Object.entries(pages)) {
  test(`${which}: scripts run in both languages, and sessions keep their variables`, async () => {
    const seen = await page.run(async () => {
      const { createSandbox } = await import('glovebox-sandbox');
      const seen = [];
      for (const [language, script] of [['javascript', 'console.log(6 * 7); n'], ['python', 'print(6 * 7)\nn']] as const) {
        const box = await createSandbox({ language });
        const session = await box.session({ context: { known: 1 } });
        await session.variables.set('n', 5);
        const run = await session.execute(script);
        seen.push([box.backend, box.language, run.outcome.kind, run.stdout, run.value]);
        await box.close();
      }
      return seen;
    });
    assert.deepEqual(seen, [['component', 'javascript', 'completed', '42\n', 5], ['component', 'python', 'completed', '42\n', 5]]);
  });

  test(`${which}: an endless script blocks nothing and ends at its deadline`, async () => {
    const { outcome, tookMs, pauseMs, next } = await page.run(async () => {
      const { createSandbox } = await import('glovebox-sandbox');
      const box = await createSandbox({ language: 'javascript', timeout: 1_000 });
      let [last, pauseMs] = [performance.now(), 0];
      const timer = setInterval(() => {
        const now = performance.now();
        [last, pauseMs] = [now, Math.max(pauseMs, now - last)];
      }, 10);
      const begun = performance.now();
      const { outcome } = await box.execute('for (;;);');
      const tookMs = performance.now() - begun;
      pauseMs = Math.max(pauseMs, performance.now() - last);
      clearInterval(timer);
      const next = (await box.execute('console.log(2)')).stdout;
      await box.close();
      return { outcome: outcome.toString(), tookMs, pauseMs, next };
    });
    assert.match(outcome, /^out of time: used \d+ of 1000 ms/);
    assert.ok(tookMs >= 900 && tookMs < 10_000, `${tookMs} ms`);
    // If the script blocked the page, the longest pause would last as long as the script.
    assert.ok(pauseMs < tookMs / 2, `${pauseMs} of ${tookMs} ms`);
    assert.equal(next, '2\n');
  });

  test(`${which}: displays of scripts can be shown in the page`, async () => {
    const { forms, size, html } = await page.run(async () => {
      const { createSandbox } = await import('glovebox-sandbox');
      const box = await createSandbox({ language: 'python' });
      const run = await box.execute(
        "class Circle:\n  def _repr_svg_(self): return '<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"30\" height=\"20\"><circle r=\"9\"/></svg>'\n" +
          "class Table:\n  def _repr_html_(self): return '<td>1</td>'\ndisplay(Circle())\ndisplay(Table())",
      );
      const [circle, table] = run.displays;
      const picture = new Image();
      picture.src = URL.createObjectURL(new Blob([circle?.svg ?? ''], { type: 'image/svg+xml' }));
      await picture.decode();
      await box.close();
      return { forms: run.displays.map(({ data }) => [...data.keys()]), size: [picture.width, picture.height], html: table?.html };
    });
    assert.deepEqual(forms, [['text/plain', 'image/svg+xml'], ['text/plain', 'text/html']]);
    assert.deepEqual([size, html], [[30, 20], '<td>1</td>']);
  });
}

test('with shared memory: a cancelled script is interrupted, and its session lives on', async () => {
  const seen = await isolated.run(async () => {
    const { createSandbox } = await import('glovebox-sandbox');
    const box = await createSandbox({ language: 'python', timeout: 60_000 });
    const session = await box.session();
    await session.execute('n = 1');
    setTimeout(() => box.cancel(), 300);
    const { outcome } = await session.execute('while True: pass');
    const thrown = await session.execute('while True: pass', { signal: AbortSignal.timeout(300) }).catch((error: Error) => error.name);
    const n = await session.variables.get('n');
    await box.close();
    return [outcome.kind, thrown, n];
  });
  assert.deepEqual(seen, ['cancelled', 'TimeoutError', 1]);
});

test('with shared memory: tools answer with promises', async () => {
  const stdout = await isolated.run(async () => {
    const { createSandbox } = await import('glovebox-sandbox');
    const title = async ({ path }: { path: string }): Promise<string> => /<title>(.*)<\/title>/.exec(await (await fetch(path)).text())?.[1] ?? '';
    const box = await createSandbox({ language: 'python', tools: { title } });
    const run = await box.execute("print(tools.title(path='/plain'))");
    await box.close();
    return run.stdout + run.stderr;
  });
  assert.equal(stdout, 'Glovebox\n');
});

test('without shared memory: cancellation terminates the worker, and the sandbox continues in another', async () => {
  const seen = await plain.run(async () => {
    const { createSandbox, SessionLostError, TerminatedError } = await import('glovebox-sandbox');
    const box = await createSandbox({ language: 'javascript', timeout: 60_000 });
    const session = await box.session();
    const thrown = (work: Promise<unknown>): Promise<unknown> => work.then(() => undefined, (error: unknown) => error);
    setTimeout(() => box.cancel(), 300);
    const one = thrown(box.execute('for (;;);'));
    // This call is still queued when `cancel` is called.
    const two = box.execute('console.log(2)');
    const terminated = (await one) instanceof TerminatedError;
    const lost = (await thrown(session.execute('1'))) instanceof SessionLostError;
    const last = await box.execute('console.log(3)');
    await box.close();
    return [terminated, lost, (await two).outcome.kind, (await two).stdout, last.stdout];
  });
  assert.deepEqual(seen, [true, true, 'cancelled', '', '3\n']);
});

test('without shared memory: tools need direct mode, where they answer synchronously', async () => {
  const seen = await plain.run(async () => {
    const { createSandbox } = await import('glovebox-sandbox');
    const tools = { add: ({ a, b }: { a: number; b: number }) => a + b };
    const refused = await createSandbox({ language: 'javascript', tools, worker: true }).catch((error: Error) => `${error.name}: ${error.message}`);
    const box = await createSandbox({ language: 'javascript', tools });
    const run = await box.execute('console.log(await tools.add({ a: 1, b: 2 }))');
    await box.close();
    return [refused, run.stdout];
  });
  assert.match(String(seen[0]), /^UnsupportedError: worker: tools in a worker require shared memory.*Cross-Origin-Opener-Policy/);
  assert.equal(seen[1], '3\n');
});
