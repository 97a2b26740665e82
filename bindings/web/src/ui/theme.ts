// Light, dark, or as the system has it.
import { byId } from './dom.ts';

const NAMES = ['auto', 'light', 'dark'] as const;
type Name = (typeof NAMES)[number];
const LABELS: Record<Name, string> = { auto: 'Theme: as the system', light: 'Theme: light', dark: 'Theme: dark' };

/** Has the button go through the themes, and remembers the last one. */
export function installTheme(): void {
  const button = byId('theme');
  const stored = NAMES.find((name) => name === localStorage.getItem('glovebox-theme'));
  let current: Name = stored ?? 'auto';
  const show = (): void => {
    document.documentElement.dataset['theme'] = current;
    button.setAttribute('aria-label', LABELS[current]);
    button.title = LABELS[current];
  };
  button.addEventListener('click', () => {
    current = NAMES[(NAMES.indexOf(current) + 1) % NAMES.length] ?? 'auto';
    localStorage.setItem('glovebox-theme', current);
    show();
  });
  show();
}
