'use strict';
// `require` for names that are not modules of Node: files of the workspace, vendored packages, missing names.
{
  const $ = $glovebox;
  const { builtin, coded, compileAs, node } = $;
  const { fs, path } = node;
  $.completeFs();

  const WORKSPACE = '/app';
  const VENDOR = '/data_js';
  // Modules of Node that cannot exist here, by the missing facility.
  const ABSENT = {
    'there is no network in the sandbox': ['http', 'https', 'http2', 'net', 'tls', 'dns', 'dns/promises', 'dgram', 'node-fetch', 'axios', 'undici', 'got', 'ws', 'express', 'request'],
    'there are no other processes in the sandbox': ['child_process', 'cluster'],
    'there are no threads in the sandbox': ['worker_threads'],
    'the sandbox does not have it': ['stream', 'stream/promises', 'readline', 'readline/promises', 'zlib', 'vm', 'v8', 'repl', 'inspector', 'async_hooks', 'diagnostics_channel', 'test', 'sqlite', 'wasi'],
  };
  const names = () => Object.keys(node).filter((name) => !name.includes('/'));
  const vendored = () => {
    try {
      return fs.readdirSync(VENDOR).filter((name) => name.endsWith('.js')).map((name) => name.slice(0, -3));
    } catch {
      return [];
    }
  };

  // The number of letters that must change.
  const distance = (a, b) => {
    let row = Array.from({ length: b.length + 1 }, (_, j) => j);
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let j = 1; j <= b.length; j++) next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
      row = next;
    }
    return row[b.length];
  };
  // The most likely meaning of a name. None if a third of its letters or more differ, unless it has the same beginning.
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
    if (reason !== undefined) text += `: ${reason}; it has ${names().join(', ')}`;
    else if (!isPath) {
      const all = [...names(), ...vendored()];
      const near = nearest(bare, all);
      text += near === undefined ? `; there are ${all.join(', ')}` : `; the nearest there is: '${near}'`;
    }
    else {
      const directory = path.dirname(path.resolve(path.dirname(parent), name));
      const files = fs.existsSync(directory) ? fs.readdirSync(directory) : [];
      const near = nearest(path.basename(name), files);
      if (near !== undefined) text += `; the nearest in '${directory}': '${near}'`;
      else if (files.length === 0) text += `; '${directory}' has no files`;
      else text += `; '${directory}' has ${files.slice(0, 10).join(', ')}${files.length > 10 ? ' and others' : ''}`;
    }
    return Object.assign(coded(Error, 'MODULE_NOT_FOUND', text), { requireStack: [parent] });
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
  const asDirectory = (directory) => {
    const about = `${directory}/package.json`;
    if (isFile(about)) {
      const { main } = JSON.parse(fs.readFileSync(about, 'utf8'));
      const found = typeof main === 'string' ? asFile(path.resolve(directory, main)) ?? asFile(path.resolve(directory, main, 'index')) : undefined;
      if (found !== undefined) return found;
    }
    return asFile(`${directory}/index`);
  };
  const locate = (name, parent) => {
    const directory = path.dirname(parent);
    if (/^(?:\.{1,2}(?:\/|$)|\/)/.test(name)) {
      const whole = path.resolve(directory, name);
      return (name.endsWith('/') ? undefined : asFile(whole)) ?? asDirectory(whole);
    }
    for (let above = directory; ; above = path.dirname(above)) {
      const whole = `${above === '/' ? '' : above}/node_modules/${name}`;
      const found = asFile(whole) ?? asDirectory(whole);
      if (found !== undefined) return found;
      if (above === '/') break;
    }
    const package_ = `${VENDOR}/${name}.js`;
    return !name.includes('/') && isFile(package_) ? package_ : undefined;
  };

  const cache = { __proto__: null };
  // The modules that the image was made with, until their first use.
  const ready = { __proto__: null };
  function Module(id) {
    Object.assign(this, { id, path: path.dirname(id), filename: id, exports: {}, loaded: false, children: [], paths: [] });
  }
  const resolve = (name, parent) => {
    if (typeof name !== 'string') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "id" argument must be of type string. Received ${$.received(name)}`);
    if (name === '') throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', "The argument 'id' must be a non-empty string. Received ''");
    if (builtin(name) !== undefined) return name;
    const file = name.startsWith('node:') ? undefined : locate(name, parent);
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
    // Before it runs, so that a cycle gets the exports so far.
    cache[file] = module;
    let isDone = false;
    try {
      const source = ($.sourceOf(file) ?? fs.readFileSync(file, 'utf8')).replace(/^\ufeff/, '');
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
    const there = known.length === 0 ? 'there are none here' : near === undefined ? `there are ${known.join(', ')}` : `the nearest is '${near}', of ${known.join(', ')}`;
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

  // `import.meta` of the running script.
  let meta;
  const metaOf = (file) => {
    const { URL, pathToFileURL } = node.url;
    const url = pathToFileURL(file).href;
    return {
      __proto__: null, dirname: path.dirname(file), filename: file, main: true, url,
      resolve(name) {
        if (/^\.{0,2}\//.test(name)) return new URL(name, url).href;
        if (builtin(name) !== undefined) return name.startsWith('node:') ? name : `node:${name}`;
        return /^[a-z]+:/.test(name) ? new URL(name).href : pathToFileURL(resolve(name, file)).href;
      },
    };
  };
  const importMeta = () => {
    const file = $.mainFile();
    if (meta?.filename !== file) meta = metaOf(file);
    return meta;
  };

  // Returns the module of a name in the running script. For the interpreter, all names are relative to the workspace.
  const importable = (name) => {
    if (name.startsWith('file:')) return node.url.fileURLToPath(name);
    const directory = path.dirname($.mainFile());
    if (!/^\.{1,2}\//.test(name) || directory === WORKSPACE) return name;
    return `./${path.relative(WORKSPACE, path.resolve(directory, name))}`;
  };

  // Returns whether the interpreter found no module, or no export.
  const isImportError = (error) =>
    (error instanceof ReferenceError && error.message.startsWith('could not load module')) ||
    (error instanceof SyntaxError && error.message.startsWith("Could not find export '"));

  // Converts the interpreter's message about a failed import to Node's error.
  const importError = (said, specifier) => {
    const parent = $.mainFile();
    const absent = /^Could not find export '(.*)' in module '/.exec(said);
    if (absent !== null) return new SyntaxError(`The requested module '${specifier}' does not provide an export named '${absent[1]}'`);
    if (specifier.startsWith('node:')) return coded(Error, 'ERR_UNKNOWN_BUILTIN_MODULE', `No such built-in module: ${specifier}`);
    const isPath = /^\.{0,2}\//.test(specifier);
    const kind = isPath ? 'module' : 'package';
    const shown = isPath ? path.resolve(path.dirname(parent), specifier) : specifier;
    const hint = notFound(specifier, parent).message.slice(`Cannot find module '${specifier}'`.length);
    return coded(Error, 'ERR_MODULE_NOT_FOUND', `Cannot find ${kind} '${shown}' imported from ${parent}${hint}`);
  };
  $.modules = { importError, importable, isImportError, load, mainModule, makeRequire, meta: importMeta, requireVendor, resolve, cache };

  // Returns the text of the module that `import` finds under a name. Created once.
  const FACADE = Symbol.for('glovebox.module');
  const made = new Set();
  $.makeFacade = (name) => {
    if (made.has(name)) return '';
    made.add(name);
    const plain = name.startsWith('node:') ? name.slice(5) : name;
    const all = node[plain];
    if (all === undefined) return '';
    // `os` is also a module of the interpreter, whose additional exports it keeps.
    const own = name === 'os' ? "export * from 'qjs:os';\n" : '';
    const names = Object.keys(all).filter((key) => /^[A-Za-z_]\w*$/.test(key) && key !== 'default');
    $.global(FACADE, all);
    return `${own}const m = globalThis[Symbol.for('${FACADE.description}')];\ndelete globalThis[Symbol.for('${FACADE.description}')];\nexport default m;\nexport const { ${names.join(', ')} } = m;`;
  };
}
