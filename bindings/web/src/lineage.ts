// Which session is a fork of which. The names say so: forks of `trip` are `trip.1`, `trip.2`, and those of `trip.1` are `trip.1.1`. So every page
// that looks at the same sessions shows the same tree, and nothing needs to be stored.
import type { SessionInfo } from './backend/backend.ts';

/** The longest name that a session can have. */
const MAX_NAME_CHARS = 64;

/** A session and its forks. */
export interface Branch {
  session: SessionInfo;
  forks: Branch[];
}

/** The trees of these sessions. */
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

/** The nearest session that this one is a fork of: others in between may be closed. */
function parentOf(id: string, all: ReadonlyMap<string, Branch>): Branch | undefined {
  for (let name = id; ; ) {
    const [, up] = /^(.+)\.\d+$/.exec(name) ?? [];
    if (up === undefined) return undefined;
    const found = all.get(up);
    if (found) return found;
    name = up;
  }
}

/** A name for a fork. */
export function forkName(of: string, taken: ReadonlySet<string>): string {
  return unused(of.length > MAX_NAME_CHARS - 8 ? 'fork' : of, '.', taken);
}

/** A name for a new session. */
export function newName(language: string, taken: ReadonlySet<string>): string {
  return unused(language, '-', taken);
}

function unused(stem: string, joint: string, taken: ReadonlySet<string>): string {
  for (let number = 1; ; number += 1) {
    const name = `${stem}${joint}${number}`;
    if (!taken.has(name)) return name;
  }
}
