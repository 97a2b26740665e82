// The session panel: a tree of forks, with the checkpoints of each session.
import type { Backend, Checkpoint, RuntimeLanguage, SessionInfo } from '../backend/backend.ts';
import { Problem, problemOf } from '../backend/problem.ts';
import { type Branch, branches, forkName, newName } from '../lineage.ts';
import { byId } from './dom.ts';
import { plural } from './format.ts';
import { Tree, type TreeNode } from './tree.ts';

/** The ID of the entry for new interpreters, which is not a session. */
const FRESH = '';
const ACTIONS = { n: 'session-new', f: 'session-fork', u: 'session-undo', s: 'session-save', Delete: 'session-close' } as const;

/** The events of the panel. */
export interface SessionEvents {
  /** Called when the user selects another entry, or when the state of the selected session changes. */
  changed(): void;
  failed(error: unknown): void;
  /** Returns the language for a new session. */
  language(): RuntimeLanguage;
}

export class Sessions {
  readonly #backend: Backend;
  readonly #events: SessionEvents;
  readonly #tree: Tree;
  #known: SessionInfo[] = [];
  #states: Checkpoint[] = [];
  #chosen = FRESH;
  /** The number of activities that block the panel: its own operations, and a running script. */
  #busyCount = 0;
  /**
   * The number of the latest refresh. The results of earlier refreshes are out of date, and would show a new session as
   * lost.
   */
  #lastLook = 0;

  constructor(backend: Backend, events: SessionEvents) {
    this.#backend = backend;
    this.#events = events;
    this.#tree = new Tree(
      byId('session-tree'),
      (node) => void this.#choose(node),
      (key) => this.#pressed(key),
    );
    byId('session-new').addEventListener('click', () => void this.#do(() => this.#open()));
    byId('session-fork').addEventListener('click', () => void this.#do(() => this.#fork()));
    byId('session-undo').addEventListener('click', () => void this.#do(() => this.#undo(undefined)));
    byId('session-save').addEventListener('click', () => void this.#do(() => this.#backend.checkpoint(this.#chosen)));
    byId('session-close').addEventListener('click', () => void this.#do(() => this.#close()));
    this.#draw();
  }

  /** The selected session; `undefined` for a new interpreter. */
  get current(): SessionInfo | undefined {
    return this.#known.find(({ id }) => id === this.#chosen);
  }

  /** Reloads the sessions and checkpoints from the backend. */
  async refresh(): Promise<void> {
    const look = ++this.#lastLook;
    const known = await this.#backend.sessions();
    if (look !== this.#lastLook) return;
    this.#known = known;
    if (this.#chosen !== FRESH && !this.current) {
      const why = 'It was closed elsewhere, or ended with a script that had to be stopped.';
      this.#events.failed(new Problem('refused', 'A session is lost', `The session \`${this.#chosen}\` is lost. ${why}`));
      this.#chosen = FRESH;
    }
    const states = this.#chosen === FRESH ? [] : await this.#backend.checkpoints(this.#chosen);
    if (look !== this.#lastLook) return;
    this.#states = states;
    this.#draw();
    this.#events.changed();
  }

  /** Disables the panel while a script runs. */
  busy(isBusy: boolean): void {
    this.#busyCount += isBusy ? 1 : -1;
    this.#enable();
  }

  focus(): void {
    this.#tree.focus();
  }

  #draw(): void {
    const fresh: TreeNode = { key: FRESH, label: 'New interpreter', detail: 'each run', kind: 'fresh', isSelected: this.#chosen === FRESH, children: [] };
    this.#tree.show([fresh, ...branches(this.#known).map((branch) => this.#node(branch))]);
    this.#enable();
  }

  #node({ session: { id, executions }, forks }: Branch): TreeNode {
    const isSelected = id === this.#chosen;
    const states = isSelected ? this.#states.map((state) => stateNode(id, state)) : [];
    return { key: id, label: id, detail: plural(executions, 'run'), kind: 'session', isSelected, children: [...states, ...forks.map((fork) => this.#node(fork))] };
  }

  #enable(): void {
    const isSession = this.#chosen !== FRESH;
    for (const id of Object.values(ACTIONS)) byId<HTMLButtonElement>(id).disabled = this.#busyCount > 0 || (id !== 'session-new' && !isSession);
  }

  #pressed(key: string): boolean {
    const id = ACTIONS[(key.length === 1 ? key.toLowerCase() : key) as keyof typeof ACTIONS];
    if (id === undefined) return false;
    byId<HTMLButtonElement>(id).click();
    return true;
  }

  async #choose(node: TreeNode): Promise<void> {
    if (this.#busyCount > 0) return;
    if (node.kind === 'state') {
      const [id = '', checkpoint] = node.key.split('#');
      if (id === this.#chosen) await this.#do(() => this.#undo(Number(checkpoint)));
      return;
    }
    this.#chosen = node.key;
    await this.#do(async () => undefined);
  }

  /** Runs an operation on sessions, and shows the new state. */
  async #do(work: () => Promise<void>): Promise<void> {
    if (this.#busyCount > 0) return;
    this.busy(true);
    this.#lastLook += 1;
    try {
      await work();
    } catch (error) {
      this.#events.failed(error);
    }
    try {
      await this.refresh();
    } catch (error) {
      this.#events.failed(error);
    } finally {
      this.busy(false);
    }
  }

  async #open(): Promise<void> {
    const language = this.#events.language();
    this.#chosen = await this.#named((taken) => newName(language, taken), (name) => this.#backend.open(name, language));
  }

  async #fork(): Promise<void> {
    const from = this.#chosen;
    this.#chosen = await this.#named((taken) => forkName(from, taken), (name) => this.#backend.fork(from, name));
  }

  /** Creates a session under an unused name. Retries, because another page may take the same name at the same time. */
  async #named(propose: (taken: Set<string>) => string, make: (name: string) => Promise<SessionInfo>): Promise<string> {
    const taken = new Set((await this.#backend.sessions()).map(({ id }) => id));
    for (let attempts = 1; ; attempts += 1) {
      const name = propose(taken);
      try {
        return (await make(name)).id;
      } catch (error) {
        if (problemOf(error).kind !== 'conflict' || attempts === 5) throw error;
        taken.add(name);
      }
    }
  }

  async #undo(checkpoint: number | undefined): Promise<void> {
    await this.#backend.undo(this.#chosen, checkpoint);
  }

  async #close(): Promise<void> {
    await this.#backend.close(this.#chosen);
    this.#chosen = FRESH;
  }
}

function stateNode(session: string, { id, automatic, executions }: Checkpoint): TreeNode {
  const label = executions === 0 ? 'before the first run' : `after run ${executions}`;
  return { key: `${session}#${id}`, label, detail: automatic ? 'undo to' : 'saved', kind: 'state', isSelected: false, children: [] };
}
