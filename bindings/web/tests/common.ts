// The tests for both forms of the page.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { type Site, barriers, choose, ended, open, output, picture, ready, run, tree, write } from './support.ts';

/** A form of the page: served by `glovebox serve`, or static. */
export interface Form {
  name: string;
  site: () => Site;
  browser: () => Browser;
}

/** A script that displays a small PNG, encoded without a library. */
const PNG = `import struct, zlib
class Picture:
    def _repr_png_(self):
        def chunk(kind, data):
            body = kind + data
            return struct.pack('>I', len(data)) + body + struct.pack('>I', zlib.crc32(body))
        rows = b''.join(b'\\0' + bytes([x % 256, y % 256, 128] * 1)[:3] * 40 for y in range(30) for x in [y * 8])
        return b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 40, 30, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')
display(Picture())
`;
const SHOW = `class Show:
    def __init__(self, **forms): self.forms = {name.replace('_', '/').replace('svg', 'svg+xml'): data for name, data in forms.items()}
    def _repr_mimebundle_(self, include=None, exclude=None): return self.forms
`;

export function commonTests({ name, site, browser }: Form): void {
  const page = async (options?: Parameters<typeof open>[2]) => {
    const opened = await open(browser(), site().url, options);
    await ready(opened.page);
    return opened;
  };

  test(`${name}: scripts run in Python and JavaScript, and their usage is shown`, async () => {
    const { page: it, done } = await page();
    assert.equal(await run(it, 'print(6 * 7)'), 'Completed');
    assert.equal(await output(it), '42');
    const meters = it.locator('#usage [role=meter]');
    assert.equal(await meters.count(), 3);
    for (const label of ['Time', 'Fuel', 'Memory']) {
      assert.ok(Number(await it.locator(`#usage [aria-label=${label}]`).getAttribute('aria-valuenow')) > 0, label);
    }
    await choose(it, 'javascript');
    assert.equal(await run(it, 'console.log([1, 2, 3].map((x) => x * x))'), 'Completed');
    assert.equal(await output(it), '[ 1, 4, 9 ]');
    await done();
  });

  test(`${name}: exceptions, exit codes, standard input and custom limits are shown`, async () => {
    const { page: it, done } = await page();
    assert.equal(await run(it, '1 / 0'), 'ZeroDivisionError');
    assert.match(await output(it), /ZeroDivisionError: division by zero/);
    assert.equal(await run(it, 'import sys; sys.exit(3)'), 'Exited with 3');
    await it.locator('#settings summary').click();
    await it.locator('#stdin').fill('1\n2\n3\n');
    await run(it, 'import sys; print(sum(map(int, sys.stdin)))');
    assert.equal(await output(it), '6');
    await it.locator('#limit-time').fill('300');
    assert.match((await it.locator('#usage').innerText()).replace(/\n/g, ' '), /300 ms/);
    assert.equal(await run(it, 'while True: pass'), 'Out of time: the limit is 300 ms');
    await it.locator('#limit-time').fill('');
    assert.equal(await run(it, 'print(1)'), 'Completed');
    await done();
  });

  test(`${name}: an endless script is stopped by the button and by the keyboard, and the next one runs`, async () => {
    const { page: it, done } = await page();
    for (const stop of [() => it.locator('#stop').click(), () => it.keyboard.press('ControlOrMeta+.')]) {
      await write(it, 'while True: pass');
      await it.keyboard.press('ControlOrMeta+Enter');
      await it.locator('#stop').waitFor();
      // The page responds while the script runs.
      assert.equal(await it.evaluate(() => 6 * 7), 42);
      await it.waitForTimeout(400);
      await stop();
      assert.equal(await ended(it), 'Stopped');
      assert.equal(await run(it, 'print(2)'), 'Completed');
      assert.equal(await output(it), '2');
    }
    await done();
  });

  test(`${name}: pictures, HTML and texts are shown`, async () => {
    const { page: it, done } = await page();
    const html = '<table style=\\"color: rgb(1, 2, 3)\\"><tr><td>cell</td></tr></table>';
    const svg = '<svg xmlns=\\"http://www.w3.org/2000/svg\\" width=\\"60\\" height=\\"20\\"><circle r=\\"9\\"/></svg>';
    const more = `${SHOW}display(Show(image_svg="${svg}"))\ndisplay(Show(text_html="${html}"))\ndisplay({'a': [1, 2]})\n`;
    assert.equal(await run(it, PNG + more), 'Completed');
    const sizes = it.locator('.display img');
    await it.waitForFunction(() => [...document.querySelectorAll<HTMLImageElement>('.display img')].every((image) => image.complete));
    const size = (images: Element[]): number[][] => (images as HTMLImageElement[]).map(({ naturalWidth, naturalHeight }) => [naturalWidth, naturalHeight]);
    assert.deepEqual(await sizes.evaluateAll(size), [[40, 30], [60, 20]]);
    const cell = it.frameLocator('.display iframe').frameLocator('iframe').locator('td');
    assert.equal(await cell.innerText(), 'cell');
    // The policy allows the display's own style.
    const colour = await cell.evaluate((element) => getComputedStyle(element).color);
    assert.equal(colour, 'rgb(1, 2, 3)');
    assert.match(await it.locator('.display').last().innerText(), /'a': \[1, 2\]/);
    await it.locator('#output').evaluate((element) => (element.scrollTop = 0));
    await picture(it, `${name}-displays`);
    await done();
  });

  test(`${name}: files are uploaded, used by scripts, downloaded and deleted`, async () => {
    const { page: it, done } = await page();
    const directory = await mkdtemp(join(tmpdir(), 'glovebox-files-'));
    await writeFile(join(directory, 'numbers.txt'), '1\n2\n39\n');
    for (const inSession of [false, true]) {
      if (inSession) {
        await it.locator('#session-new').click();
        await it.locator('[role=treeitem][aria-selected=true][data-kind=session]').waitFor();
        await it.getByText('No files. Upload some').waitFor();
      }
      await it.locator('#upload').setInputFiles(join(directory, 'numbers.txt'));
      await it.locator('#file-list .path', { hasText: 'numbers.txt' }).waitFor();
      const source = "import os\nos.makedirs('out', exist_ok=True)\nopen('out/sum.bin', 'wb').write(b'\\x00\\xff' + str(sum(map(int, open('numbers.txt')))).encode())";
      assert.equal(await run(it, source), 'Completed');
      const [saved] = await Promise.all([it.waitForEvent('download'), it.locator('#file-list .file', { hasText: 'out/sum.bin' }).click()]);
      assert.equal(saved.suggestedFilename(), 'sum.bin');
      assert.deepEqual([...(await readFile(await saved.path()))], [0, 255, 0x34, 0x32]);
      await it.getByRole('button', { name: 'Delete numbers.txt' }).click();
      await it.locator('#file-list .path', { hasText: 'numbers.txt' }).waitFor({ state: 'detached' });
      assert.equal(await run(it, "open('numbers.txt')"), 'FileNotFoundError');
    }
    await rm(directory, { recursive: true });
    await done();
  });

  test(`${name}: sessions keep state, fork, undo, and are shown as a tree`, async () => {
    const { page: it, done } = await page();
    await closeAll(it);
    await it.locator('#session-new').click();
    await it.locator('[role=treeitem][aria-selected=true][data-kind=session]').waitFor();
    await run(it, 'cities = ["Oslo", "Lima"]');
    await run(it, 'len(cities)');
    assert.equal(await output(it), '2');
    await it.locator('#session-save').click();
    await it.getByText('after run 2').first().waitFor();
    await it.locator('#session-fork').click();
    await it.locator('[aria-selected=true] > .row .label', { hasText: 'python-1.1' }).waitFor();
    await run(it, 'cities.clear(); cities');
    assert.equal(await output(it), '[]');
    await it.locator('#session-fork').click();
    await it.locator('[aria-selected=true] > .row .label', { hasText: 'python-1.1.1' }).waitFor();
    await it.locator('.row .label', { hasText: /^python-1$/ }).click();
    await it.locator('[aria-selected=true] > .row .label', { hasText: /^python-1$/ }).waitFor();
    await it.locator('#session-save:not([disabled])').waitFor();
    const known = (await tree(it)).filter((row) => !/run/.test(row));
    assert.deepEqual(known, ['New interpreter', 'python-1 *', '  python-1.1', '    python-1.1.1']);
    await picture(it, `${name}-sessions`);
    assert.equal(await run(it, 'cities.append("Kyiv"); cities'), 'Completed');
    assert.equal(await output(it), "['Oslo', 'Lima', 'Kyiv']");
    await it.locator('#session-undo').click();
    await it.locator('#session-undo:not([disabled])').waitFor();
    await run(it, 'cities');
    assert.equal(await output(it), "['Oslo', 'Lima']");
    // A session has one language, so another language needs another session.
    assert.equal(await it.locator('#language option[value=javascript]').isDisabled(), true);
    await closeAll(it);
    assert.deepEqual(await tree(it), ['New interpreter *']);
    await done();
  });

  test(`${name}: everything works with the keyboard`, async () => {
    const { page: it, done } = await page();
    await closeAll(it);
    await it.locator('body').press('F6');
    const focused = (): Promise<string> => it.evaluate(() => document.activeElement?.id || document.activeElement?.getAttribute('role') || '');
    assert.equal(await focused(), 'language');
    await it.keyboard.press('F6');
    assert.equal(await focused(), 'editor');
    await it.keyboard.press('ControlOrMeta+a');
    await it.keyboard.type('for n in range(2):\nprint(n)');
    await it.keyboard.press('ControlOrMeta+Enter');
    assert.equal(await ended(it), 'Completed');
    assert.equal(await output(it), '0\n1');
    // Tab indents until Escape is pressed.
    await it.keyboard.press('Tab');
    assert.equal(await focused(), 'editor');
    await it.keyboard.press('Escape');
    await it.keyboard.press('Tab');
    assert.equal(await focused(), 'output');
    await it.keyboard.press('F6');
    assert.equal(await focused(), 'treeitem');
    const label = (): Promise<string> => it.evaluate(() => document.activeElement?.querySelector('.label')?.textContent ?? '');
    const chosen = (text: string) => it.locator('[aria-selected=true] > .row .label', { hasText: new RegExp(`^${text}$`) }).waitFor();
    await it.keyboard.press('n');
    await chosen('python-1');
    await it.locator('#session-fork:not([disabled])').waitFor();
    await it.keyboard.press('f');
    await chosen('python-1.1');
    await it.locator('#session-fork:not([disabled])').waitFor();
    await it.keyboard.press('Home');
    assert.equal(await label(), 'New interpreter');
    await it.keyboard.press('ArrowDown');
    assert.equal(await label(), 'python-1');
    await it.keyboard.press('ArrowLeft');
    assert.deepEqual(await tree(it), ['New interpreter', 'python-1']);
    await it.keyboard.press('ArrowRight');
    await it.keyboard.press('ArrowRight');
    assert.equal(await label(), 'python-1.1');
    await it.keyboard.press('Enter');
    await it.locator('#session-close:not([disabled])').waitFor();
    await it.keyboard.press('Delete');
    await chosen('New interpreter');
    assert.deepEqual(await tree(it), ['New interpreter *', 'python-1']);
    await it.keyboard.press('F6');
    assert.equal(await focused(), 'upload-button');
    await it.keyboard.press('?');
    assert.equal(await it.locator('#help').isVisible(), true);
    await picture(it, `${name}-help`);
    await it.keyboard.press('Escape');
    assert.equal(await it.locator('#help').isVisible(), false);
    // Tab reaches every control, and the focused control is visible.
    const reached = new Set<string>();
    for (let step = 0; step < 40; step += 1) {
      await it.keyboard.press('Escape');
      await it.keyboard.press('Tab');
      reached.add(await focused());
    }
    for (const id of ['theme', 'help-button', 'language', 'examples', 'run', 'editor', 'output', 'session-new', 'treeitem', 'upload-button']) {
      assert.ok(reached.has(id), `${id} is not among ${[...reached].join(', ')}`);
    }
    await closeAll(it);
    await done();
  });

  test(`${name}: light and dark, wide and narrow layouts are accessible`, async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      for (const [width, height] of [[1280, 860], [390, 844]] as const) {
        const { page: it, done } = await page({ colorScheme, width, height });
        await it.locator('#examples').selectOption({ label: 'Displays · Python' });
        await it.locator('#run').click();
        assert.equal(await ended(it), 'Completed');
        const background = await it.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
        const brightness = /\d+/.exec(background)?.[0];
        assert.equal(Number(brightness) > 128, colorScheme === 'light', background);
        const overflow = await it.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
        await picture(it, `${name}-${colorScheme}-${width === 390 ? 'narrow' : 'wide'}`);
        assert.deepEqual(await barriers(it), []);
        if (width === 390) {
          await it.evaluate(() => scrollTo(0, document.body.scrollHeight));
          await picture(it, `${name}-${colorScheme}-narrow-end`);
        }
        await done();
      }
    }
    const { page: it, done } = await page();
    const isDark = (): Promise<boolean> => it.evaluate(() => getComputedStyle(document.documentElement).colorScheme === 'dark');
    await it.locator('#theme').click();
    await it.locator('#theme').click();
    assert.equal(await isDark(), true);
    await it.reload();
    await ready(it);
    assert.equal(await isDark(), true, 'the choice is remembered');
    await done();
  });

  test(`${name}: nothing that a script writes, names, shows or raises becomes part of the page`, async () => {
    const { page: it, faults, foreign } = await page();
    await it.evaluate(() => Object.assign(globalThis, { isOurs: true }));
    const bad = `<img src=x onerror="top.pwned=1"><script>top.pwned=1</script><a href="javascript:top.pwned=1" id=run>`;
    const out = 'https://evil.example/';
    const html =
      `${bad}<link rel=stylesheet href=${out}a.css><img src=${out}a.png><iframe src=${out}></iframe><meta http-equiv=refresh content="0;url=${out}">` +
      `<form action=${out}><button id=go>go</button></form><a id=away target=_top href=${out}>away</a><svg onload="top.pwned=1"></svg><base href=${out}>`;
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20" onload="top.pwned=1"><script>top.pwned=1</script><image href="${out}b.png"/></svg>`;
    const source = `${SHOW}
bad = ${JSON.stringify(bad)}
print(bad)
import sys; print(bad, file=sys.stderr)
display(Show(text_html=${JSON.stringify(html)}, text_plain=bad))
display(Show(image_svg=${JSON.stringify(svg)}, text_plain=bad))
display(Show(text_plain=bad))
display(Show(text_markdown='[x](javascript:top.pwned=1)' + bad))
display(Show(**{'image_png': b'no picture at all'}))
open('<img src=x onerror=top.pwned=1>', 'w').close()
open('\\u202egnp.exe', 'w').close()
raise type(bad, (Exception,), {})(bad)`;
    await run(it, source);
    assert.match(await output(it), /<img src=x onerror/);
    await it.locator('.display iframe').first().waitFor();
    assert.deepEqual(await it.locator('#file-list .path').allInnerTexts(), ['<img src=x onerror=top.pwned=1>', '\\u{202e}gnp.exe']);
    const inner = it.frameLocator('.display iframe').first().frameLocator('iframe');
    // The frame's sandbox blocks navigation by these links.
    await inner.locator('#go').click({ timeout: 3_000 }).catch(() => undefined);
    await inner.locator('#away').click({ timeout: 3_000 }).catch(() => undefined);
    await it.waitForTimeout(700);
    const state = await it.evaluate(() => {
      const page = globalThis as unknown as { pwned?: number; isOurs?: boolean };
      const frames = [...document.querySelectorAll('iframe')].map((frame) => frame.contentDocument?.querySelector('iframe')?.getAttribute('sandbox'));
      const scripts = [...document.scripts].map(({ src }) => new URL(src).pathname);
      return { pwned: page.pwned, isOurs: page.isOurs, frames, scripts, images: document.querySelectorAll('#output img:not(.display img), #files img').length };
    });
    assert.deepEqual(state, { pwned: undefined, isOurs: true, frames: [''], scripts: ['/page/app.js'], images: 0 });
    assert.deepEqual(foreign, []);
    // Violations are allowed only for the frame's policy, not for the page's policy.
    assert.deepEqual(faults.filter((fault) => !/about:srcdoc|frame\.html|evil\.example|"img-src data:"|[Ss]andboxed/.test(fault)), []);
    await it.context().close();
  });

  test(`${name}: terminal colours are shown, and other sequences dropped`, async () => {
    const { page: it, done } = await page();
    await run(it, String.raw`print('a\x1b[31mred\x1b[0m \x1b]0;title\x07b\x1b[2Jc\x1b[38;5;9md\x1b[1me\x1b[m\x00\x08f')`);
    assert.equal(await output(it), 'ared bcdef');
    assert.equal(await it.locator('#output .ansi-red').innerText(), 'red');
    await done();
  });

  test(`${name}: long output is truncated, and available in full`, async () => {
    const { page: it, done } = await page();
    // The output consists of few large chunks, so that the script also meets its timeout on a slow machine.
    const source = String.raw`for n in range(0, 60000, 100): print('\n'.join(f"{m} {'x' * 20}" for m in range(n, n + 100)))`;
    assert.equal(await run(it, source), 'Completed');
    assert.match(await output(it), /further characters not shown/);
    const shown = await it.locator('#output pre.text').evaluate((element) => element.textContent?.length ?? 0);
    assert.ok(shown > 200_000 && shown <= 300_000, `${shown}`);
    const [saved] = await Promise.all([it.waitForEvent('download'), it.getByText('Download the whole output').click()]);
    const text = await readFile(await saved.path(), 'utf8');
    assert.ok(text.endsWith(`59999 ${'x'.repeat(20)}\n`));
    await done();
  });
}

async function closeAll(page: Page): Promise<void> {
  for (;;) {
    const row = page.locator('[data-kind=session] > .row .label').last();
    if ((await row.count()) === 0) return;
    const name = await row.innerText();
    await row.click();
    await page.locator('[aria-selected=true] > .row .label', { hasText: new RegExp(`^${name.replaceAll('.', '\\.')}$`) }).waitFor();
    await page.locator('#session-close:not([disabled])').click();
    await page.locator('[aria-selected=true][data-kind=fresh]').waitFor();
    await page.locator('#session-new:not([disabled])').waitFor();
  }
}
