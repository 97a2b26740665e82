// The Worker that runs the cases of Code Mode with the framework's own executor.
import { DynamicWorkerExecutor } from '@cloudflare/codemode';
import { RpcTarget } from 'cloudflare:workers';
import { casesOf } from './cases/codemode.ts';
import { inspectAll } from './cases/observe.ts';

type CallTool = (method: string, given: unknown) => Promise<unknown>;

/** A connector that the dynamic Worker calls over RPC. */
class Binding extends RpcTarget {
  readonly #callTool: CallTool;

  constructor(callTool: CallTool) {
    super();
    this.#callTool = callTool;
  }

  callTool(method: string, given: unknown): Promise<unknown> {
    return this.#callTool(method, given);
  }
}

export default {
  async fetch(_request: Request, env: { LOADER: WorkerLoader }): Promise<Response> {
    const create = (timeout: number) => new DynamicWorkerExecutor({ loader: env.LOADER, timeout });
    return new Response(await inspectAll(casesOf(create, (callTool) => new Binding(callTool))));
  },
};
