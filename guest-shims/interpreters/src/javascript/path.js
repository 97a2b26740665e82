'use strict';
// `require('path')`: POSIX paths, as in the sandbox.
{
  const $ = $glovebox;
  const { coded } = $;

  const check = (path, name = 'path') => {
    if (typeof path !== 'string') {
      throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" argument must be of type string. Received ${$.received(path)}`);
    }
  };

  // Returns a path without `.` parts, and without `..` parts that have a parent to remove.
  const settle = (path, isAbsolute) => {
    const kept = [];
    for (const part of path.split('/')) {
      if (part === '' || part === '.') continue;
      if (part !== '..') kept.push(part);
      else if (kept.length > 0 && kept.at(-1) !== '..') kept.pop();
      else if (!isAbsolute) kept.push('..');
    }
    return kept.join('/');
  };

  const untrailed = (path) => path.replace(/(?<=[^/])\/+$/, '');

  const path = {
    sep: '/',
    delimiter: ':',
    isAbsolute(path) {
      check(path);
      return path.startsWith('/');
    },
    normalize(path) {
      check(path);
      if (path === '') return '.';
      const isAbsolute = path.startsWith('/');
      let settled = settle(path, isAbsolute);
      if (settled === '' && !isAbsolute) settled = '.';
      if (settled !== '' && path.endsWith('/')) settled += '/';
      return isAbsolute ? `/${settled}` : settled;
    },
    join(...parts) {
      for (const part of parts) check(part);
      const joined = parts.filter((part) => part !== '').join('/');
      return joined === '' ? '.' : path.normalize(joined);
    },
    resolve(...parts) {
      let resolved = '';
      for (let i = parts.length - 1; i >= -1 && !resolved.startsWith('/'); i--) {
        const part = i >= 0 ? parts[i] : $.os.getcwd()[0];
        check(part, `paths[${i}]`);
        if (part !== '') resolved = resolved === '' ? part : `${part}/${resolved}`;
      }
      return `/${settle(resolved, true)}`;
    },
    relative(from, to) {
      check(from, 'from');
      check(to, 'to');
      const here = path.resolve(from).split('/').filter(Boolean);
      const there = path.resolve(to).split('/').filter(Boolean);
      let same = 0;
      while (same < here.length && same < there.length && here[same] === there[same]) same++;
      return [...here.slice(same).map(() => '..'), ...there.slice(same)].join('/');
    },
    dirname(path) {
      check(path);
      if (path === '') return '.';
      const whole = untrailed(path);
      const at = whole.lastIndexOf('/');
      if (at < 0) return '.';
      if (at === 0) return '/';
      if (/^\/+$/.test(whole)) return '/';
      return at === 1 && whole.startsWith('//') ? '//' : whole.slice(0, at);
    },
    basename(path, suffix) {
      check(path);
      if (suffix !== undefined) check(suffix, 'suffix');
      const whole = path.replace(/\/+$/, '');
      const name = whole.slice(whole.lastIndexOf('/') + 1);
      return suffix !== undefined && (path === suffix || name !== suffix) && name.endsWith(suffix) ? name.slice(0, name.length - suffix.length) : name;
    },
    extname(path_) {
      check(path_);
      const name = path.basename(path_);
      const at = name.lastIndexOf('.');
      return at <= 0 || name === '..' ? '' : name.slice(at);
    },
    parse(whole) {
      check(whole);
      const root = whole.startsWith('/') ? '/' : '';
      const base = path.basename(whole);
      const ext = path.extname(whole);
      const dir = base === '' && root === '' ? '' : untrailed(whole).includes('/') ? path.dirname(whole) : '';
      return { root, dir, base, ext, name: ext === '' ? base : base.slice(0, -ext.length) };
    },
    format(parts) {
      const base = parts.base || `${parts.name ?? ''}${parts.ext ? (parts.ext.startsWith('.') ? '' : '.') + parts.ext : ''}`;
      const dir = parts.dir || parts.root;
      if (!dir) return base;
      return dir === parts.root ? `${dir}${base}` : `${dir}/${base}`;
    },
    toNamespacedPath: (path) => path,
    matchesGlob: (path, pattern) => $.globPattern(pattern).test(path),
  };

  path.posix = path;
  $.lazily(path, 'win32', () => (path.win32 = $.node['path/win32']), true);
  $.node.path = path;
  $.node['path/posix'] = path;
}
