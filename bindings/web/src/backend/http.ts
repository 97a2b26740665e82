// A backend that uses the public HTTP API of a server (docs/openapi.json).
import type { Allowed, Backend, Checkpoint, Done, Execution, FileInfo, Info, Piece, RuntimeLanguage, Script, SessionInfo } from './backend.ts';
import { fromBase64, toBase64 } from './base64.ts';
import { jsonLines } from './lines.ts';
import { Problem, type ProblemKind } from './problem.ts';

/** The storage of the token, which lasts until the tab is closed. */
export interface TokenStore {
  get(): string | undefined;
}

type Json = Record<string, any>;

/** File names that tell the server the language of a script. */
const NAMES = { python: undefined, javascript: undefined, typescript: 'script.ts' } as const;

/** A backend that uses the server that delivered the page. */
export class HttpBackend implements Backend {
  readonly #base: URL;
  readonly #token: TokenStore;

  constructor(base: URL, token: TokenStore) {
    this.#base = base;
    this.#token = token;
  }

  async info(): Promise<Info> {
    const { version, runtimes, policy } = await this.#json('GET', 'v1/info');
    const languages = new Set<string>(runtimes.map((each: Json) => each['language']));
    return {
      where: `Glovebox ${version}`,
      runtimes,
      languages: [
        ...(languages.has('python') ? (['python'] as const) : []),
        ...(languages.has('javascript') ? (['javascript', 'typescript'] as const) : []),
      ],
      limits: allowedOf(policy.limits),
      streams: true,
      packages: true,
    };
  }

  async run(script: Script, onPiece: (piece: Piece) => void, signal: AbortSignal): Promise<Done> {
    const { source, language, session, stdin } = script;
    const name = NAMES[language];
    const body: Json = { source, ...(name && { name }), ...(stdin !== '' && { stdin }) };
    if (session === undefined) {
      const { fuel, timeoutMs, memoryBytes } = script.limits;
      const limits = { ...(fuel && { fuel }), ...(timeoutMs && { timeout_ms: timeoutMs }), ...(memoryBytes && { memory_bytes: memoryBytes }) };
      body['language'] = language === 'python' ? 'python' : 'javascript';
      body['files'] = Object.fromEntries([...script.files].map(([path, bytes]) => [path, { base64: toBase64(bytes) }]));
      body['return_files'] = ['**'];
      if (Object.keys(limits).length > 0) body['policy'] = { limits };
    }
    const path = session === undefined ? 'v1/execute' : `${sessionPath(session)}/execute`;
    const response = await this.#fetch('POST', path, JSON.stringify(body), { Accept: 'application/x-ndjson' }, signal);
    if (!response.body) throw lost();
    try {
      for await (const line of jsonLines(response.body)) {
        const piece = line as Json;
        if (piece['type'] === 'stdout' || piece['type'] === 'stderr') onPiece({ stream: piece['type'], text: String(piece['text']) });
        else if (piece['type'] === 'error') throw problemOf(piece['problem']);
        else if (piece['type'] === 'result') return doneOf(piece['result']);
      }
    } catch (error) {
      throw failureOf(error);
    }
    throw lost();
  }

  async sessions(): Promise<SessionInfo[]> {
    return (await this.#json('GET', 'v1/sessions'))['sessions'];
  }

  async open(id: string, language: RuntimeLanguage): Promise<SessionInfo> {
    return (await this.#json('POST', 'v1/sessions', { id, language })) as SessionInfo;
  }

  async fork(id: string, as: string): Promise<SessionInfo> {
    return (await this.#json('POST', `${sessionPath(id)}/fork`, { id: as })) as SessionInfo;
  }

  async close(id: string): Promise<void> {
    await this.#fetch('DELETE', sessionPath(id));
  }

  async checkpoint(id: string): Promise<void> {
    await this.#fetch('POST', `${sessionPath(id)}/checkpoint`);
  }

  async checkpoints(id: string): Promise<Checkpoint[]> {
    return (await this.#json('GET', `${sessionPath(id)}/checkpoints`))['checkpoints'];
  }

  async undo(id: string, checkpoint: number | undefined): Promise<void> {
    await this.#fetch('POST', `${sessionPath(id)}/undo`, JSON.stringify(checkpoint === undefined ? {} : { checkpoint }));
  }

  async files(id: string): Promise<FileInfo[]> {
    const { files } = await this.#json('GET', `${sessionPath(id)}/files`);
    const only = files.filter((entry: Json) => entry['kind'] === 'file');
    return only.map(({ path, size_bytes }: Json) => ({ path, sizeBytes: size_bytes }));
  }

  async readFile(id: string, path: string): Promise<Uint8Array> {
    const response = await this.#fetch('GET', filePath(id, path));
    return new Uint8Array(await response.arrayBuffer());
  }

  async writeFile(id: string, path: string, contents: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.#fetch('PUT', filePath(id, path), contents);
  }

  async deleteFile(id: string, path: string): Promise<void> {
    await this.#fetch('DELETE', filePath(id, path));
  }

  async #json(method: string, path: string, body?: Json): Promise<Json> {
    const response = await this.#fetch(method, path, body && JSON.stringify(body));
    return response.json();
  }

  async #fetch(method: string, path: string, body?: BodyInit, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
    const token = this.#token.get();
    const all = { ...headers, ...(token !== undefined && { Authorization: `Bearer ${token}` }) };
    // The token is sent in a header, never in credentials that the browser adds to requests automatically.
    const options: RequestInit = { method, headers: all, credentials: 'omit', cache: 'no-store', redirect: 'error', referrerPolicy: 'no-referrer' };
    if (body !== undefined) options.body = body;
    if (signal) options.signal = signal;
    let response: Response;
    try {
      response = await fetch(new URL(path, this.#base), options);
    } catch (error) {
      throw failureOf(error);
    }
    if (!response.ok) throw problemOf(await response.json().catch(() => ({})), response.status);
    return response;
  }
}

function sessionPath(id: string): string {
  return `v1/sessions/${encodeURIComponent(id)}`;
}

function filePath(id: string, path: string): string {
  return `${sessionPath(id)}/files/${path.split('/').map(encodeURIComponent).join('/')}`;
}

function allowedOf(limits: Json): Allowed {
  return { fuel: limits['fuel'], timeoutMs: limits['timeout_ms'], memoryBytes: limits['memory_bytes'] };
}

function doneOf(result: Json): Done {
  const files = new Map(Object.entries((result['files'] ?? {}) as Record<string, string>).map(([path, text]) => [path, fromBase64(text)]));
  return { execution: result as Execution, files, filesLeftOut: result['files_left_out'] ?? 0 };
}

function failureOf(error: unknown): unknown {
  if (error instanceof Problem || (error instanceof DOMException && error.name === 'AbortError')) return error;
  // `fetch` throws a `TypeError` without a reason if it receives no response.
  return error instanceof TypeError ? lost() : error;
}

function lost(): Problem {
  return new Problem('lost', 'No response', 'The server cannot be reached. The page retries automatically.');
}

const KINDS: Record<number, ProblemKind> = { 401: 'unauthorized', 409: 'conflict', 429: 'busy', 503: 'busy' };

/** Converts the server's problem document. */
function problemOf(problem: Json, status = Number(problem['status'])): Problem {
  const title = String(problem['title'] ?? `Status ${status}`);
  const detail = String(problem['detail'] ?? 'The server gave no reason.');
  const after = problem['retry_after'];
  return new Problem(KINDS[status] ?? 'refused', title, detail, typeof after === 'number' ? after : undefined);
}
