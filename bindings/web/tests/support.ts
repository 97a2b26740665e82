// Starts a browser and servers, and opens pages that record every violation of the Content-Security-Policy.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Browser, type Page, chromium } from 'playwright-core';

export const ROOT = join(import.meta.dirname, '../../..');
export const TOKEN = 'a-token-of-the-tests-of-the-page';
/** Timeout of every step, in milliseconds, long enough for slow machines. */
export const TIMEOUT_MS = 60_000;
const SCREENSHOTS = join(ROOT, 'target/page-screenshots');

export function launch(): Promise<Browser> {
  // Chromium cannot use its own sandbox as root, but it loads only trusted pages.
  const args = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'];
  return chromium.launch({ executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium', args });
}

/** A server of pages. */
export interface Site {
  url: string;
  close(): Promise<void>;
}

/** A `glovebox serve` process. */
export class Server implements Site {
  #process: ChildProcess | undefined;
  readonly #store: string;
  readonly #flags: string[];
  readonly #token: string | null;
  /** The process's output, in chunks. */
  output: string[] = [];
  address = '';

  private constructor(store: string, flags: string[], token: string | null) {
    this.#store = store;
    this.#flags = flags;
    this.#token = token;
  }

  /** Starts the server. If `token` is null, the server generates a token or uses its configuration. */
  static async start(flags: string[] = [], token: string | null = TOKEN): Promise<Server> {
    const server = new Server(await mkdtemp(join(tmpdir(), 'glovebox-page-')), flags, token);
    await server.begin('127.0.0.1:0');
    return server;
  }

  async begin(listen: string): Promise<void> {
    const { GLOVEBOX_TOKEN: _, ...env } = process.env;
    const command = process.env['GLOVEBOX'] ?? join(ROOT, 'target/debug/glovebox');
    const child = spawn(command, ['serve', '--listen', listen, '--store', this.#store, ...this.#flags], {
      env: this.#token === null ? env : { ...env, GLOVEBOX_TOKEN: this.#token },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#process = child;
    this.output = [];
    await new Promise<void>((resolve, reject) => {
      child.on('exit', (code) => reject(new Error(`the server ended with ${code}: ${this.output.join('\n')}`)));
      createInterface({ input: child.stderr }).on('line', (line) => {
        this.output.push(line);
        this.address = /listening on http:\/\/(\S+)/.exec(line)?.[1] ?? this.address;
        if (line.includes('the page: ')) resolve();
      });
    });
  }

  get url(): string {
    return `http://${this.address}/${this.#token === null ? '' : `#token=${encodeURIComponent(this.#token)}`}`;
  }

  /** Stops the server; `begin` starts it again. */
  async end(): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    // A second signal stops the server immediately.
    setTimeout(() => child.kill('SIGTERM'), 300).unref();
    await ended;
  }

  async close(): Promise<void> {
    await this.end();
    await rm(this.#store, { recursive: true, force: true });
  }
}

const TYPES: Record<string, string> = {
  '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.wasm': 'application/wasm', '.json': 'application/json',
};
const ISOLATED = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

/** Serves static files; `isolated` sends the headers for shared memory. */
export async function serveStatic(directory: string, isolated: boolean): Promise<Site> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    const path = pathname.endsWith('/') ? `${pathname}index.html` : pathname;
    readFile(join(directory, path)).then(
      (bytes) => response.writeHead(200, { 'Content-Type': TYPES[extname(path)] ?? 'application/octet-stream', ...(isolated && ISOLATED) }).end(bytes),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: async () => void server.close(),
  };
}

/** A page and the violations that it reports. */
export interface Watched {
  page: Page;
  /** Policy violations and script errors. */
  faults: string[];
  /** Requests to foreign hosts that no Content-Security-Policy has blocked. */
  foreign: string[];
  /** Asserts that there were no violations, and closes the page. */
  done(): Promise<void>;
}

/** Opens a page with its own storage and sessions. */
export async function open(browser: Browser, url: string, options: { width?: number; height?: number; colorScheme?: 'light' | 'dark' } = {}): Promise<Watched> {
  const { width = 1280, height = 860, colorScheme = 'light' } = options;
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, acceptDownloads: true });
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  const [faults, foreign]: [string[], string[]] = [[], []];
  await page.exposeFunction('reportViolation', (text: string) => faults.push(text));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sourceFile }) =>
      (globalThis as unknown as { reportViolation(text: string): void }).reportViolation(`${violatedDirective}: ${blockedURI} in ${sourceFile}`),
    );
  });
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => {
    if (/content security policy|trusted ?types|sandboxed/i.test(message.text())) faults.push(message.text());
  });
  const { origin } = new URL(url);
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith('blob:') && !url.startsWith('data:') && url !== 'about:srcdoc') foreign.push(url);
  });
  // The browser also reports requests that a Content-Security-Policy blocks, although it does not send them.
  page.on('requestfailed', (request) => {
    const at = foreign.indexOf(request.url());
    if (request.failure()?.errorText === 'csp' && at >= 0) foreign.splice(at, 1);
  });
  await page.goto(url);
  const done = async (): Promise<void> => {
    await context.close();
    assert.deepEqual([...new Set(faults)], []);
    assert.deepEqual(foreign, []);
  };
  return { page, faults, foreign, done };
}

/** Waits until the page can run scripts. */
export async function ready(page: Page): Promise<void> {
  await page.locator('#run:not([disabled])').waitFor();
}

/** Replaces the editor's text with a script. */
export async function write(page: Page, source: string): Promise<void> {
  await page.locator('#editor .cm-content').click();
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.insertText(source);
}

/** Runs a script and returns the text that describes its outcome. */
export async function run(page: Page, source: string): Promise<string> {
  await write(page, source);
  await page.keyboard.press('ControlOrMeta+Enter');
  return ended(page);
}

/** Waits until the running script has ended, and returns the text that describes its outcome. */
export async function ended(page: Page): Promise<string> {
  await page.locator('#outcome:not([data-state=running]):not(:empty)').waitFor();
  await page.locator('#run').waitFor();
  return (await page.locator('#outcome').textContent()) ?? '';
}

/** Returns the text of the output panel. */
export async function output(page: Page): Promise<string> {
  return (await page.locator('#output').innerText()).trim();
}

/** Selects a language. */
export async function choose(page: Page, language: string): Promise<void> {
  await page.locator('#language').selectOption(language);
}

/** Returns the rows of the tree, indented by depth. */
export function tree(page: Page): Promise<string[]> {
  const rows = (items: Element[]): string[] =>
    items.map((item) => {
      const label = item.querySelector('.label')?.textContent ?? '';
      return `${'  '.repeat(Number(item.getAttribute('aria-level')) - 1)}${label}${item.getAttribute('aria-selected') === 'true' ? ' *' : ''}`;
    });
  return page.locator('#session-tree [role=treeitem]').evaluateAll(rows);
}

/** Saves a screenshot of the page in target/page-screenshots. */
export async function picture(page: Page, name: string): Promise<void> {
  await mkdir(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
}

/** Returns the accessibility violations that axe finds. */
export async function barriers(page: Page): Promise<string[]> {
  await page.evaluate(await readFile(join(import.meta.dirname, '../node_modules/axe-core/axe.min.js'), 'utf8'));
  const found = await page.evaluate(async () => {
    const axe = (globalThis as unknown as { axe: { run(options: object): Promise<{ violations: any[] }> } }).axe;
    // axe cannot inspect sandboxed frames.
    return (await axe.run({ iframes: false, runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice'] })).violations;
  });
  return found.flatMap(({ id, nodes }) => nodes.map((node: { target: string[]; failureSummary: string }) => `${id}: ${node.target.join(' ')}: ${node.failureSummary}`));
}
