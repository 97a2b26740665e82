import type { Blob, Files } from '../../contract/interfaces/glovebox-sandbox-sandbox.js';
import type { FileEntry } from './contract.ts';
import type { Instance } from './provider.ts';

/** Maximum size of one read, in bytes. */
const PIECE_BYTES = 16n << 20n;

/** Disposes of a handle, even if its type does not declare a disposer. */
export function dispose(handle: object): void {
  (handle as Partial<Disposable>)[Symbol.dispose]?.();
}

export function readFile(files: Files, path: string): Uint8Array {
  return pieces((offset) => files.read(path, offset, PIECE_BYTES));
}

/** Lists the entries that match a pattern. */
export function listFiles(files: Files, pattern: string): FileEntry[] {
  return files.list(pattern);
}

export function readBlob(blob: Blob): Uint8Array {
  return pieces((offset) => blob.read(offset, PIECE_BYTES));
}

export function blobOf(instance: Instance, bytes: Uint8Array): Blob {
  const blob = new instance.Blob();
  const step = Number(PIECE_BYTES);
  for (let at = 0; at < bytes.length; at += step) blob.append(bytes.subarray(at, at + step));
  return blob;
}

function pieces(read: (offset: bigint) => Uint8Array): Uint8Array {
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const part = read(BigInt(length));
    parts.push(part);
    length += part.length;
    if (BigInt(part.length) < PIECE_BYTES) break;
  }
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
