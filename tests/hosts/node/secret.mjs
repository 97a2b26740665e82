// Searches the memories of a provider's guests for a secret of a previous guest: `node secret.mjs DIRECTORY`. Hosts
// cannot see these memories, so this program exports them before it compiles the module. The search covers each memory
// completely, including the range beyond the end of the current guest. Prints a line per search: `there` or
// `not there`, followed by `in a small memory` if at most 32 MiB were searched.
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { WASIShim } from '@bytecodealliance/preview2-shim/instantiation';

const directory = process.argv[2];
const { instantiate } = await import(pathToFileURL(resolve(directory, 'component.js')));
const memories = [];
const tools = { listTools: () => [], call: () => { throw { kind: 'unknown', message: 'there is none' }; } };
const { sandbox } = await instantiate(
  async (name) => WebAssembly.compile(withMemoriesExported(await readFile(join(directory, name)))),
  { ...new WASIShim().getImportObject(), 'glovebox:sandbox/tools': tools },
  async (module, imports) => {
    const instance = await WebAssembly.instantiate(module, imports);
    const exported = Object.entries(instance.exports).filter(([name]) => name.startsWith('searched-'));
    memories.push(...exported.map(([, memory]) => memory));
    return instance;
  },
);

const policy = { limits: { memoryBytes: 256n << 20n }, clock: { tag: 'fixed', val: 0n }, entropy: { tag: 'seeded', val: 1n } };
const languages = {
  javascript: {
    plant: (secret) => `var held = []; for (let i = 0; i < 64; i++) held.push(('${secret}' + i).repeat(25000)); held.length`,
    small: 'console.log(1)',
  },
  python: {
    plant: (secret) => `held = [('${secret}' + str(i)) * 25000 for i in range(64)]\nlen(held)`,
    small: 'print(1)',
  },
};

const has = sandbox.info().runtimes.map((runtime) => runtime.language);
for (const [language, { plant, small }] of Object.entries(languages).filter(([name]) => has.includes(name))) {
  const runtime = { tag: language };
  const succeeds = ({ outcome }) => {
    if (outcome.tag !== 'completed') throw new Error(JSON.stringify(outcome));
  };
  let secret = randomUUID();
  const look = (when) => {
    const searched = memories.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
    const there = memories.some(({ buffer }) => Buffer.from(buffer).includes(secret));
    console.log(`${language}: ${when}: ${there ? 'there' : 'not there'}${searched > 32 << 20 ? '' : ', in a small memory'}`);
  };

  succeeds(sandbox.execute(runtime, { source: plant(secret) }, policy));
  look('after the execution that has it');
  succeeds(sandbox.execute(runtime, { source: small }, policy));
  look('in the next execution');

  secret = randomUUID();
  const large = sandbox.Session.open(runtime, policy, {});
  succeeds(large.execute({ source: plant(secret) }));
  look('after the session that has it');
  const other = sandbox.Session.open(runtime, policy, {});
  succeeds(other.execute({ source: small }));
  look('in another session');
  succeeds(large.execute({ source: small }));
  look('in its own session again');
  succeeds(sandbox.execute(runtime, { source: small }, policy));
  look('in a separate execution');
  large.close();
  succeeds(other.execute({ source: small }));
  look('after it is closed');
}

// Exports all memories of the module except the shim's, which is already exported and contains evicted sessions.
function withMemoriesExported(bytes) {
  const parts = [bytes.subarray(0, 8)];
  let memoryCount = 0;
  for (let at = 8; at < bytes.length; ) {
    const id = bytes[at];
    const size = read(bytes, at + 1);
    const end = size.next + size.value;
    if (id === 5) memoryCount = read(bytes, size.next).value;
    if (id === 7 && memoryCount > 1) {
      const count = read(bytes, size.next);
      const own = exportedMemory(bytes, count);
      const others = Array.from({ length: memoryCount }, (_, memory) => memory).filter((memory) => memory !== own);
      const entries = others.flatMap((memory) => {
        const name = Buffer.from(`searched-${memory}`);
        return [write(name.length), name, Buffer.from([2]), write(memory)];
      });
      const body = Buffer.concat([write(count.value + others.length), bytes.subarray(count.next, end), ...entries]);
      parts.push(Buffer.from([7]), write(body.length), body);
    } else {
      parts.push(bytes.subarray(at, end));
    }
    at = end;
  }
  return Buffer.concat(parts);
}

// Returns the memory that the export section exports.
function exportedMemory(bytes, count) {
  let at = count.next;
  for (let left = count.value; left > 0; left--) {
    const name = read(bytes, at);
    const kind = bytes[name.next + name.value];
    const index = read(bytes, name.next + name.value + 1);
    if (kind === 2) return index.value;
    at = index.next;
  }
  throw new Error('no memory is exported');
}

// Reads an unsigned LEB128 number.
function read(bytes, at) {
  let value = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at++];
    value += (byte & 127) * 2 ** shift;
    if (byte < 128) return { value, next: at };
  }
}

function write(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value & 127) | 128);
  return Buffer.from([...bytes, value]);
}
