// Renders the displays of scripts. All of their content is untrusted. Pictures are shown as images, in which no script
// runs; HTML is shown in a frame without rights.
import { fromBase64 } from '../backend/base64.ts';
import { h } from './dom.ts';

const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/svg+xml'];
const MAX_TEXT_CHARS = 100_000;

/** The default style of HTML displays. The document's own styles come later and override it. */
const STYLE =
  '<style>body{font:14px/1.5 system-ui,sans-serif;margin:10px 12px;color:#22252a;background:#fff}' +
  'table{border-collapse:collapse}th,td{padding:3px 10px;text-align:right}thead th{border-bottom:1px solid #c9c3b6}</style>';

/** Renders the best form of a display. Calls `made` with every object URL, which the caller must revoke. */
export function displayOf(data: Record<string, string>, made: (url: string) => void): HTMLElement {
  const text = typeof data['text/plain'] === 'string' ? data['text/plain'] : '';
  const picture = PICTURES.find((type) => typeof data[type] === 'string');
  if (picture !== undefined) return figure(pictureOf(picture, data[picture] ?? '', text, made), picture);
  if (typeof data['text/html'] === 'string') return figure(frameOf(data['text/html']), 'text/html');
  const type = ['text/markdown', 'application/json', 'text/plain'].find((each) => typeof data[each] === 'string') ?? Object.keys(data)[0] ?? '';
  const shown = data[type] ?? '';
  const isText = type.startsWith('text/') || type.endsWith('json');
  return figure(h('pre', {}, isText ? shown.slice(0, MAX_TEXT_CHARS) : `(${type})`), type);
}

function figure(content: HTMLElement, type: string): HTMLElement {
  return h('figure', { class: 'display', 'data-type': type }, content);
}

function pictureOf(type: string, data: string, text: string, made: (url: string) => void): HTMLElement {
  const alt = text === '' ? 'A picture that the script shows' : text.slice(0, 300);
  let bytes: Uint8Array<ArrayBuffer> | string = data;
  try {
    if (type !== 'image/svg+xml') bytes = fromBase64(data);
  } catch {
    return h('p', { class: 'note' }, `The script shows ${type}, but it is damaged.`);
  }
  const url = URL.createObjectURL(new Blob([bytes], { type }));
  made(url);
  const image = h('img', { alt, src: url, decoding: 'async' });
  image.addEventListener('error', () => image.replaceWith(h('p', { class: 'note' }, `The script shows ${type}, but it is damaged.`)));
  return image;
}

/**
 * Renders HTML within two frames. The outer frame is an empty page with its own policy, which allows inline styles,
 * unlike the policy of this page, and loads nothing. The inner frame inherits the outer frame's policy. It has an
 * opaque origin and no rights: no scripts, forms or windows, and no access to the page around it.
 */
function frameOf(html: string): HTMLElement {
  const outer = h('iframe', { class: 'html', src: new URL('frame.html', import.meta.url).href, title: 'HTML that the script shows' });
  outer.dataset['lines'] = String(linesOf(html));
  outer.addEventListener('load', () => {
    const inside = outer.contentDocument;
    if (!inside || inside.querySelector('iframe')) return;
    const inner = inside.createElement('iframe');
    inner.setAttribute('sandbox', '');
    inner.title = outer.title;
    inner.srcdoc = `<!doctype html>${STYLE}${html}`;
    inside.body.append(inner);
  });
  // A frame without rights cannot report its height, so the height is estimated.
  outer.style.height = `${Math.min(480, Math.max(96, 40 + 27 * linesOf(html)))}px`;
  return outer;
}

/** Estimates the number of lines in HTML from the elements that begin a line. */
function linesOf(html: string): number {
  return html.slice(0, 200_000).match(/<(tr|p|div|li|h[1-6]|br)\b/gi)?.length ?? 1;
}
