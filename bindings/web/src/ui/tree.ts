// A tree whose keyboard navigation follows the ARIA pattern: arrow keys move, Enter selects, and one node is in the tab
// order.
import { h } from './dom.ts';

/** A node of a tree. */
export interface TreeNode {
  key: string;
  /** The label. `detail` is the smaller text after it. */
  label: string;
  detail: string;
  /** The appearance of the node. */
  kind: 'fresh' | 'session' | 'state';
  isSelected: boolean;
  children: TreeNode[];
}

export class Tree {
  readonly #root: HTMLElement;
  readonly #choose: (node: TreeNode) => void;
  readonly #keys: (key: string, node: TreeNode) => boolean;
  readonly #collapsed = new Set<string>();
  #nodes: TreeNode[] = [];
  #current = '';
  #row = new Map<string, { element: HTMLElement; node: TreeNode; parent: string | undefined }>();

  /** `keys` handles the keys that the tree itself does not use. It returns `true` if it has handled the key. */
  constructor(root: HTMLElement, choose: (node: TreeNode) => void, keys: (key: string, node: TreeNode) => boolean) {
    this.#root = root;
    this.#choose = choose;
    this.#keys = keys;
    root.addEventListener('keydown', (event) => this.#pressed(event));
    root.addEventListener('click', (event) => this.#clicked(event));
  }

  /** Replaces the nodes of the tree. */
  show(nodes: TreeNode[]): void {
    this.#nodes = nodes;
    this.#draw();
  }

  focus(): void {
    this.#row.get(this.#current)?.element.focus();
  }

  #draw(): void {
    const had = this.#root.contains(document.activeElement);
    this.#row.clear();
    this.#root.replaceChildren(...this.#nodes.map((node) => this.#item(node, 1, undefined)));
    const selected = [...this.#row.values()].find(({ node }) => node.isSelected)?.node.key;
    if (!this.#row.has(this.#current)) this.#current = selected ?? this.#nodes[0]?.key ?? '';
    this.#row.get(this.#current)?.element.setAttribute('tabindex', '0');
    if (had) this.focus();
  }

  #item(node: TreeNode, level: number, parent: string | undefined): HTMLElement {
    const isExpanded = !this.#collapsed.has(node.key);
    const element = h(
      'li',
      {
        role: 'treeitem',
        tabindex: -1,
        'aria-level': level,
        'aria-selected': node.isSelected ? 'true' : 'false',
        'aria-expanded': node.children.length > 0 ? String(isExpanded) : undefined,
        'data-key': node.key,
        'data-kind': node.kind,
      },
      h(
        'span',
        { class: 'row' },
        h('span', { class: node.children.length > 0 ? 'twist' : 'twist none', 'aria-hidden': 'true' }),
        h('span', { class: 'label' }, node.label),
        h('span', { class: 'detail' }, node.detail),
      ),
    );
    this.#row.set(node.key, { element, node, parent });
    if (node.children.length > 0 && isExpanded) {
      element.append(h('ul', { role: 'group' }, ...node.children.map((child) => this.#item(child, level + 1, node.key))));
    }
    return element;
  }

  #clicked(event: MouseEvent): void {
    const target = event.target as HTMLElement;
    const key = target.closest<HTMLElement>('[role=treeitem]')?.dataset['key'];
    const row = key === undefined ? undefined : this.#row.get(key);
    if (!row) return;
    this.#move(row.node.key);
    if (target.classList.contains('twist') && row.node.children.length > 0) this.#fold(row.node.key, !this.#collapsed.has(row.node.key));
    else this.#choose(row.node);
  }

  #pressed(event: KeyboardEvent): void {
    const row = this.#row.get(this.#current);
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const { node, parent } = row;
    const visible = [...this.#root.querySelectorAll<HTMLElement>('[role=treeitem]')].map((element) => element.dataset['key'] ?? '');
    const at = visible.indexOf(this.#current);
    const isOpen = node.children.length > 0 && !this.#collapsed.has(node.key);
    switch (event.key) {
      case 'ArrowDown':
        this.#move(visible[at + 1]);
        break;
      case 'ArrowUp':
        this.#move(visible[at - 1]);
        break;
      case 'Home':
        this.#move(visible[0]);
        break;
      case 'End':
        this.#move(visible.at(-1));
        break;
      case 'ArrowRight':
        if (isOpen) this.#move(node.children[0]?.key);
        else this.#fold(node.key, false);
        break;
      case 'ArrowLeft':
        if (isOpen) this.#fold(node.key, true);
        else this.#move(parent);
        break;
      case 'Enter':
      case ' ':
        this.#choose(node);
        break;
      default:
        if (!this.#keys(event.key, node)) return;
    }
    event.preventDefault();
  }

  #move(key: string | undefined): void {
    if (key === undefined || !this.#row.has(key)) return;
    this.#row.get(this.#current)?.element.setAttribute('tabindex', '-1');
    this.#current = key;
    const element = this.#row.get(key)?.element;
    element?.setAttribute('tabindex', '0');
    element?.focus();
  }

  #fold(key: string, isCollapsed: boolean): void {
    if (isCollapsed) this.#collapsed.add(key);
    else this.#collapsed.delete(key);
    this.#draw();
  }
}
