// The file panel: files of the selected session, or of the page itself, which passes them to every new interpreter.
import type { Backend, FileInfo } from '../backend/backend.ts';
import { byId, download, h } from './dom.ts';
import { bytes } from './format.ts';

/** Maximum number of listed files. */
const MAX_LISTED = 500;

/** Characters that are invisible, or that change the rendering of other characters. */
const HIDDEN = /[\p{Cc}\p{Cf}]/gu;

export class Files {
  readonly #backend: Backend;
  readonly #list = byId('file-list');
  readonly #failed: (error: unknown) => void;
  #session: string | undefined;
  #shown = 0;
  /** The files for new interpreters. */
  readonly own = new Map<string, Uint8Array>();

  constructor(backend: Backend, failed: (error: unknown) => void) {
    this.#backend = backend;
    this.#failed = failed;
    const input = byId<HTMLInputElement>('upload');
    byId('upload-button').addEventListener('click', () => input.click());
    input.addEventListener('change', () => {
      void this.#upload([...(input.files ?? [])]);
      // Otherwise, selecting the same file again would cause no `change` event.
      input.value = '';
    });
    const panel = byId('files');
    panel.addEventListener('dragover', (event) => {
      event.preventDefault();
      panel.dataset['over'] = '';
    });
    panel.addEventListener('dragleave', () => delete panel.dataset['over']);
    panel.addEventListener('drop', (event) => {
      event.preventDefault();
      delete panel.dataset['over'];
      void this.#upload([...(event.dataTransfer?.files ?? [])]);
    });
  }

  /** Replaces the page's own files with the files that a run left. */
  take(files: ReadonlyMap<string, Uint8Array>): void {
    this.own.clear();
    for (const [path, contents] of files) this.own.set(path, contents);
  }

  /** Shows the files of a session, or the page's own files. */
  async show(session: string | undefined): Promise<void> {
    this.#session = session;
    this.#shown += 1;
    const asked = this.#shown;
    const files = session === undefined ? this.#ownList() : await this.#backend.files(session);
    // If the user has selected another session in the meantime, a later call shows that session's files.
    if (asked === this.#shown) this.#draw(files);
  }

  #ownList(): FileInfo[] {
    return [...this.own].map(([path, { length }]) => ({ path, sizeBytes: length }));
  }

  #draw(files: FileInfo[]): void {
    const sorted = [...files].sort((a, b) => (a.path < b.path ? -1 : 1));
    const rows = sorted.slice(0, MAX_LISTED).map((file) => this.#row(file));
    if (files.length > MAX_LISTED) rows.push(h('li', { class: 'note' }, `and ${(files.length - MAX_LISTED).toLocaleString('en')} more`));
    const empty = h('li', { class: 'placeholder' }, 'No files. Upload some, or drop them here.');
    this.#list.replaceChildren(...(rows.length > 0 ? rows : [empty]));
  }

  #row({ path, sizeBytes }: FileInfo): HTMLElement {
    // Escapes characters that reverse a name or hide its extension.
    const name = path.replace(HIDDEN, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
    const last = (path.split('/').at(-1) ?? '').replace(HIDDEN, '_');
    const save = (): Promise<void> => this.#guarded(async () => download(last, Uint8Array.from(await this.#read(path))));
    const remove = (): Promise<void> =>
      this.#guarded(async () => {
        if (this.#session === undefined) this.own.delete(path);
        else await this.#backend.deleteFile(this.#session, path);
        await this.show(this.#session);
        byId('upload-button').focus();
      });
    return h(
      'li',
      {},
      h('button', { type: 'button', class: 'file', title: `Download ${name}`, on: { click: save } }, h('span', { class: 'path' }, name), h('span', { class: 'detail' }, bytes(sizeBytes))),
      h('button', { type: 'button', class: 'icon', 'aria-label': `Delete ${name}`, title: 'Delete', on: { click: remove } }, '×'),
    );
  }

  async #read(path: string): Promise<Uint8Array> {
    if (this.#session !== undefined) return this.#backend.readFile(this.#session, path);
    return this.own.get(path) ?? new Uint8Array();
  }

  async #upload(files: File[]): Promise<void> {
    const session = this.#session;
    await this.#guarded(async () => {
      for (const file of files) {
        const contents = new Uint8Array(await file.arrayBuffer());
        if (session === undefined) this.own.set(file.name, contents);
        else await this.#backend.writeFile(session, file.name, contents);
      }
      await this.show(session);
    });
  }

  async #guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#failed(error);
    }
  }
}
