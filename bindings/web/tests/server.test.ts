// Tests the page of `glovebox serve`.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { commonTests } from './common.ts';
import { Server, TOKEN, choose, ended, launch, open, output, picture, ready, run, write } from './support.ts';

const server = await Server.start();
const browser = await launch();
after(async () => {
  await browser.close();
  await server.close();
});

commonTests({ name: 'server', site: () => server, browser: () => browser });

test('output is streamed while the script runs', async () => {
  const { page, done } = await open(browser, server.url);
  await ready(page);
  await write(page, "import time\nprint('first')\ntime.sleep(1.5)\nprint('second')");
  await page.keyboard.press('ControlOrMeta+Enter');
  await page.locator('#output', { hasText: 'first' }).waitFor();
  assert.equal(await page.locator('#outcome').getAttribute('data-state'), 'running');
  assert.equal(await output(page), 'first');
  await ended(page);
  assert.equal(await output(page), 'first\nsecond');
  await done();
});

test('TypeScript runs, and examples include their files', async () => {
  const { page, done } = await open(browser, server.url);
  await ready(page);
  await choose(page, 'typescript');
  await run(page, 'const n: number = 6; console.log(n * 7 as number)');
  assert.equal(await output(page), '42');
  const titles = await page.locator('#examples option').allInnerTexts();
  assert.ok(titles.length >= 14, titles.join());
  for (const title of titles.slice(1)) {
    if (title.startsWith('An endless')) continue;
    await page.locator('#examples').selectOption({ label: title });
    await page.locator('#editor .cm-content').waitFor();
    await page.locator('#run').click();
    // The second of these two scripts reads the first script's output, so it fails when it runs alone.
    if (title !== 'Both languages on one workspace: chart.js · JavaScript') assert.equal(await ended(page), 'Completed', `${title}: ${await output(page)}`);
    else await ended(page);
  }
  await done();
});

test('the printed address grants access; the token stays in the tab and leaves the address', async (t) => {
  const own = await Server.start([], null);
  t.after(() => own.close());
  const printed = own.output.map((line) => /the page: (\S+)/.exec(line)?.[1]).find(Boolean);
  assert.match(String(printed), /^http:\/\/127\.0\.0\.1:\d+\/#token=gb_/);
  const { page, done } = await open(browser, String(printed));
  await ready(page);
  const { hash, inSession, inLocal, cookies } = await page.evaluate(() => ({
    hash: location.href,
    inSession: Object.values(sessionStorage).filter((value) => value.startsWith('gb_')).length,
    inLocal: JSON.stringify(localStorage).includes('gb_'),
    cookies: document.cookie,
  }));
  assert.deepEqual([new URL(hash).hash, inSession, inLocal, cookies], ['', 1, false, '']);
  await page.reload();
  await ready(page);
  assert.equal(await run(page, 'print(1)'), 'Completed');
  await done();
});

test('without a token, and with a wrong one, the page asks for it', async () => {
  const { page, done } = await open(browser, `http://${server.address}/`);
  await page.locator('#token-dialog').waitFor();
  await picture(page, 'server-token');
  await page.keyboard.type('wrong');
  await page.keyboard.press('Enter');
  // The page asks for the token again, and shows the server's message as the reason.
  await page.waitForFunction(() => !document.getElementById('token-reason')?.textContent?.includes('This server requires a token'));
  await page.locator('#token-dialog').waitFor();
  await page.keyboard.type(TOKEN);
  await page.keyboard.press('Enter');
  await ready(page);
  assert.equal(await run(page, 'print(1)'), 'Completed');
  await done();
});

test('errors are shown: too large, too many requests, too many sessions', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'glovebox-config-'));
  const config = join(directory, 'server.toml');
  const sha256 = createHash('sha256').update('few-executions').digest('hex');
  await writeFile(config, `[[tokens]]\nname = "few"\nsha256 = "${sha256}"\nexecutions_per_minute = 2\nsessions = 1\n[http]\nbody_bytes = 20000\n`);
  const few = await Server.start(['--config', config], null);
  t.after(async () => {
    await few.close();
    await rm(directory, { recursive: true });
  });
  const { page, done } = await open(browser, `http://${few.address}/#token=few-executions`);
  await ready(page);
  assert.equal(await run(page, `print(1) # ${'x'.repeat(30_000)}`), 'Payload Too Large');
  let text = '';
  for (let count = 0; count < 4 && text !== 'Too Many Requests'; count += 1) text = await run(page, 'print(1)');
  assert.equal(text, 'Too Many Requests');
  assert.match(await output(page), /[Tt]ry again in \d+ s\.$/);
  await picture(page, 'server-refused');
  await page.locator('#session-new').click();
  await page.locator('[aria-selected=true][data-kind=session]').waitFor();
  await page.locator('#session-new:not([disabled])').click();
  await page.locator('#notice').waitFor();
  assert.match(await page.locator('#notice').innerText(), /session/);
  await page.locator('#notice-close').click();
  assert.equal(await page.locator('#notice').isVisible(), false);
  await done();
});

test('the page reconnects to a lost server', async (t) => {
  const own = await Server.start();
  t.after(() => own.close());
  const { page, done } = await open(browser, own.url);
  await ready(page);
  assert.equal(await run(page, 'print(1)'), 'Completed');
  const { address } = own;
  await own.end();
  assert.equal(await run(page, 'print(2)'), 'No response');
  assert.equal(await page.locator('#connection').getAttribute('data-state'), 'lost');
  await picture(page, 'server-lost');
  await own.begin(address);
  await page.locator('#connection[data-state=connected]').waitFor();
  assert.equal(await run(page, 'print(3)'), 'Completed');
  await done();
});

test('the stop button ends a script of a session', async () => {
  const { page, done } = await open(browser, server.url);
  await ready(page);
  await page.locator('#session-new').click();
  await page.locator('[aria-selected=true][data-kind=session]').waitFor();
  await page.locator('#session-undo:not([disabled])').waitFor();
  await run(page, 'x = 1');
  await write(page, 'x = 2\nwhile True: pass');
  await page.keyboard.press('ControlOrMeta+Enter');
  await page.waitForTimeout(300);
  await page.locator('#stop').click();
  assert.equal(await ended(page), 'Stopped');
  assert.equal(await run(page, 'x'), 'Completed');
  await page.locator('#session-close:not([disabled])').click();
  await page.locator('[aria-selected=true][data-kind=fresh]').waitFor();
  await done();
});

test('a delayed session list removes no session', async () => {
  const { page, done } = await open(browser, server.url);
  await ready(page);
  await page.locator('#session-new').click();
  await page.locator('[aria-selected=true][data-kind=session]').waitFor();
  await page.locator('#session-fork:not([disabled])').waitFor();
  // When the script has ended, the page lists the sessions. Delays the answer until the user has forked the session.
  let letGo = (): void => undefined;
  const forked = new Promise<void>((resolve) => (letGo = resolve));
  let answered = (): void => undefined;
  const late = new Promise<void>((resolve) => (answered = resolve));
  await page.route(
    '**/v1/sessions',
    async (route) => {
      const response = await route.fetch();
      await forked;
      await route.fulfill({ response });
      answered();
    },
    { times: 1 },
  );
  await run(page, 'x = 1');
  await page.locator('#session-fork').click();
  const fork = page.locator('[aria-selected=true] > .row .label', { hasText: /\.1$/ });
  await fork.waitFor();
  letGo();
  await late;
  assert.equal(await run(page, 'x'), 'Completed');
  assert.equal(await output(page), '1');
  assert.ok(await fork.isVisible());
  assert.ok(await page.locator('#notice').isHidden());
  for (const kind of ['session', 'fresh']) {
    await page.locator('#session-close:not([disabled])').click();
    if (kind === 'session') await page.locator('.row .label', { hasText: /^python-\d+$/ }).click();
  }
  await page.locator('[aria-selected=true][data-kind=fresh]').waitFor();
  await done();
});

test('other pages cannot frame the page', async () => {
  const { page } = await open(browser, `http://${server.address}/page/licences.txt`);
  const blocked = page.waitForEvent('console', (message) => message.text().includes('frame-ancestors'));
  await page.evaluate((url) => document.body.append(Object.assign(document.createElement('iframe'), { src: url })), server.url);
  await blocked;
  await page.context().close();
});
