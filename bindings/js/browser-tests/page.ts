// Pages that load the package, and a server for them.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';

const TYPES: Record<string, string> = { '.js': 'text/javascript', '.wasm': 'application/wasm' };
/** Response headers that enable shared memory in a page. */
const ISOLATED = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

const { exports } = JSON.parse(await readFile(join(import.meta.dirname, 'glovebox-sandbox/package.json'), 'utf8'));
const imports = { 'glovebox-sandbox': `/glovebox-sandbox/${exports['.'].browser}` };
const PAGE = `<!doctype html><title>Glovebox</title><script type="importmap">${JSON.stringify({ imports })}</script>`;

/** Serves the package. Pages below `/isolated` have shared memory. Returns the server's address. */
export async function serve(): Promise<{ url: string; close(): void }> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://localhost');
    if (pathname === '/isolated' || pathname === '/plain') {
      response.writeHead(200, { 'Content-Type': 'text/html', ...(pathname === '/isolated' && ISOLATED) }).end(PAGE);
      return;
    }
    readFile(join(import.meta.dirname, pathname)).then(
      // A worker's script needs the same headers as its page.
      (bytes) => response.writeHead(200, { 'Content-Type': TYPES[extname(pathname)] ?? 'application/octet-stream', ...ISOLATED }).end(bytes),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}
