// Converts an execution of the contract to the engine's format: the keys of `glovebox run --json`.
import type { Execution, Outcome, Output, Raised, ToolRecord } from './contract.ts';

const TOOL_ERRORS: Record<string, string> = {
  failed: 'ToolError',
  limit: 'ToolLimit',
  timeout: 'ToolTimeout',
  'invalid-arguments': 'InvalidArguments',
  unknown: 'UnknownTool',
  denied: 'ToolDenied',
};

/** Returns `true` if the script ran to its end or exited with code 0. */
export function succeeded({ outcome }: Execution): boolean {
  return outcome.tag === 'completed' || (outcome.tag === 'exited' && outcome.val === 0);
}

/**
 * Returns a stream's output as text. Drops an incomplete character at the end of truncated output; other invalid UTF-8
 * becomes U+FFFD.
 */
export function textOf({ bytes, totalBytes }: Output): string {
  // With `stream: true`, the decoder holds back an incomplete character.
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: totalBytes > BigInt(bytes.length) });
}

/** Serializes an execution, except its displays, as JSON text. Copies the script's JSON unchanged. */
export function recordOf(execution: Execution): string {
  const { stdout, stderr, value } = execution;
  const record = {
    success: succeeded(execution),
    outcome: outcomeOf(execution.outcome),
    interrupted: execution.interrupted ? raisedOf(execution.interrupted) : null,
    value: null,
    stdout: textOf(stdout),
    stderr: textOf(stderr),
    stdout_truncated: stdout.totalBytes > stdout.retainedBytes,
    stderr_truncated: stderr.totalBytes > stderr.retainedBytes,
    displays: [],
    displays_dropped: Number(execution.displaysDropped),
    fuel_consumed: Number(execution.fuelConsumed),
    memory_used_bytes: Number(execution.memoryUsedBytes),
    duration_ms: Number(execution.durationNs) / 1e6,
    files_created: execution.filesCreated,
    files_modified: execution.filesModified,
    files_deleted: execution.filesDeleted,
    tool_calls: null,
    workspace_path: null,
    session_id: execution.sessionId ?? null,
    rolled_back_to: execution.rolledBackTo ? snake(execution.rolledBackTo) : null,
    guidance: snake(execution.guidance),
    metadata: snake(execution.metadata),
  };
  const texts: Record<string, string> = { tool_calls: `[${execution.toolCalls.map(toolCallText).join()}]` };
  if (value) texts['value'] = textOfObject({ repr: JSON.stringify(value.repr), ...(value.json !== undefined && { json: value.json }) });
  return textOfObject(Object.fromEntries(Object.entries(record).map(([name, field]) => [name, texts[name] ?? JSON.stringify(field)])));
}

/** Returns the JSON text of an object whose values are JSON texts. */
function textOfObject(texts: Record<string, string>): string {
  return `{${Object.entries(texts).map(([name, text]) => `"${name}":${text}`).join()}}`;
}

function raisedOf({ typeName, message, traceback, line }: Raised): object {
  return { type: typeName, message, traceback, line: line ?? null };
}

function outcomeOf(outcome: Outcome): object {
  switch (outcome.tag) {
    case 'exited':
      return { kind: 'exited', code: outcome.val };
    case 'raised':
      return { kind: 'raised', ...raisedOf(outcome.val) };
    case 'exhausted':
      return { kind: 'exhausted', ...(snake(outcome.val) as object) };
    case 'trapped':
      return { kind: 'trapped', trap: outcome.val };
    default:
      return { kind: outcome.tag };
  }
}

function toolCallText({ name, arguments: given, outcome, startedNs, durationNs }: ToolRecord): string {
  let error: object | null = null;
  if (outcome.tag === 'failed') error = { type: TOOL_ERRORS[outcome.val.kind] ?? outcome.val.kind, message: outcome.val.message ?? null };
  if (outcome.tag === 'unfinished') error = { type: 'Unfinished', message: 'the execution ended before the tool returned' };
  return textOfObject({
    name: JSON.stringify(name),
    arguments: given ?? 'null',
    result: (outcome.tag === 'returned' ? outcome.val : undefined) ?? 'null',
    error: JSON.stringify(error),
    started_ms: JSON.stringify(Number(startedNs) / 1e6),
    duration_ms: JSON.stringify(Number(durationNs) / 1e6),
  });
}

/** Converts a value's keys to snake case and its bigints to numbers, recursively. */
export function snake(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(snake);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, one]) => [key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), snake(one)]);
  return Object.fromEntries(entries);
}
