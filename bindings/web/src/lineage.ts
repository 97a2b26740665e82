// The tree of session forks, derived from names: forks of `trip` are `trip.1`, `trip.2`, and forks of `trip.1` are
// `trip.1.1`. Every page that shows the same sessions shows the same tree, and nothing needs to be stored.
import type { SessionInfo } from './backend/backend.ts';

/** Maximum length of a session's name, in characters. */
const MAX_NAME_CHARS = 64;

/** A session with its forks. */
export interface Branch {
  session: SessionInfo;
  forks: Branch[];
}

/** Builds the trees of sessions. */
export function branches(sessions: readonly SessionInfo[]): Branch[] {
  const all = new Map(sessions.map((session) => [session.id, { session, forks: [] as Branch[] }]));
  const roots: Branch[] = [];
  for (const [id, branch] of all) (parentOf(id, all)?.forks ?? roots).push(branch);
  const order = (list: Branch[]): Branch[] => {
    list.sort((a, b) => a.session.id.localeCompare(b.session.id, 'en', { numeric: true }));
    for (const { forks } of list) order(forks);
    return list;
  };
  return order(roots);
}

/** Returns the nearest open ancestor of a session. Sessions in between may be closed. */
function parentOf(id: string, all: ReadonlyMap<string, Branch>): Branch | undefined {
  for (let name = id; ; ) {
    const [, up] = /^(.+)\.\d+$/.exec(name) ?? [];
    if (up === undefined) return undefined;
    const found = all.get(up);
    if (found) return found;
    name = up;
  }
}

/** Returns an unused name for a fork. */
export function forkName(of: string, taken: ReadonlySet<string>): string {
  return unused(of.length > MAX_NAME_CHARS - 8 ? 'fork' : of, '.', taken);
}

/** Returns an unused name for a new session. */
export function newName(language: string, taken: ReadonlySet<string>): string {
  return unused(language, '-', taken);
}

function unused(stem: string, joint: string, taken: ReadonlySet<string>): string {
  for (let number = 1; ; number += 1) {
    const name = `${stem}${joint}${number}`;
    if (!taken.has(name)) return name;
  }
}
