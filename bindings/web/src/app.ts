// Connects the parts of the page.
import type { Allowed, Backend, Info, Language, RuntimeLanguage } from './backend/backend.ts';
import { type Problem, problemOf, sentence } from './backend/problem.ts';
import { EXAMPLES } from './examples.ts';
import { byId, h } from './ui/dom.ts';
import { Editor } from './ui/editor.ts';
import { Files } from './ui/files.ts';
import { bytes, count, duration } from './ui/format.ts';
import { Output } from './ui/output.ts';
import { installKeys } from './ui/regions.ts';
import { Sessions } from './ui/sessions.ts';
import { installTheme } from './ui/theme.ts';
import { Usage } from './ui/usage.ts';

const NAMES: Record<Language, string> = { python: 'Python', javascript: 'JavaScript', typescript: 'TypeScript' };
const FIRST: Record<Language, string> = {
  python: 'import sys\n\nprint("Hello from", sys.version.split()[0])\nfor n in range(1, 6):\n    print(n, n ** 2, "#" * n)\n',
  javascript: "const words = ['quiet', 'sealed', 'gloves'];\nconsole.log(words.map((word) => word.toUpperCase()).join(' '));\n",
  typescript: "interface Stock { name: string; count: number }\n\nconst stock: Stock[] = [{ name: 'flask', count: 3 }];\nfor (const { name, count } of stock) console.log(name, count);\n",
};
const DRAFT = 'glovebox-draft';
const RETRY_MS = 3_000;

/** The parts in which the forms of the page differ. */
export interface Form {
  backend: Backend;
  /** Asks the user for a token after an authorization failure. */
  letIn?: (problem: Problem) => Promise<void>;
}

export class App {
  readonly #form: Form;
  readonly #backend: Backend;
  readonly #output = new Output(byId('output'), byId('outcome'));
  readonly #usage = new Usage(byId('usage'));
  readonly #language = byId<HTMLSelectElement>('language');
  readonly #stdin = byId<HTMLTextAreaElement>('stdin');
  readonly #connection = byId('connection');
  readonly #editor: Editor;
  readonly #files: Files;
  readonly #sessions: Sessions;
  #info: Info | undefined;
  #place: string | undefined;
  #running: AbortController | undefined;

  constructor(form: Form) {
    this.#form = form;
    this.#backend = form.backend;
    installTheme();
    this.#editor = new Editor(byId('editor'), () => void this.run(), () => this.#remember());
    this.#files = new Files(this.#backend, (error) => this.#failed(error));
    this.#sessions = new Sessions(this.#backend, {
      changed: () => this.#placeChanged(),
      failed: (error) => this.#failed(error),
      language: () => this.#runtimeLanguage,
    });
    byId('run').addEventListener('click', () => void this.run());
    byId('stop').addEventListener('click', () => this.stop());
    byId('notice-close').addEventListener('click', () => (byId('notice').hidden = true));
    this.#language.addEventListener('change', () => this.#languageChanged());
    for (const id of ['limit-time', 'limit-fuel', 'limit-memory']) byId(id).addEventListener('input', () => this.#showAllowed());
    installKeys(
      [
        [byId('controls'), () => this.#language.focus()],
        [byId('editor'), () => this.#editor.focus()],
        [byId('output'), () => byId('output').focus()],
        [byId('sessions'), () => this.#sessions.focus()],
        [byId('files'), () => byId('upload-button').focus()],
      ],
      { run: () => void this.run(), stop: () => this.stop() },
    );
    this.#recall();
  }

  /** Loads the provider's description, and shows the page. */
  async start(): Promise<void> {
    for (;;) {
      try {
        this.#info = await this.#backend.info();
        break;
      } catch (error) {
        const problem = problemOf(error);
        if (problem.kind === 'unauthorized') await this.#letIn(problem);
        else {
          this.#connect('lost', problem.message);
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        }
      }
    }
    const { where, runtimes, languages, limits } = this.#info;
    const versions = runtimes.map(({ language, version }) => [NAMES[language], version].filter(Boolean).join(' ')).join(', ');
    this.#connect('connected', `${where} · ${versions}`);
    for (const option of this.#language.options) option.hidden = option.disabled = !languages.includes(option.value as Language);
    if (this.#language.selectedOptions[0]?.disabled) this.#language.value = languages[0] ?? 'python';
    this.#languageChanged();
    this.#offerExamples();
    byId<HTMLInputElement>('limit-time').placeholder = duration(limits.timeoutMs);
    byId<HTMLInputElement>('limit-fuel').placeholder = count(limits.fuel);
    byId<HTMLInputElement>('limit-memory').placeholder = bytes(limits.memoryBytes);
    this.#showAllowed();
    byId<HTMLButtonElement>('run').disabled = false;
    await this.#sessions.refresh().catch((error: unknown) => this.#failed(error));
  }

  /** Runs the script in the editor. */
  async run(): Promise<void> {
    if (this.#running || !this.#info) return;
    const running = new AbortController();
    this.#running = running;
    this.#busy(true);
    this.#output.begin(this.#info.streams ? 'Running…' : 'Running… Output appears when the script has ended.');
    const session = this.#sessions.current?.id;
    const limits = session === undefined ? this.#askedLimits() : {};
    try {
      const done = await this.#backend.run(
        { source: this.#editor.text, language: this.#language.value as Language, stdin: this.#stdin.value, session, files: this.#files.own, limits },
        (piece) => this.#output.add(piece),
        running.signal,
      );
      this.#output.end(done);
      this.#usage.used(this.#allowed(), done.execution);
      if (session === undefined && done.files) this.#files.take(done.files);
      this.#connect('connected');
    } catch (error) {
      const problem = problemOf(error);
      this.#output.fail(problem);
      this.#noticed(problem);
    }
    this.#running = undefined;
    this.#busy(false);
    // A stopped script may also have changed the session.
    if (session !== undefined) await this.#sessions.refresh().catch((error: unknown) => this.#failed(error));
    else await this.#files.show(undefined);
  }

  /** Stops the running script. */
  stop(): void {
    this.#running?.abort();
  }

  get #runtimeLanguage(): RuntimeLanguage {
    return this.#language.value === 'python' ? 'python' : 'javascript';
  }

  #busy(isBusy: boolean): void {
    const [run, stop] = [byId<HTMLButtonElement>('run'), byId<HTMLButtonElement>('stop')];
    const hadFocus = document.activeElement === run || document.activeElement === stop;
    this.#sessions.busy(isBusy);
    run.hidden = isBusy;
    stop.hidden = !isBusy;
    if (hadFocus) (isBusy ? stop : run).focus();
    byId('output').setAttribute('aria-busy', String(isBusy));
  }

  #askedLimits(): Partial<Allowed> {
    const number = (id: string): number | undefined => {
      const value = byId<HTMLInputElement>(id).valueAsNumber;
      return Number.isFinite(value) && value > 0 ? value : undefined;
    };
    const [timeoutMs, fuel, mebibytes] = [number('limit-time'), number('limit-fuel'), number('limit-memory')];
    return {
      ...(timeoutMs !== undefined && { timeoutMs: Math.round(timeoutMs) }),
      ...(fuel !== undefined && { fuel: Math.round(fuel) }),
      ...(mebibytes !== undefined && { memoryBytes: Math.round(mebibytes * (1 << 20)) }),
    };
  }

  #allowed(): Allowed {
    const limits = this.#info?.limits ?? { timeoutMs: 0, fuel: 0, memoryBytes: 0 };
    return this.#sessions.current ? limits : { ...limits, ...this.#askedLimits() };
  }

  #showAllowed(): void {
    this.#usage.allow(this.#allowed());
  }

  #placeChanged(): void {
    const session = this.#sessions.current;
    const language = this.#language.value as Language;
    if (session && session.language !== this.#runtimeLanguage) this.#language.value = session.language;
    for (const option of this.#language.options) {
      const isOfSession = !session || (option.value === 'python') === (session.language === 'python');
      option.disabled = !isOfSession || !this.#info?.languages.includes(option.value as Language);
    }
    if (language !== this.#language.value) this.#languageChanged();
    byId<HTMLFieldSetElement>('limit-fields').disabled = session !== undefined;
    byId('limit-note').hidden = session === undefined;
    byId('place').textContent = session ? `in ${session.id}` : 'in a new interpreter';
    byId('files-of').textContent = session ? session.id : 'for each new interpreter';
    // The usage of the last run remains visible until another session is selected.
    if (this.#place !== session?.id) this.#showAllowed();
    this.#place = session?.id;
    this.#files.show(session?.id).catch((error: unknown) => this.#failed(error));
  }

  #languageChanged(): void {
    const language = this.#language.value as Language;
    this.#editor.language = language;
    if (this.#editor.text.trim() === '' || Object.values(FIRST).includes(this.#editor.text)) this.#editor.text = FIRST[language];
    this.#remember();
  }

  #offerExamples(): void {
    const select = byId<HTMLSelectElement>('examples');
    const offered = EXAMPLES.filter(({ language, needsPackages }) => this.#info?.languages.includes(language) && (this.#info.packages || !needsPackages));
    const option = (title: string, index: number): HTMLElement => h('option', { value: index }, `${title} · ${NAMES[offered[index]?.language ?? 'python']}`);
    select.replaceChildren(h('option', { value: '' }, 'Examples…'), ...offered.map(({ title }, index) => option(title, index)));
    select.onchange = () => {
      const example = offered[Number(select.value)];
      select.value = '';
      if (example) void this.#load(example);
    };
  }

  async #load({ language, source, files }: (typeof EXAMPLES)[number]): Promise<void> {
    const session = this.#sessions.current;
    const isOtherLanguage = session && (session.language === 'python') !== (language === 'python');
    if (isOtherLanguage) {
      this.#notice('Another language', `This example is in ${NAMES[language]}, and the session \`${session.id}\` is not. Choose “New interpreter” first.`);
      return;
    }
    this.#language.value = language;
    this.#editor.text = source;
    this.#languageChanged();
    const encoded = Object.entries(files).map(([path, text]) => [path, new TextEncoder().encode(text)] as const);
    try {
      for (const [path, contents] of encoded) {
        if (session) await this.#backend.writeFile(session.id, path, contents);
        else this.#files.own.set(path, contents);
      }
      await this.#files.show(session?.id);
    } catch (error) {
      this.#failed(error);
    }
    this.#editor.focus();
  }

  /** Saves the script, so that it survives a reload of the page. */
  #remember(): void {
    try {
      sessionStorage.setItem(DRAFT, JSON.stringify([this.#language.value, this.#editor.text]));
    } catch {
      // A script that exceeds the storage quota is not saved.
    }
  }

  #recall(): void {
    const stored = sessionStorage.getItem(DRAFT);
    if (stored === null) return;
    const [language, text] = JSON.parse(stored) as [Language, string];
    this.#language.value = language;
    this.#editor.language = language;
    this.#editor.text = text;
  }

  #failed(error: unknown): void {
    const problem = problemOf(error);
    this.#noticed(problem);
    if (problem.kind === 'unauthorized' || problem.kind === 'lost') return;
    this.#notice(problem.title, sentence(problem));
  }

  /** Reacts to a problem that affects the whole page: a lost connection, or a missing token. */
  #noticed(problem: Problem): void {
    if (problem.kind === 'lost') void this.#reconnect(problem);
    if (problem.kind === 'unauthorized') void this.#letIn(problem).then(() => this.start());
  }

  async #letIn(problem: Problem): Promise<void> {
    this.#connect('lost', 'No token');
    await this.#form.letIn?.(problem);
  }

  async #reconnect(problem: Problem): Promise<void> {
    if (this.#connection.dataset['state'] === 'lost') return;
    this.#connect('lost', problem.message);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    await this.start();
  }

  #connect(state: 'connected' | 'lost', text?: string): void {
    this.#connection.dataset['state'] = state;
    if (text !== undefined) this.#connection.textContent = text;
  }

  #notice(title: string, text: string): void {
    byId('notice-title').textContent = title;
    byId('notice-text').textContent = text.slice(0, 2_000);
    byId('notice').hidden = false;
  }
}
