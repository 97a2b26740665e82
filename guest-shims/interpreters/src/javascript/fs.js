'use strict';
// `require('fs')` on top of the interpreter's own file calls. Every call is synchronous: the forms with callbacks and
// promises only deliver the result later.
{
  const $ = $glovebox;
  const { coded, os, std } = $;
  const bytesOf = (source) => $.encoding.bytesOf(source);
  const { path } = $.node;

  // Each entry contains WASI's error number, then Node's code, number and text.
  const ERRORS =
    '2 EACCES 13 permission denied|8 EBADF 9 bad file descriptor|10 EBUSY 16 resource busy or locked|' +
    '19 EDQUOT 122 disk quota exceeded|20 EEXIST 17 file already exists|22 EFBIG 27 file too large|' +
    '28 EINVAL 22 invalid argument|29 EIO 5 i/o error|31 EISDIR 21 illegal operation on a directory|' +
    '32 ELOOP 40 too many symbolic links encountered|33 EMFILE 24 too many open files|' +
    '37 ENAMETOOLONG 36 name too long|44 ENOENT 2 no such file or directory|48 ENOMEM 12 not enough memory|' +
    '51 ENOSPC 28 no space left on device|52 ENOSYS 38 function not implemented|54 ENOTDIR 20 not a directory|' +
    '55 ENOTEMPTY 39 directory not empty|63 EPERM 1 operation not permitted|69 EROFS 30 read-only file system|' +
    '75 EXDEV 18 cross-device link not permitted';
  const find = (index, value) => ERRORS.split('|').map((entry) => /^(\d+) (\w+) (\d+) (.*)$/.exec(entry).slice(1)).find((entry) => entry[index] === `${value}`);
  // WASI's error numbers by Node's codes.
  const NUMBERS = { EBADF: 8, EEXIST: 20, EINVAL: 28, EIO: 29, EISDIR: 31, ELOOP: 32, ENOENT: 44, ENOSPC: 51, ENOSYS: 52, ENOTDIR: 54 };

  const failure = (number, syscall, from, to) => {
    const [, code, errno, text] = find(0, number) ?? [0, 'EIO', 5, `error ${number}`];
    const where = from === undefined ? '' : ` '${from}'${to === undefined ? '' : ` -> '${to}'`}`;
    const error = Object.assign(new Error(`${code}: ${text}, ${syscall}${where}`), { errno: -errno, code, syscall });
    if (from !== undefined) error.path = from;
    if (to !== undefined) error.dest = to;
    return error;
  };
  const check = (result, syscall, from, to) => {
    if (result < 0) throw failure(-result, syscall, from, to);
    return result;
  };

  // Converts a path argument to a string, which may be empty.
  const textOf = (value, name) => {
    let found = value;
    if (value instanceof URL) found = $.node.url.fileURLToPath(value);
    else if (value instanceof Uint8Array) found = Buffer.from(value).toString();
    if (typeof found !== 'string') {
      throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" argument must be of type string or an instance of Buffer or URL. Received ${$.received(value)}`);
    }
    if (found.includes('\0')) throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The argument '${name}' must be a string, Uint8Array, or URL without null bytes. Received ${$.inspect(found, 0)}`);
    return found;
  };
  // Rejects an empty path, which the interpreter treats as the working directory. Errors name the system call `call`.
  const pathOf = (value, name = 'path', call = 'open') => {
    const found = textOf(value, name);
    if (found === '') throw failure(NUMBERS.ENOENT, call, found);
    return found;
  };
  const pathsOf = (from, to, call, fromName, toName) => {
    const paths = [textOf(from, fromName), textOf(to, toName)];
    if (paths.includes('')) throw failure(NUMBERS.ENOENT, call, ...paths);
    return paths;
  };
  const optionsOf = (options) => (typeof options === 'string' ? { encoding: options } : options ?? {});
  const shown = (bytes, encoding) => (!encoding || encoding === 'buffer' ? bytes : bytes.toString(encoding));
  const checkEncoding = (encoding) => {
    if (!encoding || encoding === 'buffer' || isUtf8(encoding) || Buffer.isEncoding(encoding)) return;
    throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The argument 'encoding' is invalid encoding. Received ${$.inspect(encoding, 0)}`);
  };
  const isUtf8 = (encoding) => /^utf-?8$/i.test(encoding);

  const constants = {
    F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, COPYFILE_EXCL: 1, COPYFILE_FICLONE: 2, COPYFILE_FICLONE_FORCE: 4, O_RDONLY: os.O_RDONLY, O_WRONLY: os.O_WRONLY,
    O_RDWR: os.O_RDWR, O_CREAT: os.O_CREAT, O_EXCL: os.O_EXCL, O_TRUNC: os.O_TRUNC, O_APPEND: os.O_APPEND, S_IFMT: os.S_IFMT, S_IFREG: os.S_IFREG,
    S_IFDIR: os.S_IFDIR, S_IFCHR: os.S_IFCHR, S_IFLNK: os.S_IFLNK,
  };
  const { O_APPEND, O_CREAT, O_EXCL, O_RDWR, O_TRUNC, O_WRONLY } = os;
  const FLAGS = {
    __proto__: null, r: os.O_RDONLY, rs: os.O_RDONLY, 'r+': O_RDWR, 'rs+': O_RDWR, w: O_WRONLY | O_CREAT | O_TRUNC, wx: O_WRONLY | O_CREAT | O_TRUNC | O_EXCL,
    'w+': O_RDWR | O_CREAT | O_TRUNC, 'wx+': O_RDWR | O_CREAT | O_TRUNC | O_EXCL, a: O_WRONLY | O_CREAT | O_APPEND, ax: O_WRONLY | O_CREAT | O_APPEND | O_EXCL,
    'a+': O_RDWR | O_CREAT | O_APPEND, 'ax+': O_RDWR | O_CREAT | O_APPEND | O_EXCL,
  };
  const flagsOf = (flags = 'r') => {
    const known = typeof flags === 'number' ? flags : FLAGS[flags];
    if (known === undefined) throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The argument 'flags' is invalid. Received ${$.inspect(flags, 0)}`);
    return known;
  };

  const isType = (type) =>
    function () {
      return (this.mode & os.S_IFMT) === type;
    };
  class Stats {
    constructor(raw) {
      const { dev, ino, mode, nlink, uid, gid, rdev, size, blocks, atime, mtime, ctime } = raw;
      const rights = (mode & os.S_IFMT) === os.S_IFDIR ? 0o755 : 0o644;
      Object.assign(this, {
        dev, mode: mode & 0o777 ? mode : mode | rights, nlink, uid, gid, rdev, blksize: 4096, ino, size, blocks: blocks ?? Math.ceil(size / 512),
        atimeMs: atime, mtimeMs: mtime, ctimeMs: ctime, birthtimeMs: ctime, atime: new Date(atime), mtime: new Date(mtime), ctime: new Date(ctime), birthtime: new Date(ctime),
      });
    }
  }
  class Dirent {
    constructor(name, parentPath, mode) {
      this.name = name;
      this.parentPath = parentPath;
      Object.defineProperty(this, 'mode', { value: mode });
    }
  }
  const KINDS = { isFile: os.S_IFREG, isDirectory: os.S_IFDIR, isSymbolicLink: os.S_IFLNK, isCharacterDevice: os.S_IFCHR, isBlockDevice: os.S_IFBLK, isFIFO: os.S_IFIFO, isSocket: os.S_IFSOCK };
  for (const name of Object.keys(KINDS)) {
    for (const { prototype } of [Stats, Dirent]) Object.defineProperty(prototype, name, { value: isType(KINDS[name]), writable: true, configurable: true });
  }

  const rawStat = (name) => {
    const [raw, error] = os.stat(name);
    return error === 0 ? raw : undefined;
  };
  const statOf = (name, syscall = 'stat') => {
    const [raw, error] = os.stat(name);
    if (error !== 0) throw failure(error, syscall, name);
    return raw;
  };
  const isDirectory = (name) => ((rawStat(name)?.mode ?? 0) & os.S_IFMT) === os.S_IFDIR;
  // The interpreter has no `lstat`. With this flag of wasi-libc, which `os` does not define, opening a link fails.
  const O_NOFOLLOW = 1 << 24;
  const isLink = (name) => {
    const fd = os.open(name, os.O_RDONLY | O_NOFOLLOW);
    if (fd >= 0) os.close(fd);
    return fd === -NUMBERS.ELOOP;
  };
  const isTree = (name) => isDirectory(name) && !isLink(name);

  // Returns the bytes between a descriptor's position and the end of the file.
  const readRest = (fd) => {
    const parts = [];
    for (let size = 65536; ; size = Math.min(size * 2, 1 << 24)) {
      const part = Buffer.alloc(size);
      const got = check(os.read(fd, part.buffer, 0, size), 'read');
      if (got === 0) break;
      parts.push(got === size ? part : part.subarray(0, got));
    }
    return parts.length === 1 ? parts[0] : Buffer.concat(parts);
  };
  const writeAll = (fd, bytes, name) => {
    for (let at = 0; at < bytes.length; ) {
      const put = check(os.write(fd, bytes.buffer, bytes.byteOffset + at, bytes.length - at), 'write', name);
      if (put === 0) throw failure(NUMBERS.ENOSPC, 'write', name);
      at += put;
    }
  };
  const dataOf = (data, encoding) => {
    if (typeof data === 'string') return Buffer.from(data, encoding);
    if (ArrayBuffer.isView(data)) return bytesOf(data);
    throw coded(TypeError, 'ERR_INVALID_ARG_TYPE',
      `The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${$.received(data)}`);
  };

  const store = (file, data, options, flag) => {
    const { encoding = 'utf8', flag: flags = flag, mode = 0o666 } = optionsOf(options);
    // Fast path: the interpreter encodes and writes a text in a single call.
    if (typeof file !== 'number' && typeof data === 'string' && isUtf8(encoding ?? 'utf8') && (flags === 'w' || flags === 'a')) {
      const name = pathOf(file);
      const problem = {};
      const open = std.open(name, flags, problem);
      if (open === null) throw failure(problem.errno, 'open', name);
      open.puts(data.isWellFormed() ? data : data.toWellFormed());
      open.flush();
      try {
        // A failed write does not report its error. Repeat it with a function that does. The repetition writes nothing:
        // the failed write ended with a chunk that did not fit, and the first chunk of the text is not shorter.
        if (open.error()) writeAll(open.fileno(), Buffer.from(data));
      } finally {
        open.close();
      }
      return;
    }
    const bytes = dataOf(data, encoding ?? 'utf8');
    if (typeof file === 'number') {
      writeAll(file, bytes);
      return;
    }
    const fd = sync.openSync(file, flags, mode);
    try {
      writeAll(fd, bytes);
    } finally {
      os.close(fd);
    }
  };

  const copy = (from, to, mode) => {
    const [name, target] = pathsOf(from, to, 'copyfile', 'src', 'dest');
    if (mode & constants.COPYFILE_EXCL && rawStat(target)) throw failure(NUMBERS.EEXIST, 'copyfile', name, target);
    let bytes;
    try {
      bytes = sync.readFileSync(name);
      store(target, bytes, undefined, 'w');
    } catch (error) {
      throw failure(find(1, error.code)?.[0] ?? NUMBERS.EIO, 'copyfile', name, target);
    }
  };

  const names = (directory) => {
    const [found, error] = os.readdir(directory);
    // In some builds, the result for a file is an empty list, not an error.
    if (error !== 0) throw failure(error, 'scandir', directory);
    if (!isDirectory(directory)) throw failure(rawStat(directory) ? NUMBERS.ENOTDIR : NUMBERS.ENOENT, 'scandir', directory);
    return found.filter((name) => name !== '.' && name !== '..').sort();
  };

  const removeTree = (name) => {
    // Removes a link without following it.
    if (isTree(name)) for (const child of names(name)) removeTree(`${name}/${child}`);
    check(os.remove(name), 'rm', name);
  };

  const sync = {
    accessSync(file) {
      statOf(pathOf(file, 'path', 'access'), 'access');
    },
    appendFileSync(file, data, options) {
      store(file, data, options, 'a');
    },
    closeSync(fd) {
      check(os.close(fd), 'close');
    },
    copyFileSync: (from, to, mode = 0) => copy(from, to, mode),
    existsSync(file) {
      try {
        return rawStat(pathOf(file)) !== undefined;
      } catch {
        return false;
      }
    },
    mkdirSync(directory, options) {
      const name = pathOf(directory, 'path', 'mkdir');
      const { recursive = false } = typeof options === 'object' && options !== null ? options : {};
      if (!recursive) {
        check(os.mkdir(name), 'mkdir', name);
        return undefined;
      }
      if (name === '') throw failure(NUMBERS.ENOENT, 'mkdir', name);
      let first;
      const make = (each) => {
        if (isDirectory(each)) return;
        if (rawStat(each)) throw failure(each === path.resolve(name) ? NUMBERS.EEXIST : NUMBERS.ENOTDIR, 'mkdir', name);
        make(path.dirname(each));
        check(os.mkdir(each), 'mkdir', name);
        first ??= each;
      };
      make(path.resolve(name));
      return first === undefined || path.isAbsolute(name) ? first : path.relative('', first);
    },
    openSync(file, flags, mode = 0o666) {
      const name = pathOf(file);
      const wanted = flagsOf(flags);
      if (wanted & (O_WRONLY | O_RDWR) && isDirectory(name)) throw failure(NUMBERS.EISDIR, 'open', name);
      const fd = check(os.open(name, wanted, typeof mode === 'number' ? mode : 0o666), 'open', name);
      opened.set(fd, path.resolve(name));
      return fd;
    },
    readFileSync(file, options) {
      const { encoding, flag = 'r' } = optionsOf(options);
      checkEncoding(encoding);
      if (typeof file === 'number') return shown(readRest(file), encoding);
      const name = pathOf(file);
      if (name === '/dev/stdin') return shown(readRest(0), encoding);
      if (encoding && isUtf8(encoding) && flag === 'r') {
        const problem = {};
        const open = std.open(name, 'r', problem);
        if (open === null) throw failure(problem.errno, 'open', name);
        const text = open.readAsString();
        open.close();
        if (text === '' && isDirectory(name)) throw failure(NUMBERS.EISDIR, 'read');
        // The interpreter accepts encoded lone surrogates, and replaces other invalid UTF-8 differently from Node.
        if (text.isWellFormed() && !text.includes('\ufffd')) return text;
      }
      if (isDirectory(name)) throw failure(NUMBERS.EISDIR, 'read');
      const fd = sync.openSync(name, flag);
      try {
        return shown(readRest(fd), encoding);
      } finally {
        os.close(fd);
      }
    },
    readdirSync(directory, options) {
      const { withFileTypes = false, recursive = false } = optionsOf(options);
      const root = pathOf(directory, 'path', 'scandir');
      const found = [];
      const walk = (below, prefix) => {
        for (const name of names(below)) {
          const whole = `${below.replace(/(?<=.)\/$/, '')}/${name}`;
          const mode = !(withFileTypes || recursive) ? 0 : isLink(whole) ? os.S_IFLNK : (rawStat(whole)?.mode ?? 0);
          found.push(withFileTypes ? new Dirent(name, below, mode) : prefix + name);
          if (recursive && (mode & os.S_IFMT) === os.S_IFDIR) walk(whole, `${prefix}${name}/`);
        }
      };
      walk(root, '');
      return found;
    },
    renameSync(from, to) {
      const [name, target] = pathsOf(from, to, 'rename', 'oldPath', 'newPath');
      check(os.rename(name, target), 'rename', name, target);
    },
    rmSync(file, options = {}) {
      if (options.force && file === '') return;
      const name = pathOf(file, 'path', 'lstat');
      if (!rawStat(name) && !isLink(name)) {
        if (options.force) return;
        throw failure(NUMBERS.ENOENT, 'lstat', name);
      }
      if (!options.recursive && isTree(name)) {
        class SystemError extends Error {}
        throw Object.assign(new SystemError(`Path is a directory: rm returned EISDIR (is a directory) ${name}`), { code: 'ERR_FS_EISDIR', name: 'SystemError' });
      }
      removeTree(name);
    },
    statSync(file, options) {
      if (options?.throwIfNoEntry === false && file === '') return undefined;
      const name = pathOf(file, 'path', 'stat');
      if (options?.throwIfNoEntry === false && rawStat(name) === undefined) return undefined;
      const raw = statOf(name);
      return options?.bigint ? $.bigStats(raw) : new Stats(raw);
    },
    unlinkSync(file) {
      const name = pathOf(file, 'path', 'unlink');
      if (isTree(name)) throw failure(NUMBERS.EISDIR, 'unlink', name);
      check(os.remove(name), 'unlink', name);
    },
    writeFileSync: (file, data, options) => store(file, data, options, 'w'),
  };
  // The paths of open files by descriptor. The interpreter has no call that returns them.
  const opened = new Map();

  const fs = { constants, Stats, Dirent, F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, ...sync };
  $.fsParts = { check, copy, failure, isDirectory, isLink, isTree, names, NUMBERS, opened, optionsOf, pathOf, pathsOf, rawStat, removeTree, statOf, store, sync, textOf, writeAll };

  // Loads the rarely used functions from the library when a script first reads a property that `fs` does not have yet.
  Object.setPrototypeOf(fs, new Proxy({}, {
    get(target, name) {
      if (typeof name === 'symbol') return undefined;
      $.completeFs();
      return fs[name];
    },
    has(target, name) {
      $.completeFs();
      return name in fs;
    },
    set(target, name, value) {
      return Reflect.defineProperty(fs, name, { value, writable: true, enumerable: true, configurable: true });
    },
    getPrototypeOf: () => Object.prototype,
  }));

  const lines = (text) => {
    const all = text.split(/\r\n|\n|\r/);
    if (all.at(-1) === '') all.pop();
    return all;
  };
  $.lines = lines;
  $.node.fs = fs;
}
