// Keyboard shortcuts: F6 moves from region to region, and `?` lists the shortcuts.
import { byId, isMac } from './dom.ts';

/** Regions, each with a function that sets the focus within it. */
export type Regions = readonly (readonly [region: HTMLElement, focus: () => void])[];

/** Installs the shortcuts. The shortcuts for `run` and `stop` do not depend on the focus. */
export function installKeys(regions: Regions, { run, stop }: { run: () => void; stop: () => void }): void {
  const help = byId<HTMLDialogElement>('help');
  for (const element of document.querySelectorAll('[data-key-mod]')) element.textContent = isMac ? '⌘' : 'Ctrl';
  byId('help-button').addEventListener('click', () => help.showModal());
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || document.querySelector('dialog[open]')) return;
    const isMod = isMac ? event.metaKey : event.ctrlKey;
    const target = event.composedPath()[0] as HTMLElement;
    const isTyping = target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName);
    if (event.key === 'F6') {
      const at = regions.findIndex(([region]) => region.contains(document.activeElement));
      const step = event.shiftKey ? -1 : 1;
      const from = at === -1 && event.shiftKey ? 0 : at;
      regions[(from + step + regions.length) % regions.length]?.[1]();
    } else if (isMod && event.key === 'Enter') run();
    else if (isMod && event.key === '.') stop();
    else if (event.key === '?' && !isTyping) help.showModal();
    else return;
    event.preventDefault();
  });
}
