// The token of the server. The page reads the token from the fragment of its address, which browsers never send, or
// asks the user. The token is stored only for this tab.
import { type Problem, sentence } from '../backend/problem.ts';
import { byId } from './dom.ts';

const NAME = 'glovebox-token';

/** The token of this tab. */
export class Token {
  /** Reads the token from the address and removes it there: others could see it, and the history would keep it. */
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

  /** Asks the user for a token after the server has refused the request. */
  ask(problem: Problem): Promise<void> {
    const printed = 'This server requires a token: the one that `glovebox serve` printed, or one that you were given.';
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
        // With an invalid header value, the request would fail as if the server were unreachable.
        const token = input.value.trim();
        if (!/^[\x21-\x7e]+$/.test(token)) {
          byId('token-reason').textContent = 'A token contains only ASCII letters, digits and punctuation.';
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
