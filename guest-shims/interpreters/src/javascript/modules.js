'use strict';
// `require` and related functions. Modules of Node are looked up here; the library handles all other names.
{
  const $ = $glovebox;
  const { node } = $;
  const { defineProperty, deleteProperty } = Reflect;
  const Failure = Error;
  const Waiting = Promise;

  const builtin = (name) => {
    if (typeof name !== 'string') return undefined;
    const plain = name.startsWith('node:') ? name.slice(5) : name;
    return Object.hasOwn(node, plain) ? node[plain] : undefined;
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

  // Returns Node's error for a failed import.
  $.importError = (said, specifier, at) => {
    const { error, isNew } = $.modules.importError(said, specifier);
    if (isNew) $.text.setFrames(error, at);
    return error;
  };
  // Replaces `import.meta` in the running script. The files that it imports use the interpreter's own.
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
  // Returns whether the names, or the files that they name, may refer to packages or to files that are not ES modules.
  const needsPackages = (names) => {
    for (let i = 0; i < names.length; i++) {
      const name = names[i];
      if (name.endsWith('.cjs') || (!name.includes('/') && exists(`/data_js/${name}.js`))) return true;
    }
    let above = $.mainFile();
    while (above !== '') {
      above = above.slice(0, above.lastIndexOf('/'));
      if (exists(`${above}/node_modules`)) return true;
    }
    return false;
  };
  // The names that the running script imports in expressions, until the host has made their packages importable.
  let wanted = [];
  const packagesOf = (specifier) => new Waiting((resolve) => {
    if ($.wantPackages()) wanted = [];
    wanted[wanted.length] = { specifier, resolve };
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
    const all = isWaiting ? wanted.map(({ specifier }) => specifier) : declared;
    return (isWaiting || needsPackages(all)) && $.modules.survey(all);
  };
  // Returns the next package of a survey as its name and the text of its module, or nothing after the last one.
  // `failure` is the error of the package before.
  $.nextPackage = (failure) => {
    const next = $.modules.nextPackage(failure);
    if (next === '' && isWaiting) wanted.splice(0).forEach(({ resolve }) => resolve());
    return next;
  };

  // Replaces `import` in calls of the running script.
  const loads = async (name, options) => {
    const frames = $.text.framesOf(new Failure());
    const specifier = `${name}`;
    if (specifier === 'process' || specifier === 'node:process') {
      // The exports of `process` depend on the running script, so it is not a module of the image.
      return { __proto__: null, ...node.process, default: node.process };
    }
    if (builtin(specifier) === undefined && needsPackages([specifier])) await packagesOf(specifier);
    try {
      return await imported($.modules.importable(specifier), options);
    } catch (error) {
      throw $.modules.isImportError(error) ? $.importError(error.message, specifier, frames) : error;
    }
  };
  defineProperty(globalThis, '$loads', { __proto__: null, value: loads, configurable: true, writable: true, enumerable: false });

  // Lets the module of a session's imports bind their names once, as globals that read the module's variables.
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
