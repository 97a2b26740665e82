import type * as Exports from '../../contract/interfaces/glovebox-sandbox-sandbox.js';

/** The exports of a provider's instance: `glovebox:sandbox/sandbox`. */
export type Instance = typeof Exports;

/** The imports of an instance, by interface name without a version. */
export type Imports = Record<string, unknown>;

/** A compiled provider, from which instances are created. */
export interface Provider {
  /** Creates an instance that shares nothing with other instances. */
  instantiate(imports: Imports): Promise<Instance>;
}

/** The module that jco generates for a provider: `providers/NAME/component.js`. */
export interface ProviderModule {
  instantiate(
    compile: (path: string) => Promise<WebAssembly.Module>,
    imports: Imports,
  ): Promise<{ sandbox: unknown }> | { sandbox: unknown };
}

/**
 * Creates a provider from its module and the WebAssembly files next to it. `compile` loads and compiles a file by name:
 * it fetches the file in a browser, or reads it from disk in Node.js (`loadProvider`). Each file is compiled once.
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
 * A provider whose WebAssembly was compiled ahead of time, for platforms that cannot compile at run time (workerd, Edge
 * Functions): the default export of `glovebox-sandbox/providers/NAME/modules.js`.
 */
export interface ProviderModules {
  /** The JavaScript module that jco generated. */
  component: ProviderModule;
  /** The WebAssembly modules, by the names that the JavaScript module uses. */
  compiled: Record<string, WebAssembly.Module>;
}
