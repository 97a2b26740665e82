'use strict';
// `require`: the modules of `node/`, files of the workspace, vendored packages. And `requireVendor`.
{
  const $ = globalThis.$glovebox;
  const { bjson, coded, node, std } = $;
  const { fs, path } = node;

  const VENDOR = '/data_js';
  // Modules of Node that cannot be here, by what they would need.
  const ABSENT = {
    'there is no network in the sandbox': ['http', 'https', 'http2', 'net', 'tls', 'dns', 'dns/promises', 'dgram', 'node-fetch', 'axios', 'undici', 'got', 'ws', 'express', 'request'],
    'there are no other processes in the sandbox': ['child_process', 'cluster'],
    'there are no threads in the sandbox': ['worker_threads'],
    'the sandbox does not have it': ['stream', 'stream/promises', 'readline', 'readline/promises', 'zlib', 'vm', 'v8', 'repl', 'tty', 'inspector', 'async_hooks', 'diagnostics_channel', 'test', 'sqlite', 'wasi'],
  };
  const names = () => Object.keys(node).filter((name) => !name.includes('/'));
  const vendored = () => {
    try {
      return fs.readdirSync(VENDOR).filter((name) => name.endsWith('.js')).map((name) => name.slice(0, -3));
    } catch {
      return [];
    }
  };

  // How many letters must change.
  const distance = (a, b) => {
    let row = Array.from({ length: b.length + 1 }, (_, j) => j);
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let j = 1; j <= b.length; j++) next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
      row = next;
    }
    return row[b.length];
  };
  const nearest = (name, known) => {
    const plain = name.slice(0, 64).toLowerCase();
    const rank = (other) => (other.startsWith(plain) || plain.startsWith(other) ? Math.min(1, distance(plain, other)) : distance(plain, other));
    return [...known].sort((a, b) => rank(a) - rank(b))[0];
  };

  const notFound = (name, parent) => {
    const bare = name.replace(/^node:/, '');
    let text = `Cannot find module '${name}'`;
    const reason = Object.keys(ABSENT).find((each) => ABSENT[each].includes(bare));
    const isPath = /^\.{0,2}\//.test(name);
    if (reason !== undefined) text += `: ${reason}; it has ${names().join(', ')}`;
    else if (!isPath) text += `; the nearest there is: '${nearest(bare, [...names(), ...vendored()])}'`;
    else {
      const directory = path.dirname(path.resolve(path.dirname(parent), name));
      const files = fs.existsSync(directory) ? fs.readdirSync(directory) : [];
      text += files.length > 0 ? `; the nearest in '${directory}': '${nearest(path.basename(name), files)}'` : `; '${directory}' has no files`;
    }
    return Object.assign(coded(Error, 'MODULE_NOT_FOUND', text), { requireStack: [parent] });
  };

  // Compiles text as the body of a function under a file's name, for traces. The interpreter names what it compiles for
  // scripts itself, so the name is put into the compiled form.
  const UNNAMED = '<evalScript>';
  const asBytes = (text) => {
    const is8Bit = !/[^\0-\xff]/.test(text);
    const bytes = is8Bit ? [] : [];
    for (let i = 0; i < text.length; i++) {
      bytes.push(text.charCodeAt(i) & 255);
      if (!is8Bit) bytes.push(text.charCodeAt(i) >> 8);
    }
    const head = [];
    let length = text.length * 2 + (is8Bit ? 0 : 1);
    for (; length > 127; length >>>= 7) head.push((length & 127) | 128);
    return [...head, length, ...bytes];
  };
  const renamed = (compiled, name) => {
    const bytes = new Uint8Array(bjson.write(compiled, bjson.WRITE_OBJ_BYTECODE));
    const from = asBytes(UNNAMED);
    let at = 0;
    while (at < bytes.length && !from.every((byte, i) => bytes[at + i] === byte)) at++;
    if (at === bytes.length) return compiled;
    const made = Uint8Array.from([...bytes.subarray(0, at), ...asBytes(name), ...bytes.subarray(at + from.length)]);
    // Later builds have a checksum behind the version; all ones stand for none.
    if (HAS_CHECKSUM) made.fill(255, 1, 5);
    return bjson.read(made.buffer, 0, made.length, bjson.READ_OBJ_BYTECODE);
  };
  const compile = (source) => std.evalScript(source, { compile_only: true });
  const HAS_CHECKSUM = new Uint8Array(bjson.write(compile('0'), bjson.WRITE_OBJ_BYTECODE))[0] >= 24;
  const wrap = (source, file) => {
    const body = source.startsWith('#!') ? `//${source}` : source;
    let compiled;
    try {
      // No line break before the source: its lines keep their numbers.
      compiled = compile(`(function (exports, require, module, __filename, __dirname) {${body}\n})`);
    } catch (error) {
      const stack = String(error.stack).replaceAll(UNNAMED, file);
      const hint = /^\s*(?:import\b[^(.]|export\b)/m.test(source) ? `; '${file}' is an ES module: use \`import\`, not \`require\`` : '';
      Object.defineProperty(error, 'message', { value: `${error.message}${hint}`, writable: true, configurable: true });
      Object.defineProperty(error, 'stack', { value: stack, writable: true, configurable: true });
      throw error;
    }
    return std.evalScript(renamed(compiled, file), { eval_function: true });
  };

  const isFile = (file) => {
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
  function Module(id) {
    Object.assign(this, { id, path: path.dirname(id), filename: id, exports: {}, loaded: false, children: [], paths: [] });
  }
  const builtin = (name) => {
    const bare = name.startsWith('node:') ? name.slice(5) : name;
    return Object.hasOwn(node, bare) ? node[bare] : undefined;
  };
  const resolve = (name, parent) => {
    if (typeof name !== 'string') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "id" argument must be of type string. Received ${$.received(name)}`);
    if (name === '') throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', "The argument 'id' must be a non-empty string. Received ''");
    if (builtin(name) !== undefined) return name;
    const file = name.startsWith('node:') ? undefined : locate(name, parent);
    if (file === undefined) throw notFound(name, parent);
    return file;
  };
  const load = (file) => {
    const known = cache[file];
    if (known !== undefined) return known.exports;
    const module = new Module(file);
    // Before it runs: a cycle gets what there is so far.
    cache[file] = module;
    let isDone = false;
    try {
      const source = fs.readFileSync(file, 'utf8').replace(/^\ufeff/, '');
      if (file.endsWith('.json')) {
        try {
          module.exports = JSON.parse(source);
        } catch (error) {
          error.message = `${file}: ${error.message}`;
          throw error;
        }
      } else if (file.endsWith('.mjs')) throw coded(Error, 'ERR_REQUIRE_ESM', `'${file}' is an ES module: use \`import\`, not \`require\``);
      else wrap(source, file).call(module.exports, module.exports, makeRequire(file, module), module, file, module.path);
      isDone = true;
    } finally {
      if (!isDone) delete cache[file];
    }
    module.loaded = true;
    return module.exports;
  };
  const makeRequire = (parent, module) => {
    const require = (name) => (typeof name === 'string' ? builtin(name) : undefined) ?? load(resolve(name, parent));
    return Object.assign(require, { resolve: (name) => resolve(name, parent), cache, main: globalThis.module, extensions: {} });
  };

  const requireVendor = (name) => {
    const file = `${VENDOR}/${name}.js`;
    if (typeof name === 'string' && !name.includes('/') && isFile(file)) return load(file);
    const known = vendored();
    throw coded(Error, 'MODULE_NOT_FOUND', known.length === 0
      ? `Vendored package not found: '${name}'; there are none here`
      : `Vendored package not found: '${name}'; the nearest is '${nearest(String(name), known)}', of ${known.join(', ')}`);
  };

  node.module = Object.assign(Module, {
    builtinModules: Object.keys(node),
    isBuiltin: (name) => builtin(name) !== undefined,
    createRequire: (file) => makeRequire(String(file).startsWith('file:') ? node.url.fileURLToPath(file) : path.resolve(String(file))),
  });
  Module.Module = Module;

  // What the running script is, as a module.
  const main = (name) => {
    const file = path.resolve('/app', name);
    const module = new Module(file);
    module.id = '.';
    $.global('module', module);
    $.global('exports', module.exports);
    $.global('require', makeRequire(file));
    $.global('__filename', file);
    $.global('__dirname', path.dirname(file));
  };
  const { enter } = $;
  $.enter = (input, env) => {
    enter(input, env);
    main(input.name);
  };
  $.global('requireVendor', requireVendor);

  // The text of the module that `import` finds under a name.
  $.facade = (name) => {
    // `os` is the interpreter's module too: what only that has, it keeps.
    const own = name === 'os' ? "export * from 'qjs:os';\n" : '';
    const taken = name === 'os' ? Object.keys($.os) : [];
    const keys = Object.keys(node[name]).filter((key) => /^[A-Za-z_]\w*$/.test(key) && key !== 'default' && !taken.includes(key));
    return `${own}const m = $glovebox.node['${name}'];\nexport default m;\nexport const { ${keys.join(', ')} } = m;`;
  };
  $.facades = Object.keys(node).join('\n');
}
