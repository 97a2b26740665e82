/// <reference types="node" />
// Finds the daemon of the current user.
import { stat } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Backend, Host, Policy } from '../backend.ts';
import { errorOf } from '../errors.ts';
import { answersOf, openRemote, refuseRemote } from './backend.ts';
import { Connection } from './rpc.ts';

/** Timeout for the connection to the daemon, in milliseconds. A slower daemon is treated as absent. */
const CONNECT_MS = 500;
const HINT = 'start one with `glovebox daemon`, and set GLOVEBOX_DAEMON_SOCKET to its socket';

/** Returns the path of the daemon's socket. */
export function place(platform: string = process.platform): string {
  const given = process.env['GLOVEBOX_DAEMON_SOCKET'];
  if (given) return given;
  return platform === 'win32' ? '\\\\.\\pipe\\rlm-daemon' : join(homedir(), '.rlm', 'daemon.sock');
}

/** Opens a sandbox in the daemon. Fails if no daemon answers or the daemon does not support the policy. */
export async function openDaemon(language: string, policy: Policy, host: Host): Promise<Backend> {
  refuseRemote(policy);
  const path = place();
  try {
    // A socket created by another user is not trusted.
    if (process.geteuid && (await stat(path)).uid !== process.geteuid()) throw new Error('the socket belongs to another user');
    const socket = await new Promise<ReturnType<typeof connectSocket>>((resolve, reject) => {
      const made = connectSocket(path);
      const late = setTimeout(() => made.destroy(new Error('the connection timed out')), CONNECT_MS);
      made.once('error', reject);
      made.once('connect', () => {
        clearTimeout(late);
        made.off('error', reject);
        resolve(made);
      });
    });
    const hold = (isHeld: boolean): void => void (isHeld ? socket.ref() : socket.unref());
    const streams = { input: socket, output: socket, hold, close: () => void socket.destroy() };
    const connection = new Connection(streams, answersOf(policy, host));
    try {
      const pong = await connection.call('ping', {}, { timeoutMs: CONNECT_MS });
      if (pong?.protocol !== 1) throw new Error('the server is not a daemon of this version');
    } catch (error) {
      connection.close(error as Error);
      throw error;
    }
    return await openRemote(connection, language, policy);
  } catch (error) {
    if (['PolicyError', 'UnsupportedError', 'SessionError'].includes((error as Error).name)) throw error;
    throw errorOf('UnavailableError', `no daemon responds at \`${path}\` (${(error as Error).message}); ${HINT}`, error);
  }
}
