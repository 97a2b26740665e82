/// <reference types="node" />
// Results of executions in other processes, which arrive as JSON.
import type { Entry, BackendExecution, BackendDisplay, ShownValue } from './backend.ts';
import { isText } from './displays.ts';
import { stringifyParsedJson } from './json.ts';

/** The methods that read the workspace's files after an execution. */
export type ExecutionFiles = Pick<BackendExecution, 'listFiles' | 'readFile'>;

/** Decodes base64. */
export function decoded(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'base64'));
}

/** Encodes bytes in the JSON form that both processes accept. */
export function encoded(bytes: Uint8Array): { base64: string } {
  return { base64: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64') };
}

/** Converts a variable's value from JSON. */
export function shownValue(shown: any): ShownValue {
  return { repr: shown.repr, ...('value' in shown && { json: stringifyParsedJson(shown.value) }) };
}

/**
 * Waits until a session is closed. Ignores the error if the session is already closed or the other process has ended.
 */
export async function closed(closing: Promise<unknown>): Promise<void> {
  try {
    await closing;
  } catch (error) {
    if (!['SessionError', 'SessionLostError', 'UnavailableError'].includes((error as Error).name)) throw error;
  }
}

/** The fields of a record that `glovebox run --json` does not print. */
const UNREPORTED = ['error', 'files', 'files_left_out', 'file_entries', 'stdout_base64', 'stderr_base64'];

/** The result of an execution in another process. */
export class RecordExecution implements BackendExecution {
  readonly #record: any;
  readonly #files: ExecutionFiles;

  constructor(record: any, files: ExecutionFiles) {
    this.#record = record;
    this.#files = files;
  }

  get ok(): boolean {
    return this.#record.success;
  }

  get stdout(): string {
    return this.#record.stdout;
  }

  get stderr(): string {
    return this.#record.stderr;
  }

  get stdoutBytes(): Uint8Array {
    return this.#output('stdout');
  }

  get stderrBytes(): Uint8Array {
    return this.#output('stderr');
  }

  #output(name: string): Uint8Array {
    // A record contains output as base64 only if it is not UTF-8.
    const base64: string | undefined = this.#record[`${name}_base64`] ?? undefined;
    return base64 === undefined ? new TextEncoder().encode(this.#record[name]) : decoded(base64);
  }

  get fuelConsumed(): bigint {
    return BigInt(this.#record.fuel_consumed);
  }

  get value(): ShownValue | undefined {
    const value = this.#record.value;
    return value ? { repr: value.repr, ...('json' in value && { json: stringifyParsedJson(value.json) }) } : undefined;
  }

  get displays(): readonly BackendDisplay[] {
    return this.#record.displays.map((shown: any) => ({
      isResult: shown.is_result,
      forms: Object.entries<string>(shown.data).map(([type, data]) => [type, isText(type) ? new TextEncoder().encode(data) : decoded(data)]),
    }));
  }

  json(): string {
    const record = { ...this.#record, displays: [] };
    for (const name of UNREPORTED) delete record[name];
    return stringifyParsedJson(record);
  }

  listFiles(pattern: string): Promise<Entry[]> {
    return this.#files.listFiles(pattern);
  }

  readFile(path: string): Promise<Uint8Array> {
    return this.#files.readFile(path);
  }
}

/** The result of a cancelled execution that has no result of its own, for example because it had not started. */
export const WITHOUT_RESULT = {
  success: false,
  outcome: { kind: 'cancelled' },
  exit_code: 130,
  interrupted: null,
  value: null,
  stdout: '',
  stderr: '',
  stdout_truncated: false,
  stderr_truncated: false,
  displays: [],
  displays_dropped: 0,
  fuel_consumed: 0,
  memory_used_bytes: 0,
  duration_ms: 0,
  files_created: [],
  files_modified: [],
  files_deleted: [],
  tool_calls: [],
  workspace_path: null,
  session_id: null,
  rolled_back_to: null,
  guidance: { fuel: { used: 0, limit: 0, utilization_percent: 0, status: 'efficient', suggested_limit: null, likely_causes: [] }, advice: [] },
  metadata: {},
};
