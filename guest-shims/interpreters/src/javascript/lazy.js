'use strict';
// Node's APIs. A lean image contains only the frequently used parts, and compiles a file of the library at `/data_js`
// when a script first uses it. Other images contain all files, which run while the image is prepared.
//
// All of this code runs inside the guest and shares nothing with the host. A script that breaks its assumptions affects
// only itself.
{
  const $ = $glovebox;
  const { bjson, std } = $;

  $.coded = (Type, code, message) => Object.assign(new Type(message), { code });
  const Failure = TypeError;
  // Returns Node's error for an argument, or a property, that must be a function.
  $.functionError = (name, value) => {
    const what = name.endsWith(' argument') ? name : `"${name}" ${name.includes('.') ? 'property' : 'argument'}`;
    return $.coded(Failure, 'ERR_INVALID_ARG_TYPE', `The ${what} must be of type function. Received ${$.received(value)}`);
  };

  // Compiles source text under a file name, which stack traces show. The interpreter gives code that scripts compile a
  // fixed name, so the file name is inserted into the compiled form.
  const UNNAMED = '<evalScript>';
  const asBytes = (text) => {
    const is8Bit = !/[^\0-\xff]/.test(text);
    const bytes = [];
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
    // Scripts never need the source of the image's own functions.
    const without = name.startsWith('glovebox:') ? bjson.WRITE_OBJ_STRIP_SOURCE : 0;
    const bytes = new Uint8Array(bjson.write(compiled, bjson.WRITE_OBJ_BYTECODE | without));
    const from = asBytes(UNNAMED);
    let at = bytes.indexOf(from[0]);
    while (at >= 0 && !from.every((byte, i) => bytes[at + i] === byte)) at = bytes.indexOf(from[0], at + 1);
    if (at < 0) return compiled;
    const to = asBytes(name);
    const made = new Uint8Array(bytes.length - from.length + to.length);
    made.set(bytes.subarray(0, at));
    made.set(to, at);
    made.set(bytes.subarray(at + from.length), at + to.length);
    // The checksum is in bytes 1 to 4, after the version. The interpreter does not check it if all its bits are set.
    made.fill(255, 1, 5);
    return bjson.read(made.buffer, 0, made.length, bjson.READ_OBJ_BYTECODE);
  };
  const compile = (source) => std.evalScript(source, { compile_only: true });
  // In the older build, `evalScript` removes the host's interrupt handler, so code compiled there stays without a name.
  const isOld = 'READ_OBJ_SAB' in bjson;
  const evaluate = eval;
  $.compileAs = (name, source) => {
    if (isOld) return evaluate(source);
    let compiled;
    try {
      compiled = compile(source);
    } catch (error) {
      $.text.setFrames(error, $.text.framesOf(error).replaceAll(UNNAMED, name).replace(/^.*\(native\)\n/m, ''));
      throw error;
    }
    return std.evalScript(renamed(compiled, name), { eval_function: true });
  };

  const { defineProperty: define } = Object;
  // Defines a property that is created on first read, and that can be set like any other.
  $.lazily = (object, name, get, enumerable = false) => {
    Object.defineProperty(object, name, {
      __proto__: null,
      get,
      // Works even if a script has changed `Object.prototype`.
      set(value) {
        define(object, name, { __proto__: null, value, writable: true, configurable: true, enumerable });
      },
      configurable: true,
      enumerable,
    });
  };

  const LIBRARY = '/data_js';
  const NODE = `${LIBRARY}/node/`;
  const loaded = new Set();
  // The library's files by path, while an image that contains the library is prepared.
  let sources = { __proto__: null };
  const load = (file) => {
    if (loaded.has(file)) return;
    const path = `${NODE}${file}.js`;
    const source = sources[path] ?? std.loadFile(path);
    if (source === null) throw new Error(`cannot read '${path}'`);
    loaded.add(file);
    $.compileAs(`glovebox:${file}`, `(function ($glovebox) {${source}\n})`)($);
  };

  $.sourceOf = (path) => sources[path];
  // Compiles and runs the library, given as JSON. Returns a description of the exception, if any.
  $.preload = (json) => {
    try {
      const all = JSON.parse(json);
      for (const path of Object.keys(all)) sources[`${LIBRARY}/${path}`] = all[path];
      const paths = Object.keys(sources);
      const isNode = (path) => path.startsWith(NODE);
      paths.filter(isNode).forEach((path) => load(path.slice(NODE.length, -'.js'.length)));
      $.preloadPackages(paths.filter((path) => !isNode(path)));
      sources = { __proto__: null };
      return '';
    } catch (error) {
      return `${error}\n${error?.stack}`;
    }
  };

  // The lazily loaded modules of `require` by name, with the files that define them.
  $.node = { __proto__: null };
  const MODULES = {
    assert: 'assert', 'assert/strict': 'assert', buffer: 'buffer', console: 'process', crypto: 'crypto', events: 'events', 'fs/promises': 'promises', module: 'modules', 'node:test': 'test',
    os: 'process', 'path/win32': 'windows', perf_hooks: 'process', process: 'process', querystring: 'url', string_decoder: 'buffer', timers: 'process', sys: 'util', tty: 'process',
    'timers/promises': 'process', url: 'url', util: 'util', 'util/types': 'util',
  };
  // Values that the boot scripts and the library share, with their files.
  const SHARED = { bigStats: 'fs', blobs: 'blob', codec: 'buffer', deepEqual: 'util', digests: 'digests', encoding: 'encoding', globPattern: 'glob', files: 'modules', hosts: 'hosts', imports: 'imports', legacy: 'legacy', localized: 'intl', makeFacade: 'modules', marks: 'performance', modules: 'modules', parseArgs: 'args', received: 'util', showResult: 'display' };
  const GLOBALS = {
    AbortController: 'events', AbortSignal: 'events', Blob: 'blob', BroadcastChannel: 'channels', Buffer: 'buffer', CustomEvent: 'events', Event: 'events', EventTarget: 'events', File: 'blob', MessageChannel: 'channels', MessageEvent: 'channels', MessagePort: 'channels', TextDecoder: 'encoding',
    Headers: 'fetch', Intl: 'intl', Request: 'fetch', Response: 'fetch', TextEncoder: 'encoding', URL: 'url', URLSearchParams: 'url', atob: 'encoding', btoa: 'encoding',
    crypto: 'crypto', display: 'display', fetch: 'fetch', process: 'process', structuredClone: 'clone',
  };
  for (const [object, files] of [[$.node, MODULES], [$, SHARED]]) {
    for (const name of Object.keys(files)) {
      $.lazily(object, name, () => {
        load(files[name]);
        return object[name];
      }, true);
    }
  }
  const MARKS = ['mark', 'measure', 'clearMarks', 'clearMeasures', 'getEntries', 'getEntriesByName', 'getEntriesByType', 'timerify'];
  for (const name of MARKS) $.lazily(performance, name, () => $.marks[name], true);
  const { global } = $;
  const provided = { __proto__: null };
  for (const name of Object.keys(GLOBALS)) {
    $.lazily(globalThis, name, () => {
      load(GLOBALS[name]);
      return provided[name];
    });
  }
  const getters = Object.fromEntries(Object.keys(GLOBALS).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name).get]));
  // Provides a global, unless the script has set it in the meantime.
  $.provide = (name, value) => {
    provided[name] = value;
    if (Object.getOwnPropertyDescriptor(globalThis, name)?.get === getters[name]) global(name, value);
  };

  // The methods that take a locale.
  const { uncurry } = $;
  const { prototype: numbers } = Number;
  const { prototype: bigints } = BigInt;
  const { prototype: dates } = Date;
  const [numberOf, bigintOf, timeOf] = [numbers.valueOf, bigints.valueOf, dates.getTime].map((method) => uncurry(method));
  const textOf = (value) => {
    if (value === undefined || value === null) throw new TypeError('a string method was called on null or undefined');
    return `${value}`;
  };
  const dated = (name) => (date, args) => {
    timeOf(date);
    return $.localized[name](date, ...args);
  };
  const [allOfDate, dateOnly, timeOnly] = ['date', 'dateOnly', 'timeOnly'].map(dated);
  const list = {
    toLocaleString(...args) {
      return $.localized.array(this, ...args);
    },
  };
  const METHODS = [
    [Array.prototype, list],
    [Object.getPrototypeOf(Uint8Array.prototype), list],
    [numbers, {
      toLocaleString(...args) {
        return $.localized.number(numberOf(this), ...args);
      },
    }],
    [bigints, {
      toLocaleString(...args) {
        return $.localized.number(bigintOf(this), ...args);
      },
    }],
    [dates, {
      toLocaleDateString(...args) {
        return dateOnly(this, args);
      },
      toLocaleString(...args) {
        return allOfDate(this, args);
      },
      toLocaleTimeString(...args) {
        return timeOnly(this, args);
      },
    }],
    [String.prototype, {
      localeCompare(that, ...args) {
        return $.localized.compare(textOf(this), that, ...args);
      },
      toLocaleLowerCase(...args) {
        return $.localized.lower(textOf(this), ...args);
      },
      toLocaleUpperCase(...args) {
        return $.localized.upper(textOf(this), ...args);
      },
    }],
  ];
  for (const [prototype, methods] of METHODS) {
    for (const name of Object.keys(methods)) define(prototype, name, { __proto__: null, value: methods[name], writable: true, configurable: true });
  }

  $.completeFs = () => load('fs');

  // The input and the environment of the current execution.
  let current = { input: { name: '<sandbox>', args: [] }, env: {} };
  $.entered = () => current;
  $.enter = (input, env) => {
    current = { input, env };
    if ($.entering !== undefined) $.entering();
  };
  // The file name of a script without a file, in the directory of the files that it may require.
  const IN_MEMORY = 'script.js';
  $.mainFile = () => {
    const { name } = current.input;
    return name.startsWith('/') ? name : `/app/${name.startsWith('<') ? IN_MEMORY : name}`;
  };
}
