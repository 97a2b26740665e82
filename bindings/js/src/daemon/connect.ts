/// <reference types="node" />
// Finds the daemon of the current user.
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Backend, Host, Policy } from '../backend.ts';
import { errorOf } from '../errors.ts';
import { refuseHostAccess } from '../policy.ts';
import { openSandbox } from './backend.ts';
import { Client } from './client.ts';

/** Timeout for the daemon's first response, in milliseconds. A slower daemon is treated as absent. */
const CONNECT_MS = 500;
/** The version of the protocol that `GET /v1/info` must report. */
const PROTOCOL = 2;
const HINT = 'start one with `glovebox daemon`, and set GLOVEBOX_DAEMON_SOCKET to its socket';
const NO_HOST_ACCESS =
  'a daemon\'s sandboxes have no access to your directories, and use the daemon\'s own packages and network; remove it, or use backend: "native"';

/** Returns the path of the daemon's socket. */
export function place(): string {
  return process.env['GLOVEBOX_DAEMON_SOCKET'] || join(homedir(), '.rlm', 'daemon.sock');
}

/** Opens a sandbox in the daemon. Fails if no daemon answers or the daemon does not support the policy. */
export async function openDaemon(language: string, policy: Policy, host: Host): Promise<Backend> {
  refuseHostAccess(policy, NO_HOST_ACCESS);
  const path = place();
  const client = new Client(path);
  try {
    await checkProtocol(client, path);
    return await openSandbox(client, language, policy, host);
  } catch (error) {
    await client.close(error as Error, () => []);
    throw error;
  }
}

async function checkProtocol(client: Client, path: string): Promise<void> {
  let protocol: unknown;
  try {
    ({ protocol } = await client.json(['GET', '/v1/info'], undefined, CONNECT_MS));
  } catch (error) {
    let { message, cause } = error as Error;
    for (; cause instanceof Error; cause = cause.cause) message = cause.message;
    throw errorOf('UnavailableError', `no daemon responds at \`${path}\` (${message}); ${HINT}`, error);
  }
  if (protocol === PROTOCOL) return;
  const why = 'is not a daemon, or has another protocol version';
  throw errorOf('UnavailableError', `the server at \`${path}\` ${why}; stop it, and start \`glovebox daemon\` of this version`);
}
