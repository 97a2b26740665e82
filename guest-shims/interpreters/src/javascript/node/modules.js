'use strict';
// `require` for names that are not modules of Node: files of the workspace, vendored packages, missing names.
{
  const $ = $glovebox;
  const { builtin, coded, compileAs, distance, node } = $;
  const { fs, path } = node;
  $.completeFs();

  const WORKSPACE = '/app';
  const VENDOR = '/data_js';
  // Modules of Node and packages that cannot work here, by the missing facility.
  const ABSENT = {
    'the sandbox has no network': ['http', 'https', 'http2', 'net', 'tls', 'dns', 'dns/promises', 'dgram', 'node-fetch', 'axios', 'undici', 'got', 'ws', 'express', 'request'],
    'the sandbox has no child processes': ['child_process', 'cluster'],
    'the sandbox has no threads': ['worker_threads'],
    'it is not available in the sandbox': ['stream', 'stream/promises', 'readline', 'readline/promises', 'zlib', 'vm', 'v8', 'repl', 'inspector', 'async_hooks', 'diagnostics_channel', 'sqlite', 'wasi'],
  };
  const names = () => Object.keys(node).filter((name) => !name.includes('/'));
  const vendored = () => {
    try {
      return fs.readdirSync(VENDOR).filter((name) => name.endsWith('.js')).map((name) => name.slice(0, -3));
    } catch {
      return [];
    }
  };

  // Returns the known name that is most similar, or `undefined` if more than a third of the letters differ.
  const nearest = (name, known) => {
    const plain = name.slice(0, 64).toLowerCase();
    const { length } = plain;
    const rank = (other) => {
      let same = 0;
      while (same < length && other[same] === plain[same]) same++;
      return same >= 3 && same >= length * 2 / 3 ? 1 : distance(plain, other);
    };
    const [far, near] = known.map((other) => [rank(other), other]).reduce((best, next) => (next[0] < best[0] ? next : best), [length]);
    return far < length && far <= Math.max(1, length / 3) ? near : undefined;
  };

  const notFound = (name, parent) => {
    const bare = name.replace(/^node:/, '');
    let text = `Cannot find module '${name}'`;
    const reason = Object.keys(ABSENT).find((each) => ABSENT[each].includes(bare));
    const isPath = /^\.{0,2}\//.test(name);
    if (reason !== undefined) text += `: ${reason}; available modules: ${names().join(', ')}`;
    else if (!isPath) {
      const all = [...names(), ...vendored()];
      const near = nearest(bare, all);
      text += near === undefined ? `; available modules: ${all.join(', ')}` : `; did you mean '${near}'?`;
    }
    else {
      const directory = path.dirname(path.resolve(path.dirname(parent), name));
      const files = fs.existsSync(directory) ? fs.readdirSync(directory) : [];
      const near = nearest(path.basename(name), files);
      if (near !== undefined) text += `; the most similar name in '${directory}' is '${near}'`;
      else if (files.length === 0) text += `; '${directory}' is empty`;
      else text += `; '${directory}' contains ${files.slice(0, 10).join(', ')}${files.length > 10 ? ' and others' : ''}`;
    }
    return Object.assign(coded(Error, 'MODULE_NOT_FOUND', text), { requireStack: [parent] });
  };
  const isPath = (name) => /^(?:\.{0,2}\/|file:)/.test(name);
  const read = (file) => ($.sourceOf(file) ?? fs.readFileSync(file, 'utf8')).replace(/^\ufeff/, '');
  // Returns the interpreter's name of a file, which depends on the name of the running script.
  const nameOf = (file) => ($.entered().input.name.startsWith('/') || !file.startsWith(`${WORKSPACE}/`) ? file : file.slice(WORKSPACE.length + 1));
  const fileOf = (name, parent) => (name.startsWith('file:') ? node.url.fileURLToPath(name) : path.resolve(path.dirname(parent), name));
  // Returns the error for a package, or a path, that an import does not find.
  const notImported = (name, parent) => {
    const isFile = isPath(name);
    const hint = notFound(name, parent).message.slice(`Cannot find module '${name}'`.length);
    return coded(Error, 'ERR_MODULE_NOT_FOUND', `Cannot find ${isFile ? 'module' : 'package'} '${isFile ? fileOf(name, parent) : name}' imported from ${parent}${hint}`);
  };

  const wrap = (source, file) => {
    const body = source.startsWith('#!') ? `//${source}` : source;
    try {
      // No line break before the source, so that its lines keep their numbers.
      return compileAs(file, `(function (exports, require, module, __filename, __dirname) {${body}\n})`);
    } catch (error) {
      const hint = /^\s*(?:import\b[^(.]|export\b)/m.test(source) ? `; '${file}' is an ES module: use \`import\`, not \`require\`` : '';
      Object.defineProperty(error, 'message', { value: `${error.message}${hint}`, writable: true, configurable: true });
      throw error;
    }
  };

  const isFile = (file) => {
    if ($.sourceOf(file) !== undefined) return true;
    const [found, error] = $.os.stat(file);
    return error === 0 && (found.mode & $.os.S_IFMT) === $.os.S_IFREG;
  };
  const asFile = (file) => ['', '.js', '.json', '.cjs'].map((extension) => file + extension).find(isFile);
  const REQUIRED = ['node', 'require', 'default'];
  const IMPORTED = ['node', 'import', 'default'];
  // Returns the parsed `package.json` of a directory, or `undefined`.
  const aboutOf = (directory) => {
    const about = `${directory}/package.json`;
    if (!isFile(about)) return undefined;
    try {
      return Object(JSON.parse(fs.readFileSync(about, 'utf8')));
    } catch (error) {
      throw coded(Error, 'ERR_INVALID_PACKAGE_CONFIG', `Invalid package config ${about}: ${error.message}`);
    }
  };
  // The maximum depth of conditions in `exports`.
  const MOST_CONDITIONS = 16;
  // Returns the path that a value in `exports` selects under the conditions.
  const targetOf = (value, conditions, depth) => {
    if (typeof value === 'string') return value;
    if (typeof value !== 'object' || value === null || depth > MOST_CONDITIONS) return undefined;
    for (const key of Object.keys(value)) {
      if (!Array.isArray(value) && !conditions.includes(key)) continue;
      const found = targetOf(value[key], conditions, depth + 1);
      // In an array, the first valid path counts.
      if (found !== undefined && (!Array.isArray(value) || found.startsWith('./'))) return found;
    }
    return undefined;
  };
  // Returns the file that a package exports under a path such as `.` or `./part`.
  const exported = (directory, all, subpath, conditions) => {
    const isMap = typeof all === 'object' && !Array.isArray(all) && Object.keys(all).some((key) => key.startsWith('.'));
    const map = isMap ? all : { '.': all };
    let value = Object.hasOwn(map, subpath) && !subpath.includes('*') ? map[subpath] : undefined;
    let middle = '';
    if (value === undefined) {
      for (const key of Object.keys(map).sort((a, b) => b.indexOf('*') - a.indexOf('*'))) {
        const [before, after, more] = key.split('*');
        if (after === undefined || more !== undefined || subpath.length < key.length) continue;
        if (!subpath.startsWith(before) || !subpath.endsWith(after)) continue;
        value = map[key];
        middle = subpath.slice(before.length, subpath.length - after.length);
        break;
      }
    }
    const target = targetOf(value, conditions, 0)?.replaceAll('*', () => middle);
    if (target !== undefined && /^\.\/(?!.*(?:^|\/)(?:\.{1,2}|node_modules)(?:\/|$))/.test(target)) return path.resolve(directory, target);
    const what = subpath === '.' ? 'No "exports" main defined' : `Package subpath '${subpath}' is not defined by "exports"`;
    throw coded(Error, 'ERR_PACKAGE_PATH_NOT_EXPORTED', `${what} in ${directory}/package.json`);
  };
  // Returns the file of a package for a name such as `name`, `name/part` or `@scope/name`.
  const inPackages = (packages, name, conditions) => {
    const [, own, rest] = /^((?:@[^/]*\/)?[^/]*)(.*)$/s.exec(name);
    const directory = `${packages}/${own}`;
    const about = aboutOf(directory);
    const all = about?.exports;
    if (all !== undefined && all !== null) {
      const file = exported(directory, all, `.${rest}`, conditions);
      return isFile(file) ? file : undefined;
    }
    const whole = `${packages}/${name}`;
    if (conditions === IMPORTED && rest !== '') return isFile(whole) ? whole : undefined;
    return asFile(whole) ?? asDirectory(whole);
  };
  const asDirectory = (directory) => {
    const about = aboutOf(directory);
    if (about !== undefined) {
      const { main } = about;
      const found = typeof main === 'string' ? asFile(path.resolve(directory, main)) ?? asFile(path.resolve(directory, main, 'index')) : undefined;
      if (found !== undefined) return found;
    }
    return asFile(`${directory}/index`);
  };
  const locate = (name, parent, conditions = REQUIRED) => {
    const directory = path.dirname(parent);
    if (/^(?:\.{1,2}(?:\/|$)|\/)/.test(name)) {
      const whole = path.resolve(directory, name);
      return (name.endsWith('/') ? undefined : asFile(whole)) ?? asDirectory(whole);
    }
    for (let above = directory; ; above = path.dirname(above)) {
      const found = inPackages(`${above === '/' ? '' : above}/node_modules`, name, conditions);
      if (found !== undefined) return found;
      if (above === '/') break;
    }
    const package_ = `${VENDOR}/${name}.js`;
    return !name.includes('/') && isFile(package_) ? package_ : undefined;
  };

  const cache = { __proto__: null };
  // The image's preloaded packages that scripts have not required yet.
  const ready = { __proto__: null };
  function Module(id) {
    Object.assign(this, { id, path: path.dirname(id), filename: id, exports: {}, loaded: false, children: [], paths: [] });
  }
  const resolve = (name, parent, conditions) => {
    if (typeof name !== 'string') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "id" argument must be of type string. Received ${$.received(name)}`);
    if (name === '') throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', "The argument 'id' must be a non-empty string. Received ''");
    if (builtin(name) !== undefined) return name;
    const file = name.startsWith('node:') ? undefined : locate(name, parent, conditions);
    if (file === undefined) throw notFound(name, parent);
    return file;
  };
  const load = (file) => {
    const known = cache[file] ?? ready[file];
    if (known !== undefined) {
      delete ready[file];
      cache[file] = known;
      return known.exports;
    }
    const module = new Module(file);
    // Stored before it runs, so that a cyclic `require` returns the exports so far.
    cache[file] = module;
    let isDone = false;
    try {
      const source = read(file);
      if (file.endsWith('.json')) {
        try {
          module.exports = JSON.parse(source);
        } catch (error) {
          error.message = `${file}: ${error.message}`;
          throw error;
        }
      } else if (file.endsWith('.mjs')) throw coded(Error, 'ERR_REQUIRE_ESM', `'${file}' is an ES module: use \`import\`, not \`require\``);
      else wrap(source, file).call(module.exports, module.exports, makeRequire(file), module, file, module.path);
      isDone = true;
    } finally {
      if (!isDone) delete cache[file];
    }
    module.loaded = true;
    return module.exports;
  };
  const makeRequire = (parent) => {
    const require = (name) => (typeof name === 'string' ? builtin(name) : undefined) ?? load(resolve(name, parent));
    require.resolve = (name) => resolve(name, parent);
    require.cache = cache;
    require.extensions = {};
    require.main = mainModule();
    return require;
  };

  const requireVendor = (name) => {
    const file = `${VENDOR}/${name}.js`;
    if (typeof name === 'string' && !name.includes('/') && isFile(file)) return load(file);
    const known = vendored();
    const near = nearest(String(name), known);
    const there = known.length === 0 ? 'no packages are available' : near === undefined ? `available: ${known.join(', ')}` : `did you mean '${near}'? Available: ${known.join(', ')}`;
    throw coded(Error, 'MODULE_NOT_FOUND', `Vendored package not found: '${name}'; ${there}`);
  };

  node.module = Object.assign(Module, {
    builtinModules: [...Object.keys(node), 'module'],
    isBuiltin: (name) => builtin(name) !== undefined,
    createRequire: (file) => makeRequire(String(file).startsWith('file:') ? node.url.fileURLToPath(file) : path.resolve(String(file))),
  });
  Module.Module = Module;

  $.preloadPackages = (files) => {
    files.forEach(load);
    Object.assign(ready, cache);
    files.forEach((file) => delete cache[file]);
  };

  // The running script as a module.
  let main;
  let mainOf;
  const mainModule = () => {
    const file = $.mainFile();
    if (mainOf === file) return main;
    mainOf = file;
    main = Object.assign(new Module(file), { id: '.' });
    return main;
  };

  // Returns `import.meta` of a file.
  const metaOf = (file, isMain) => {
    const { URL, pathToFileURL } = node.url;
    const url = pathToFileURL(file).href;
    return {
      __proto__: null, dirname: path.dirname(file), filename: file, main: isMain, url,
      // As in Node, a path need not exist, and any name with a scheme is a URL.
      resolve(specifier) {
        const name = `${specifier}`;
        if (/^(?:\.{0,2}\/|\.{1,2}$)/.test(name)) return new URL(name, url).href;
        if (/^[a-z][a-z\d+.-]*:/i.test(name)) return new URL(name).href;
        if (builtin(name) !== undefined) return `node:${name}`;
        const found = locate(name, file, IMPORTED);
        if (found === undefined) throw notImported(name, file);
        return pathToFileURL(found).href;
      },
    };
  };
  // Returns `import.meta` of the running script.
  let meta;
  const importMeta = () => {
    const file = $.mainFile();
    if (meta?.filename !== file) meta = metaOf(file, true);
    return meta;
  };

  // Returns the interpreter's name of a module that a file imports. The interpreter resolves relative names from the
  // workspace.
  const importable = (name, parent) => {
    if (name.startsWith('file:')) return node.url.fileURLToPath(name);
    return /^\.{1,2}\//.test(name) ? nameOf(path.resolve(path.dirname(parent), name)) : name;
  };

  // Returns `true` if the error reports a module or an export that the interpreter did not find.
  const isImportError = (error) =>
    (error instanceof ReferenceError && error.message.startsWith('could not load module')) ||
    (error instanceof SyntaxError && error.message.startsWith("Could not find export '"));

  $.modules = { importable, isImportError, load, mainModule, makeRequire, meta: importMeta, metaOf, requireVendor, resolve, cache };
  $.files = { aboutOf, fileOf, isFile, isPath, locate, nameOf, notImported, read, conditions: IMPORTED };

  const FACADE = Symbol.for('glovebox.module');
  const made = new Set();
  // Returns the text of the module that `import` finds under a name. Returns an empty text for an unknown name, and for
  // a name whose text it has already returned.
  $.makeFacade = (name) => {
    if (made.has(name)) return '';
    made.add(name);
    const all = builtin(name);
    if (all === undefined) return '';
    // The interpreter also has a module `os`. Its additional exports are kept.
    const own = name === 'os' ? "export * from 'qjs:os';\n" : '';
    const names = Object.keys(all).filter((key) => /^[A-Za-z_]\w*$/.test(key) && key !== 'default');
    $.global(FACADE, all);
    return `${own}const m = globalThis[Symbol.for('${FACADE.description}')];\ndelete globalThis[Symbol.for('${FACADE.description}')];\nexport default m;\nexport const { ${names.join(', ')} } = m;`;
  };
}
