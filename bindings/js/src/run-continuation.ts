/// <reference types="node" />
// Continuations of the `run` package: signed records of the results that an interrupted execution received.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { RunProtocolError } from './run-errors.ts';

/** The recorded result of a call to a host function. Arguments, results and payloads are JSON text. */
export type Recorded = { name: string; args: string } & (
  | { status: 'fulfilled'; value: string }
  | { status: 'rejected'; message: string; code?: string | undefined }
  | { status: 'interrupted'; id: string; payload: string }
);

/** Everything that a script received before it was interrupted. */
export interface ContinuationState {
  version: 1;
  logicalRunId: string;
  /** The digest of the source, the functions, the audience and the caller's context. */
  scope: string;
  seed: string;
  clockNs: string;
  calls: (Recorded | null)[];
}

/** A codec that converts states to tokens and back. */
export interface ContinuationCodec<Token = string> {
  encode(state: ContinuationState): Token | Promise<Token>;
  /** Fails if the token is invalid. */
  decode(token: Token): ContinuationState | Promise<ContinuationState>;
}

export interface SignedContinuationCodecOptions {
  /** The signing key, at least 32 bytes. */
  secret: string | Uint8Array;
  /** Earlier keys, which are still accepted for tokens. */
  verificationSecrets?: readonly (string | Uint8Array)[];
  /** The age at which a token expires, in milliseconds. Default: 24 hours. */
  maxAgeMs?: number;
}

const DAY_MS = 86_400_000;
const MIN_SECRET_BYTES = 32;

function keyOf(secret: string | Uint8Array): Buffer {
  const key = Buffer.from(secret as string);
  if (key.length < MIN_SECRET_BYTES) throw new TypeError(`the secret is ${key.length} bytes long; use at least ${MIN_SECRET_BYTES} bytes`);
  return key;
}

/** Returns a codec whose tokens are signed, but not encrypted. A token can be used several times. */
export function createSignedContinuationCodec({ secret, verificationSecrets = [], maxAgeMs = DAY_MS }: SignedContinuationCodecOptions): ContinuationCodec {
  const [key, ...earlier] = [secret, ...verificationSecrets].map(keyOf) as [Buffer, ...Buffer[]];
  const sign = (text: string, by = key): string => createHmac('sha256', by).update(text).digest('base64url');
  const isSigned = (text: string, signature: string, by: Buffer): boolean => {
    const [given, expected] = [Buffer.from(signature), Buffer.from(sign(text, by))];
    return given.length === expected.length && timingSafeEqual(given, expected);
  };
  return {
    encode(state) {
      const text = Buffer.from(JSON.stringify({ state, issuedMs: Date.now() })).toString('base64url');
      return `${text}.${sign(text)}`;
    },
    decode(token) {
      const [text = '', signature = ''] = String(token).split('.');
      if (![key, ...earlier].some((each) => isSigned(text, signature, each))) throw new RunProtocolError('The continuation is invalid.');
      const { state, issuedMs } = JSON.parse(Buffer.from(text, 'base64url').toString()) as { state: ContinuationState; issuedMs: number };
      if (Date.now() - issuedMs > maxAgeMs) throw new RunProtocolError('The continuation has expired.');
      return state;
    },
  };
}

/** Returns the state of an execution that has not begun. */
export function newState(scope: string): ContinuationState {
  const [seed, logicalRunId] = [randomBytes(8).readBigUInt64LE().toString(), crypto.randomUUID()];
  return { version: 1, logicalRunId, scope, seed, clockNs: String(BigInt(Date.now()) * 1_000_000n), calls: [] };
}
