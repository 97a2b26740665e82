'use strict';
// `require('fs/promises')`.
{
  const $ = $glovebox;
  $.completeFs();
  const { store, sync } = $.fsParts;
  const { fs } = $.node;

  const promises = { constants: fs.constants };
  for (const name of Object.keys(sync)) {
    const plain = name.slice(0, -4);
    promises[plain] = { [plain]: async (...args) => sync[name](...args) }[plain];
  }
  for (const name of ['exists', 'close', 'read', 'write', 'fsync', 'fstat', 'ftruncate', 'fdatasync']) delete promises[name];

  promises.realpath = { realpath: async (file) => fs.realpathSync.native(file) }.realpath;

  class FileHandle {
    constructor(fd) {
      this.fd = fd;
    }
    async close() {
      if (this.fd >= 0) sync.closeSync(this.fd);
      this.fd = -1;
    }
    async read(buffer, ...rest) {
      const isBytes = ArrayBuffer.isView(buffer);
      const into = isBytes ? buffer : buffer?.buffer ?? Buffer.alloc(16384);
      return { bytesRead: sync.readSync(this.fd, into, ...(isBytes ? rest : [buffer ?? {}])), buffer: into };
    }
    async write(data, ...rest) {
      return { bytesWritten: sync.writeSync(this.fd, data, ...rest), buffer: data };
    }
    async readFile(options) {
      return sync.readFileSync(this.fd, options);
    }
    async writeFile(data, options) {
      store(this.fd, data, options, 'w');
    }
    async appendFile(data, options) {
      store(this.fd, data, options, 'a');
    }
    async stat(options) {
      return sync.fstatSync(this.fd, options);
    }
    async truncate(length) {
      sync.ftruncateSync(this.fd, length);
    }
    async sync() {}
    async *readLines() {
      yield* $.lines(sync.readFileSync(this.fd, 'utf8'));
    }
    async [Symbol.asyncDispose ?? Symbol.for('asyncDispose')]() {
      await this.close();
    }
  }
  promises.open = async (file, flags, mode) => new FileHandle(sync.openSync(file, flags, mode));
  promises.glob = async function* (pattern, options) {
    yield* sync.globSync(pattern, options);
  };
  $.node['fs/promises'] = promises;
}
