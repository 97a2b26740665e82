// The theme: light, dark, or the system's.
import { byId } from './dom.ts';

const NAMES = ['auto', 'light', 'dark'] as const;
type Name = (typeof NAMES)[number];
const LABELS: Record<Name, string> = { auto: 'Theme: as the system', light: 'Theme: light', dark: 'Theme: dark' };

/** Makes the button cycle through the themes, and restores the last theme. */
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
