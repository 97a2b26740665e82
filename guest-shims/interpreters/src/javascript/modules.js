'use strict';
// `require` and related functions. Looks up Node's built-in modules; `node/modules.js` resolves all other names.
{
  const $ = $glovebox;
  const { node } = $;
  const { defineProperty, deleteProperty } = Reflect;
  const Failure = Error;
  const Waiting = Promise;

  const builtin = (name) => {
    if (typeof name !== 'string') return undefined;
    const plain = name.startsWith('node:') ? name.slice(5) : name;
    if (Object.hasOwn(node, plain)) return node[plain];
    // `node:test` exists only under this name.
    return Object.hasOwn(node, name) ? node[name] : undefined;
  };
  const require = (name) => builtin(name) ?? $.modules.load($.modules.resolve(name, $.mainFile()));
  require.resolve = (name) => $.modules.resolve(name, $.mainFile());
  require.extensions = {};
  $.lazily(require, 'cache', () => $.modules.cache, true);
  $.lazily(require, 'main', () => $.modules.mainModule(), true);
  $.builtin = builtin;

  $.global('global', globalThis);
  $.global('require', require);
  $.global('requireVendor', { requireVendor: (name) => $.modules.requireVendor(name) }.requireVendor);
  $.lazily(globalThis, 'module', () => $.modules.mainModule());
  $.lazily(globalThis, 'exports', () => $.modules.mainModule().exports);
  $.lazily(globalThis, '__filename', () => $.mainFile());
  $.lazily(globalThis, '__dirname', () => node.path.dirname($.mainFile()));
  // Returns the text of the module that `import` finds under a name.
  $.facade = (name) => $.makeFacade(name);

  // Returns Node's error for a failed import in a file, by default the running script. `frames` are those of the import.
  $.importError = (said, specifier, frames, parent = $.mainFile()) => {
    const { at, error, isNew } = $.imports.importError(said, specifier, parent);
    if (isNew) $.text.setFrames(error, at ? `${at}\n${frames}` : frames);
    return error;
  };
  // Replaces `import.meta` in the running script.
  defineProperty(globalThis, '$importMeta', { __proto__: null, get: () => $.modules.meta(), configurable: true, enumerable: false });

  // Created from text, because the older build cannot parse `import` with a second argument.
  const imported = (() => {
    try {
      return Function('specifier', 'options', 'return import(specifier, options)');
    } catch {
      return Function('specifier', 'return import(specifier)');
    }
  })();
  const exists = (path) => $.os.stat(path)[1] === 0;
  const isFile = (path) => {
    const [found, error] = $.os.stat(path);
    return error === 0 && (found.mode & $.os.S_IFMT) === $.os.S_IFREG;
  };
  // Maximum number of files that are searched for special imports.
  const MOST_FILES = 1024;
  const SPECIFIER = /\b(?:from|import)\s*(['"])([^'"\n]+)\1/g;
  // Code that the interpreter's own loader runs differently from Node.
  const SPECIAL = /\bimport\s*[.(]|\bmodule\s*\.\s*exports\b|\bexports\s*[.[]|['"](?:node:)?process['"]/;
  // Returns `true` if the host may have to create modules for imports of a file, or of the files that it imports: for
  // packages, for files that are not ES modules, and for files with special code.
  const needsPackages = (names, parent) => {
    const files = new Set();
    const isSpecial = (name, from) => {
      if (/^(?:file:|\/)/.test(name) || name.endsWith('.cjs')) return true;
      if (!/^\.{0,2}\//.test(name)) return !name.includes('/') && exists(`/data_js/${name}.js`);
      if (files.size < MOST_FILES) files.add(node.path.resolve(node.path.dirname(from), name));
      return false;
    };
    if (names.some((name) => isSpecial(name, parent))) return true;
    let above = parent;
    while (above !== '') {
      above = above.slice(0, above.lastIndexOf('/'));
      if (exists(`${above}/node_modules`)) return true;
    }
    for (const file of files) {
      const text = isFile(file) ? $.std.loadFile(file) : null;
      if (text === null) continue;
      if (SPECIAL.test(text) || Array.from(text.matchAll(SPECIFIER)).some(([, , name]) => isSpecial(name, file))) return true;
    }
    return false;
  };
  // The `import()` expressions that wait until the host has made their packages importable.
  let wanted = [];
  const packagesOf = (specifier, parent) => new Waiting((resolve) => {
    if ($.wantPackages()) wanted = [];
    wanted[wanted.length] = { parent, specifier, resolve };
  });
  // The names of the running script's import declarations.
  let declared = [];
  $.declaredImports = () => declared;
  // Collects the packages that imports need. `names` are the declared names, separated by line feeds. Without `names`,
  // collects the packages for the expressions that wait.
  let isWaiting = false;
  $.survey = (names) => {
    isWaiting = names === undefined;
    if (!isWaiting) declared = names.split('\n');
    if (isWaiting) return $.imports.survey(wanted.map(({ parent, specifier }) => ({ parent, names: [specifier] })));
    const parent = $.mainFile();
    return needsPackages(declared, parent) && $.imports.survey([{ parent, names: declared }]);
  };
  // Returns the next package that `survey` found, as its name and the text of its module, or an empty text after the last
  // one. `failure` is the error of the previous package.
  $.nextPackage = (failure) => {
    const next = $.imports.nextPackage(failure);
    if (next === '' && isWaiting) wanted.splice(0).forEach(({ resolve }) => resolve());
    return next;
  };

  // Returns the function that replaces `import()` in a file, by default in the running script.
  const loader = (file) => async (name, options) => {
    const frames = $.text.framesOf(new Failure());
    const specifier = `${name}`;
    const parent = file ?? $.mainFile();
    if (specifier === 'process' || specifier === 'node:process') {
      // The exports of `process` depend on the running script, so it is not a module of the image.
      return { __proto__: null, ...node.process, default: node.process };
    }
    if (builtin(specifier) === undefined && needsPackages([specifier], parent)) await packagesOf(specifier, parent);
    try {
      return await imported($.modules.importable(specifier, parent), options);
    } catch (error) {
      throw $.modules.isImportError(error) ? $.importError(error.message, specifier, frames, parent) : error;
    }
  };
  const loads = loader();
  // Returns the values that replace `import.meta` and `import()` in a file that the script imports.
  loads.of = (file) => ({ $importMeta: $.modules.metaOf(file, false), $loads: loader(file) });
  defineProperty(globalThis, '$loads', { __proto__: null, value: loads, configurable: true, writable: true, enumerable: false });

  // Lets the module with a session's imports define their names once, as globals that read the module's variables.
  const BINDER = 'glovebox.imports';
  $.expectImports = (lexicals) => {
    const bind = (pairs) => {
      deleteProperty(globalThis, BINDER);
      for (let i = 0; i < pairs.length; i++) {
        const name = pairs[i][0];
        const get = pairs[i][1];
        const set = (value) => $.global(name, value);
        // A `var` property cannot be redefined, only set.
        if (!defineProperty(globalThis, name, { __proto__: null, get, set, enumerable: false, configurable: true })) {
          defineProperty(globalThis, name, { __proto__: null, value: get() });
        }
        deleteProperty(lexicals, name);
      }
    };
    defineProperty(globalThis, BINDER, { __proto__: null, value: bind, configurable: true });
  };
}
