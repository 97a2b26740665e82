'use strict';
// `require` and what belongs to it. Modules of Node are looked up here, all else is the library's.
{
  const $ = $glovebox;
  const { node } = $;

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
  // The text of the module that `import` finds under a name.
  $.facade = (name) => $.makeFacade(name);
}
