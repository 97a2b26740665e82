import type * as Exports from '../../contract/interfaces/glovebox-sandbox-sandbox.js';

/** What a provider's instance exports: `glovebox:sandbox/sandbox`. */
export type Instance = typeof Exports;

/** What an instance is given, by the names of interfaces without their versions. */
export type Imports = Record<string, unknown>;

/** A compiled provider, of which instances are made. */
export interface Provider {
  /** Makes an instance, which shares nothing with any other. */
  instantiate(imports: Imports): Promise<Instance>;
}

/** The module that jco makes of a provider: `providers/NAME/component.js`. */
export interface ProviderModule {
  instantiate(
    compile: (path: string) => Promise<WebAssembly.Module>,
    imports: Imports,
  ): Promise<{ sandbox: unknown }> | { sandbox: unknown };
}

/**
 * A provider of its module and of the WebAssembly beside it, which `compile` finds by name: with `fetch` in a browser, and from files
 * in Node.js (`loadProvider`). Each is compiled once.
 */
export function providerOf(module: ProviderModule, compile: (path: string) => Promise<WebAssembly.Module>): Provider {
  const compiled = new Map<string, Promise<WebAssembly.Module>>();
  const once = (path: string): Promise<WebAssembly.Module> => {
    const known = compiled.get(path);
    if (known) return known;
    const made = compile(path);
    compiled.set(path, made);
    return made;
  };
  return {
    async instantiate(imports) {
      const { sandbox } = await module.instantiate(once, imports);
      return sandbox as Instance;
    },
  };
}

/**
 * A provider whose WebAssembly is compiled ahead, as places have it that compile none at run time (workerd, Edge Functions): the default
 * export of `glovebox-sandbox/providers/NAME/modules.js`.
 */
export interface ProviderModules {
  /** The module that jco made. */
  component: ProviderModule;
  /** The WebAssembly, by the names that the module has for it. */
  compiled: Record<string, WebAssembly.Module>;
}
