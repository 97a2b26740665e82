// Creates elements. Text is inserted as text, never as HTML.

type Child = Node | string | false | null | undefined;

interface Props {
  /** Attributes: `false` and `undefined` omit the attribute, `true` sets it to the empty string. */
  [attribute: string]: string | number | boolean | undefined | Record<string, (event: any) => void>;
  on?: Record<string, (event: any) => void>;
}

/** Creates an element. */
export function h<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === 'on' || value === false || value === undefined) continue;
    element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const [event, listener] of Object.entries(props.on ?? {})) element.addEventListener(event, listener);
  element.append(...children.filter((child): child is Node | string => child !== false && child !== null && child !== undefined));
  return element;
}

/** Returns the element with this id. */
export function byId<Element extends HTMLElement>(id: string): Element {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no \`#${id}\``);
  return found as Element;
}

/** Offers bytes to the user as a download. */
export function download(name: string, bytes: Uint8Array<ArrayBuffer> | string): void {
  const url = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** True on a Mac, whose modifier keys have other names. */
export const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
