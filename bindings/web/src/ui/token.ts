// The token: in the address that `glovebox serve` prints, behind the `#`, which no browser sends anywhere; or typed in. It is stored for this tab
// alone.
import { type Problem, sentence } from '../backend/problem.ts';
import { byId } from './dom.ts';

const NAME = 'glovebox-token';

/** The token of this tab. */
export class Token {
  /** Takes it out of the address, where it would be seen, and stay in the history. */
  constructor() {
    const given = new URLSearchParams(location.hash.slice(1)).get('token');
    if (given === null) return;
    this.#set(given);
    history.replaceState(null, '', location.pathname + location.search);
  }

  get(): string | undefined {
    return sessionStorage.getItem(NAME) ?? undefined;
  }

  #set(token: string): void {
    sessionStorage.setItem(NAME, token);
  }

  /** Asks for one, since there is none or the server does not take it. */
  ask(problem: Problem): Promise<void> {
    const printed = 'This server needs a token: the one that `glovebox serve` has printed, or that you were given.';
    const reason = this.get() === undefined ? printed : sentence(problem);
    const dialog = byId<HTMLDialogElement>('token-dialog');
    const input = byId<HTMLInputElement>('token-input');
    byId('token-reason').textContent = reason;
    if (!dialog.open) dialog.showModal();
    input.value = '';
    input.focus();
    return new Promise((resolve) => {
      byId<HTMLFormElement>('token-form').onsubmit = (event) => {
        event.preventDefault();
        // What is no header's value would fail as if there were no server.
        const token = input.value.trim();
        if (!/^[\x21-\x7e]+$/.test(token)) {
          byId('token-reason').textContent = 'A token has letters, digits and signs, and no spaces.';
          return;
        }
        this.#set(token);
        input.value = '';
        dialog.close();
        resolve();
      };
    });
  }
}
