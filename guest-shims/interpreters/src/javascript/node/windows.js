'use strict';
// `require('path').win32`: Windows paths.
{
  const $ = $glovebox;
  const { coded } = $;

  const check = (path, name = 'path') => {
    if (typeof path !== 'string') {
      throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" argument must be of type string. Received ${$.received(path)}`);
    }
  };
  const isSeparator = (unit) => unit === '\\' || unit === '/';
  const DRIVE = /^[a-z]:/i;
  // A server and a share, or `.` or `?` and a device.
  const SHARE = /^[\\/]{2}([^\\/]+)[\\/]+([^\\/]+)/;
  // Names of devices in every directory.
  const RESERVED = /^(?:con|prn|aux|nul|(?:com|lpt)[1-9\xb9\xb2\xb3])$/i;

  // Returns a path without `.` parts, and without `..` parts that have a parent to remove.
  const settle = (path, isAbsolute) => {
    const kept = [];
    for (const part of path.split(/[\\/]/)) {
      if (part === '' || part === '.') continue;
      if (part !== '..') kept.push(part);
      else if (kept.length > 0 && kept.at(-1) !== '..') kept.pop();
      else if (!isAbsolute) kept.push('..');
    }
    return kept.join('\\');
  };

  // Returns the device of a path, and the index after its root.
  const rootOf = (path) => {
    if (isSeparator(path[0])) {
      const [whole, server, share] = SHARE.exec(path) ?? [];
      if (whole === undefined) return { end: path.length > 1 && isSeparator(path[1]) ? 0 : 1, isAbsolute: true };
      if (server === '.' || server === '?') return { device: `\\\\${server}`, end: 4, isAbsolute: true };
      return { device: `\\\\${server}\\${share}`, end: whole.length, isAbsolute: true, isShare: whole.length === path.length };
    }
    if (!DRIVE.test(path)) return { end: 0, isAbsolute: false };
    const isAbsolute = path.length > 2 && isSeparator(path[2]);
    return { device: path.slice(0, 2), end: isAbsolute ? 3 : 2, isAbsolute };
  };
  // Returns the length of the root that `dirname` and `parse` do not divide.
  const rootLength = (path) => {
    if (!isSeparator(path[0])) return rootOf(path).end;
    const whole = SHARE.exec(path)?.[0].length ?? 0;
    return whole === path.length ? whole : whole + 1;
  };
  const LAST = /([^\\/]+)[\\/]*$/;

  const path = {
    sep: '\\',
    delimiter: ';',
    isAbsolute(path) {
      check(path);
      return isSeparator(path[0]) || (DRIVE.test(path) && isSeparator(path[2]));
    },
    normalize(path) {
      check(path);
      if (path === '') return '.';
      if (path.length === 1) return path === '/' ? '\\' : path;
      const colon = path.indexOf(':');
      const isReserved = colon > 0 && RESERVED.test(path.slice(0, colon));
      let { device, end, isAbsolute, isShare } = rootOf(path);
      if (isShare) return `${device}\\`;
      if (device === undefined && isReserved) [device, end] = [path.slice(0, colon + 1), colon + 1];
      let tail = settle(path.slice(end), isAbsolute);
      if (tail === '' && !isAbsolute) tail = '.';
      if (tail !== '' && isSeparator(path.at(-1))) tail += '\\';
      // A relative path must not become one that names a drive.
      if (!isAbsolute && device === undefined && (DRIVE.test(tail) || /:(?:[\\/]|$)/.test(path))) return `.\\${tail}`;
      if (isReserved) return `.\\${device ?? ''}${tail}`;
      return `${device ?? ''}${isAbsolute ? '\\' : ''}${tail}`;
    },
    join(...parts) {
      for (const part of parts) check(part);
      const given = parts.filter((part) => part !== '');
      if (given.length === 0) return '.';
      const joined = given.join('\\');
      // Only a first part such as `\\server` begins a share.
      return path.normalize(/^[\\/]{2}[^\\/]/.test(given[0]) ? joined : joined.replace(/^[\\/]{2,}/, '\\'));
    },
    resolve(...parts) {
      let device = '';
      let tail = '';
      let isAbsolute = false;
      for (let i = parts.length - 1; i >= -1 && !(isAbsolute && device !== ''); i--) {
        const part = i >= 0 ? parts[i] : $.os.getcwd()[0];
        check(part, `paths[${i}]`);
        if (part === '') continue;
        const root = rootOf(part);
        if (root.device !== undefined) {
          if (device !== '' && root.device.toLowerCase() !== device.toLowerCase()) continue;
          device ||= root.device;
        }
        if (isAbsolute) continue;
        tail = `${part.slice(root.end)}\\${tail}`;
        isAbsolute = root.isAbsolute;
      }
      return `${device}${isAbsolute ? '\\' : ''}${settle(tail, isAbsolute)}` || '.';
    },
    relative(from, to) {
      check(from, 'from');
      check(to, 'to');
      const target = path.resolve(to);
      const [here, there] = [path.resolve(from), target].map((each) => each.split('\\').filter(Boolean));
      let same = 0;
      while (same < here.length && same < there.length && here[same].toLowerCase() === there[same].toLowerCase()) same++;
      if (same === 0 && here.length > 0 && there.length > 0) return target;
      return [...here.slice(same).map(() => '..'), ...there.slice(same)].join('\\');
    },
    toNamespacedPath(whole) {
      if (typeof whole !== 'string' || whole === '') return whole;
      const resolved = path.resolve(whole);
      if (resolved.length <= 2) return whole;
      if (/^\\\\[^?.]/.test(resolved)) return `\\\\?\\UNC\\${resolved.slice(2)}`;
      return DRIVE.test(resolved) && resolved[2] === '\\' ? `\\\\?\\${resolved}` : resolved;
    },
    dirname(path) {
      check(path);
      if (path === '') return '.';
      if (path.length === 1) return isSeparator(path) ? path : '.';
      const root = rootLength(path);
      const rest = path.slice(root);
      const at = LAST.exec(rest)?.index ?? 0;
      if (at > 0) return path.slice(0, root + at - 1);
      return root === 0 ? '.' : path.slice(0, root);
    },
    basename(path, suffix) {
      if (suffix !== undefined) check(suffix, 'suffix');
      check(path);
      if (suffix !== undefined && suffix !== '' && suffix === path) return '';
      const name = LAST.exec(DRIVE.test(path) ? path.slice(2) : path)?.[1] ?? '';
      return suffix && name !== suffix && name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
    },
    extname(whole) {
      check(whole);
      const name = path.basename(whole);
      const at = name.lastIndexOf('.');
      return at <= 0 || name === '..' ? '' : name.slice(at);
    },
    format(parts) {
      if (typeof parts !== 'object' || parts === null) {
        throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "pathObject" argument must be of type object. Received ${$.received(parts)}`);
      }
      const base = parts.base || `${parts.name || ''}${parts.ext ? (parts.ext[0] === '.' ? '' : '.') + parts.ext : ''}`;
      const dir = parts.dir || parts.root;
      if (!dir) return base;
      return dir === parts.root ? `${dir}${base}` : `${dir}\\${base}`;
    },
    parse(whole) {
      check(whole);
      const end = whole.length === 1 && !isSeparator(whole) ? 0 : rootLength(whole);
      const root = whole.slice(0, end);
      const found = LAST.exec(whole.slice(end));
      const base = found?.[1] ?? '';
      const at = base.lastIndexOf('.');
      const ext = at <= 0 || base === '..' ? '' : base.slice(at);
      const start = end + (found?.index ?? 0);
      return { root, dir: start === end ? root : whole.slice(0, start - 1), base, ext, name: ext === '' ? base : base.slice(0, -ext.length) };
    },
    matchesGlob: (path, pattern) => $.globPattern(pattern.replaceAll('\\', '/')).test(path.replaceAll('\\', '/')),
  };

  path.win32 = path;
  path.posix = $.node.path;
  $.node['path/win32'] = path;
}
