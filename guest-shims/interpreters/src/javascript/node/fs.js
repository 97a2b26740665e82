'use strict';
// The rarely used parts of `require('fs')`: further synchronous calls, and the forms with callbacks.
{
  const $ = $glovebox;
  const { coded, os, std } = $;
  const { check, copy, failure, isDirectory, isLink, isTree, names, NUMBERS, opened, pathOf, pathsOf, rawStat, removeTree, statOf, store, sync, textOf, writeAll } = $.fsParts;
  const { fs, path } = $.node;
  const { Stats } = fs;
  const { bytesOf } = $.encoding;

  const copyTree = (from, to, options) => {
    if (options.filter && !options.filter(from, to)) return;
    if (!isDirectory(from)) {
      if (rawStat(to) && options.errorOnExist && options.force === false) throw failure(NUMBERS.EEXIST, 'cp', from, to);
      if (rawStat(to) && options.force === false) return;
      sync.mkdirSync(path.dirname(to), { recursive: true });
      copy(from, to, 0);
      return;
    }
    if (isLink(from)) throw failure(NUMBERS.ENOSYS, 'symlink', from, to);
    if (!options.recursive) {
      throw coded(Error, 'ERR_FS_EISDIR', `Recursive option not enabled, cannot copy a directory: cp returned EISDIR (${from} is a directory (not copied)) ${from}`);
    }
    if (`${path.resolve(to)}/`.startsWith(`${path.resolve(from)}/`)) {
      throw coded(Error, 'ERR_FS_CP_EINVAL', `Invalid src or dest: cp returned EINVAL (cannot copy ${from} to a subdirectory of self ${to}) ${to}`);
    }
    sync.mkdirSync(to, { recursive: true });
    for (const name of names(from)) copyTree(path.join(from, name), path.join(to, name), options);
  };

  const timeOf = (time) => (time instanceof Date ? time.getTime() : typeof time === 'string' ? +time * 1000 : time * 1000);

  const writeText = (fd, bytes) => {
    writeAll(fd, bytes);
    return bytes.length;
  };
  // Runs a function at a position in a file, then restores the old position.
  const at = (fd, position, action) => {
    if (typeof position !== 'number' || position < 0) return action();
    const before = check(os.seek(fd, 0, std.SEEK_CUR), 'read');
    check(os.seek(fd, position, std.SEEK_SET), 'read');
    try {
      return action();
    } finally {
      os.seek(fd, before, std.SEEK_SET);
    }
  };

  class BigIntStats {
    constructor(stats) {
      for (const name of Object.keys(stats)) {
        this[name] = typeof stats[name] === 'number' ? BigInt(Math.trunc(stats[name])) : stats[name];
        if (name !== 'birthtimeMs') continue;
        for (const time of ['atime', 'mtime', 'ctime', 'birthtime']) this[`${time}Ns`] = this[`${time}Ms`] * 1000000n;
      }
    }
  }
  for (const name of Object.getOwnPropertyNames(Stats.prototype)) {
    if (name === 'constructor') continue;
    const is = Stats.prototype[name];
    const value = { [name]() {
      return is.call({ mode: Number(this.mode) });
    } }[name];
    Object.defineProperty(BigIntStats.prototype, name, { value, writable: true, configurable: true });
  }
  $.bigStats = (raw) => new BigIntStats(new Stats(raw));
  const statsOf = (raw, options) => (options?.bigint ? $.bigStats(raw) : new Stats(raw));

  // Linux's number for a file system in memory.
  const TMPFS = 0x01021994;
  const BLOCK = 4096;
  class StatFs {
    constructor([size, used, files, there], convert) {
      const free = Math.floor(Math.max(size - used, 0) / BLOCK);
      const found = { type: TMPFS, bsize: BLOCK, blocks: Math.floor(size / BLOCK), bfree: free, bavail: free, files, ffree: Math.max(files - there, 0) };
      for (const name of Object.keys(found)) this[name] = convert(found[name]);
    }
  }
  // Returns the quota of the files in bytes, the used bytes, the maximum number of files, and the number of files.
  const space = () => {
    const fd = check(os.open('/dev/glovebox/space', os.O_RDONLY), 'statfs');
    try {
      const bytes = new Uint8Array(200);
      return String.fromCharCode(...bytes.subarray(0, check(os.read(fd, bytes.buffer, 0, bytes.length), 'statfs'))).split(' ').map(Number);
    } finally {
      os.close(fd);
    }
  };

  // Like `realpath` of the C library, which takes no empty path.
  const nativeRealpath = (file) => {
    const name = pathOf(file, 'path', 'realpath');
    statOf(name, 'realpath');
    return path.resolve(name);
  };

  Object.assign(sync, {
    chmodSync(file) {
      statOf(pathOf(file, 'path', 'chmod'), 'chmod');
    },
    chownSync(file) {
      statOf(pathOf(file, 'path', 'chown'), 'chown');
    },
    cpSync(from, to, options = {}) {
      const [name, target] = [textOf(from, 'src'), textOf(to, 'dest')];
      statOf(pathOf(name, 'src', 'lstat'), 'lstat');
      if (target === '' && !isDirectory(name)) throw failure(NUMBERS.ENOENT, 'copyfile', name, target);
      copyTree(name, target, options);
    },
    fstatSync(fd, options) {
      const place = os.seek(fd, 0, std.SEEK_CUR);
      check(place, 'fstat');
      const size = os.seek(fd, 0, std.SEEK_END);
      os.seek(fd, place, std.SEEK_SET);
      return statsOf({ dev: 0, ino: 0, mode: os.S_IFREG | 0o644, nlink: 1, uid: 0, gid: 0, rdev: 0, size, atime: 0, mtime: 0, ctime: 0 }, options);
    },
    fsyncSync() {},
    fdatasyncSync() {},
    ftruncateSync(fd, length = 0) {
      const file = opened.get(fd);
      if (file === undefined) throw failure(NUMBERS.EBADF, 'ftruncate');
      sync.truncateSync(file, length);
    },
    globSync(pattern, options = {}) {
      const root = pathOf(options.cwd ?? os.getcwd()[0]);
      const patterns = [].concat(pattern).map((each) => $.globPattern(path.normalize(each)));
      return sync.readdirSync(root, { recursive: true }).filter((name) => patterns.some((each) => each.test(name)));
    },
    linkSync: (from, to) => {
      throw failure(NUMBERS.ENOSYS, 'link', ...pathsOf(from, to, 'link', 'existingPath', 'newPath'));
    },
    lstatSync(file, options) {
      if (options?.throwIfNoEntry === false && file === '') return undefined;
      const name = pathOf(file, 'path', 'lstat');
      if (!isLink(name)) return sync.statSync(name, options);
      return statsOf({ dev: 0, ino: 0, mode: os.S_IFLNK | 0o777, nlink: 1, uid: 0, gid: 0, rdev: 0, size: 0, atime: 0, mtime: 0, ctime: 0 }, options);
    },
    mkdtempSync(prefix) {
      for (;;) {
        const name = pathOf(prefix, 'prefix') + $.node.crypto.randomUUID().replace(/-/g, '').slice(0, 6);
        const result = os.mkdir(name);
        if (result !== -NUMBERS.EEXIST) {
          check(result, 'mkdtemp', `${prefix}XXXXXX`);
          return name;
        }
      }
    },
    opendirSync(directory) {
      const entries = sync.readdirSync(directory, { withFileTypes: true });
      return {
        path: pathOf(directory), readSync: () => entries.shift() ?? null, closeSync() {}, close: async () => {}, read: async () => entries.shift() ?? null,
        async *[Symbol.asyncIterator]() {
          yield* entries;
        },
      };
    },
    readSync(fd, buffer, offset = 0, length = undefined, position = null) {
      if (typeof offset === 'object' && offset !== null) ({ offset = 0, length, position = null } = offset);
      const bytes = bytesOf(buffer);
      const most = length ?? bytes.length - offset;
      if (offset < 0 || most < 0 || offset + most > bytes.length) {
        throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "length" is out of range. It must be <= ${bytes.length - offset}. Received ${most}`);
      }
      return at(fd, position, () => check(os.read(fd, bytes.buffer, bytes.byteOffset + offset, most), 'read'));
    },
    readlinkSync(file) {
      const name = pathOf(file, 'path', 'readlink');
      if (isLink(name)) throw failure(NUMBERS.ENOSYS, 'readlink', name);
      statOf(name, 'readlink');
      throw failure(NUMBERS.EINVAL, 'readlink', name);
    },
    realpathSync(file) {
      const name = path.resolve(textOf(file, 'path'));
      // Node's own implementation looks at each directory, so errors name the first one that is missing.
      if (rawStat(name) === undefined) {
        const parts = name.split('/');
        for (let i = 2; i <= parts.length; i++) statOf(parts.slice(0, i).join('/'), 'lstat');
      }
      return name;
    },
    rmdirSync(directory, options) {
      const name = pathOf(directory, 'path', 'rmdir');
      if (isLink(name) || (rawStat(name) && !isDirectory(name))) throw failure(NUMBERS.ENOTDIR, 'rmdir', name);
      if (options?.recursive && isDirectory(name)) removeTree(name);
      else check(os.remove(name), 'rmdir', name);
    },
    statfsSync(file, options) {
      statOf(pathOf(file, 'path', 'statfs'), 'statfs');
      return new StatFs(space(), options?.bigint ? BigInt : Number);
    },
    symlinkSync: (from, to) => {
      throw failure(NUMBERS.ENOSYS, 'symlink', ...pathsOf(from, to, 'symlink', 'target', 'path'));
    },
    truncateSync(file, length = 0) {
      const bytes = sync.readFileSync(file);
      const cut = Buffer.alloc(length);
      cut.set(bytes.subarray(0, length));
      store(file, cut, undefined, 'w');
    },
    utimesSync(file, atime, mtime) {
      check(os.utimes(pathOf(file, 'path', 'utime'), timeOf(atime), timeOf(mtime)), 'utime', pathOf(file));
    },
    writeSync(fd, data, offset, length, position) {
      if (typeof data === 'string') return at(fd, offset, () => writeText(fd, Buffer.from(data, length)));
      if (typeof offset === 'object' && offset !== null) ({ offset = 0, length, position } = offset);
      const bytes = bytesOf(data).subarray(offset ?? 0, length === undefined || length === null ? undefined : (offset ?? 0) + length);
      return at(fd, position, () => writeText(fd, bytes));
    },
  });

  // The number of arguments that must precede the callback, if it is not 1.
  const LEAST = { __proto__: null, appendFile: 2, chmod: 2, chown: 3, copyFile: 2, cp: 2, link: 2, read: 2, rename: 2, utimes: 3, write: 2, writeFile: 2 };
  const later = (call, plain) =>
    ({
      [plain](...args) {
        const callback = args.length > (LEAST[plain] ?? 1) ? args.pop() : undefined;
        if (typeof callback !== 'function') throw $.functionError(plain === 'opendir' ? 'callback' : 'cb', callback);
        let result;
        try {
          result = [null, call(...args)];
        } catch (error) {
          if (error instanceof TypeError) throw error;
          result = [error];
        }
        setImmediate(() => callback(...result));
      },
    })[plain];
  Object.setPrototypeOf(fs, Object.prototype);
  for (const name of Object.keys(sync)) {
    fs[name] = sync[name];
    fs[name.slice(0, -4)] = later(sync[name], name.slice(0, -4));
  }
  $.lazily(fs, 'promises', () => $.node['fs/promises']);
  fs.exists = (file, callback) => {
    if (typeof callback !== 'function') throw $.functionError('cb', callback);
    const result = sync.existsSync(file);
    setImmediate(() => callback(result));
  };
  fs.exists[Symbol.for('nodejs.util.promisify.custom')] = async (file) => sync.existsSync(file);
  fs.realpathSync.native = nativeRealpath;
  fs.realpath.native = later(nativeRealpath, 'realpath');
}
