'use strict';
// `require` and related functions. Modules of Node are looked up here; the library handles all other names.
{
  const $ = $glovebox;
  const { node } = $;
  const { defineProperty, deleteProperty } = Reflect;
  const Failure = Error;

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
    const error = $.modules.importError(said, specifier);
    $.text.setFrames(error, at);
    return error;
  };
  // Replaces `import.meta` in the running script. The files that it imports use the interpreter's own.
  defineProperty(globalThis, '$importMeta', { __proto__: null, get: () => $.modules.meta(), configurable: true, enumerable: false });

  // Not as an expression, because the older build supports no second argument.
  const imported = (() => {
    try {
      return Function('specifier', 'options', 'return import(specifier, options)');
    } catch {
      return Function('specifier', 'return import(specifier)');
    }
  })();
  // Replaces `import` in calls of the running script.
  const loads = async (name, options) => {
    const frames = $.text.framesOf(new Failure());
    const specifier = `${name}`;
    if (specifier === 'process' || specifier === 'node:process') {
      // Its variables are those of the running script, so this is not a module of the image.
      return { __proto__: null, ...node.process, default: node.process };
    }
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
        // A property of `var` can only be set.
        if (!defineProperty(globalThis, name, { __proto__: null, get, set, enumerable: false, configurable: true })) {
          defineProperty(globalThis, name, { __proto__: null, value: get() });
        }
        deleteProperty(lexicals, name);
      }
    };
    defineProperty(globalThis, BINDER, { __proto__: null, value: bind, configurable: true });
  };
}
