// Standard input and output as WASI streams with synchronous reads and writes. The streams in jco's library use a
// separate thread, which passes large data to this thread's event loop. That loop stops while a component runs. An
// answer larger than a pipe would therefore never arrive, and waiting for a line would keep a processor busy.
import { readSync, writeSync } from 'node:fs';
import { _setStderr, _setStdin, _setStdout } from '@bytecodealliance/preview2-shim/cli';
import { streams } from '@bytecodealliance/preview2-shim/io';

// The library has made the pipes non-blocking, so this module has to poll.
const pause = new Int32Array(new SharedArrayBuffer(4));
function waiting(call) {
  for (;;) {
    try {
      return call();
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(pause, 0, 0, 1);
    }
  }
}

const dispose = { [Symbol.dispose ?? Symbol.for('dispose')]() {} };

function output(fd) {
  const write = (bytes) => {
    for (let at = 0; at < bytes.length; ) at += waiting(() => writeSync(fd, bytes, at));
  };
  const flush = () => {};
  const own = { checkWrite: () => 1n << 20n, write, blockingWriteAndFlush: write, flush, blockingFlush: flush };
  return Object.assign(new streams.OutputStream(), own, dispose);
}

function input(fd) {
  const read = (len) => {
    const bytes = new Uint8Array(Number(len));
    const count = waiting(() => readSync(fd, bytes));
    if (count === 0 && len > 0n) throw { tag: 'closed' };
    return bytes.subarray(0, count);
  };
  return Object.assign(new streams.InputStream(), { read, blockingRead: read }, dispose);
}

// Connects commands to this process's streams.
export function useStdio() {
  _setStdin(input(0));
  _setStdout(output(1));
  _setStderr(output(2));
}
