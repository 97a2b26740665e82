/**
 * Runs untrusted Python and JavaScript in WebAssembly, with limits on fuel, time, memory, output and files.
 *
 * The module uses no Node.js API. It runs on every platform that supports WebAssembly with exceptions and multiple
 * memories. `glovebox-sandbox/component/node` finds the providers in the package.
 */
export { ToolDenied } from '../errors.ts';
export type * from './contract.ts';
export { InstanceLostError, SandboxError } from './errors.ts';
export { type Instance, type Provider, type ProviderModule, providerOf } from './provider.ts';
export { textOf } from './record.ts';
export { type OpenOptions, type RunOptions, type Sandbox, type SandboxOptions, createSandbox } from './sandbox.ts';
export type { Session } from './session.ts';
export type { Tool } from './tools.ts';
