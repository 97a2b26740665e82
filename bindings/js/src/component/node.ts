/// <reference types="node" />
/** The component API for Node.js, which finds the providers by name. */
import { readFile } from 'node:fs/promises';
import { createSandbox as createSandboxOf } from './sandbox.ts';
import type { Sandbox, SandboxOptions } from './sandbox.ts';
import { type Provider, type ProviderModule, providerOf } from './provider.ts';

export * from './index.ts';

/**
 * The providers in the package. `glovebox` supports both languages. The closed providers have no clock, no tools and no
 * imports.
 */
export type ProviderName =
  | 'glovebox'
  | 'glovebox-python'
  | 'glovebox-javascript'
  | 'glovebox-closed'
  | 'glovebox-python-closed'
  | 'glovebox-javascript-closed';

/** Loads a provider from the package. Each provider is compiled once: later calls return the same object. */
export function loadProvider(name: ProviderName): Promise<Provider> {
  const known = loaded.get(name);
  if (known) return known;
  const provider = load(new URL(`../../providers/${name}/`, import.meta.url));
  loaded.set(name, provider);
  return provider;
}

const loaded = new Map<ProviderName, Promise<Provider>>();

async function load(directory: URL): Promise<Provider> {
  const module = (await import(new URL('component.js', directory).href)) as ProviderModule;
  return providerOf(module, async (path) => WebAssembly.compile(await readFile(new URL(path, directory))));
}

/** Creates a sandbox from a provider, or from the name of a provider in the package. */
export async function createSandbox(provider: ProviderName | Provider, options: SandboxOptions = {}): Promise<Sandbox> {
  return createSandboxOf(typeof provider === 'string' ? await loadProvider(provider) : provider, options);
}
