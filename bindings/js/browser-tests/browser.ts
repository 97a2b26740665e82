// Drives a real browser over the DevTools protocol.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

/** Timeout for starting the browser and for each DevTools response, in milliseconds, long enough for slow machines. */
const TIMEOUT_MS = 120_000;

/** A running browser. */
export class Browser {
  readonly #process: ChildProcess;
  readonly #profile: string;
  readonly #socket: WebSocket;
  readonly #pending = new Map<number, (answer: any) => void>();
  #count = 0;

  private constructor(child: ChildProcess, profile: string, socket: WebSocket) {
    this.#process = child;
    this.#profile = profile;
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      const answer = JSON.parse(data);
      this.#pending.get(answer.id)?.(answer);
      this.#pending.delete(answer.id);
    };
  }

  static async start(): Promise<Browser> {
    const profile = await mkdtemp(join(tmpdir(), 'glovebox-browser-'));
    // Chromium cannot use its own sandbox as root, but it loads only trusted pages. The test pages are in the
    // background, where Chromium would throttle timers.
    const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run'];
    flags.push('--disable-background-timer-throttling', '--disable-renderer-backgrounding', '--remote-debugging-port=0');
    const child = spawn(process.env['CHROMIUM'] ?? 'chromium', [...flags, `--user-data-dir=${profile}`, 'about:blank'], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const url = await new Promise<string>((resolve, reject) => {
      const output: string[] = [];
      const late = setTimeout(() => reject(new Error(`the browser did not start: ${output.join('\n')}`)), TIMEOUT_MS);
      child.on('error', reject);
      child.on('exit', () => reject(new Error(`the browser exited: ${output.join('\n')}`)));
      createInterface({ input: child.stderr }).on('line', (line) => {
        output.push(line);
        const [, found] = /^DevTools listening on (.*)$/.exec(line) ?? [];
        if (found === undefined) return;
        clearTimeout(late);
        resolve(found);
      });
    });
    const socket = new WebSocket(url);
    await new Promise((resolve, reject) => Object.assign(socket, { onopen: resolve, onerror: reject }));
    return new Browser(child, profile, socket);
  }

  async ask(method: string, params: object = {}, sessionId?: string): Promise<any> {
    const id = (this.#count += 1);
    const answer = await new Promise<any>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`the browser did not answer ${method}`)), TIMEOUT_MS);
      this.#pending.set(id, (answer) => {
        clearTimeout(late);
        resolve(answer);
      });
      this.#socket.send(JSON.stringify({ id, method, params, sessionId }));
    });
    if (answer.error) throw new Error(`${method}: ${answer.error.message}`);
    return answer.result;
  }

  /** Opens a page and waits until it has loaded. */
  async open(url: string): Promise<Page> {
    const { targetId } = await this.ask('Target.createTarget', { url });
    const { sessionId } = await this.ask('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId);
    const late = Date.now() + TIMEOUT_MS;
    // A new page starts as `about:blank`. While it navigates, it has no execution context, and evaluation fails.
    for (;;) {
      const state = await page.run(async () => `${document.readyState} ${location.href}`).catch((error: Error) => error.message);
      if (/^complete (?!about:blank$)/.test(state)) return page;
      if (Date.now() > late) throw new Error(`the page ${url} did not load: ${state}`);
      await sleep(50);
    }
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    await this.ask('Browser.close').catch(() => this.#process.kill());
    await ended;
    await rm(this.#profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A page of the browser. */
export class Page {
  readonly #browser: Browser;
  readonly #session: string;

  constructor(browser: Browser, session: string) {
    this.#browser = browser;
    this.#session = session;
  }

  /**
   * Runs a function in the page and returns its result as JSON. The function is sent as source text, so it cannot refer
   * to variables outside its body.
   */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    const params = { expression: `(${work})()`, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.#browser.ask('Runtime.evaluate', params, this.#session);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }
}
