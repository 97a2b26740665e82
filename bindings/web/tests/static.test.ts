// Tests the page on a static file host, without a server.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { commonTests } from './common.ts';
import { ROOT, ended, launch, open, output, ready, run, serveStatic, write } from './support.ts';

const directory = process.env['PLAYGROUND'] ?? join(ROOT, 'target/playground');
const isolated = await serveStatic(directory, true);
const plain = await serveStatic(directory, false);
const browser = await launch();
after(async () => {
  await browser.close();
  await isolated.close();
  await plain.close();
});

commonTests({ name: 'playground', site: () => isolated, browser: () => browser });
commonTests({ name: 'plain-playground', site: () => plain, browser: () => browser });

test('with shared memory a session outlives a stopped script', async () => {
  const { page, done } = await open(browser, isolated.url);
  await ready(page);
  assert.equal(await page.evaluate(() => crossOriginIsolated), true);
  await page.locator('#session-new').click();
  await page.locator('[aria-selected=true][data-kind=session]').waitFor();
  await page.locator('#session-undo:not([disabled])').waitFor();
  await run(page, 'x = 41');
  await write(page, 'while True: pass');
  await page.keyboard.press('ControlOrMeta+Enter');
  await page.waitForTimeout(500);
  await page.locator('#stop').click();
  assert.equal(await ended(page), 'Stopped');
  await run(page, 'x + 1');
  assert.equal(await output(page), '42');
  await done();
});

test('without shared memory stopping a script ends its session, and the page says so', async () => {
  const { page, done } = await open(browser, plain.url);
  await ready(page);
  await page.locator('#session-new').click();
  await page.locator('[aria-selected=true][data-kind=session]').waitFor();
  await page.locator('#session-undo:not([disabled])').waitFor();
  await write(page, 'while True: pass');
  await page.keyboard.press('ControlOrMeta+Enter');
  await page.waitForTimeout(500);
  await page.locator('#stop').click();
  assert.equal(await ended(page), 'Stopped');
  await page.locator('[aria-selected=true][data-kind=fresh]').waitFor();
  assert.match(await page.locator('#notice').innerText(), /session `python-1` is lost/);
  assert.equal(await run(page, 'print(2)'), 'Completed');
  await done();
});
