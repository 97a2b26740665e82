// The limits of the `run` package.

/** Limits on one execution. They are positive integers. */
export type RunLimits = { [Name in keyof typeof DEFAULTS]?: number };

/** The default limits of the package, except the sizes of the stack and of continuations. */
const DEFAULTS = {
  timeoutMs: 30_000,
  memoryLimitBytes: 64 << 20,
  maxStackSizeBytes: 2 << 20,
  maxResultBytes: 1 << 20,
  maxConsoleOutputBytes: 64 << 10,
  maxSourceBytes: 256 << 10,
  maxHostFunctionArgumentsBytes: 1 << 20,
  maxHostFunctionOutputBytes: 4 << 20,
  maxBridgeRequests: 256,
  maxInFlightBridgeRequests: 32,
};

const MAX_LIMIT = 2 ** 31 - 1;

/** Checks that a number is a positive integer. */
export function positive(name: string, value: number): number {
  if (!Number.isInteger(value) || value <= 0) throw new TypeError(`${name} must be a positive integer.`);
  if (value > MAX_LIMIT) throw new TypeError(`${name} must be at most ${MAX_LIMIT}.`);
  return value;
}

/** Merges limits with the defaults. Later arguments take precedence over earlier ones. */
export function limitsOf(...given: (RunLimits | undefined)[]): Record<keyof typeof DEFAULTS, number> {
  const limits = { ...DEFAULTS };
  for (const [name, value] of given.flatMap((each) => Object.entries(each ?? {}))) {
    if (name in DEFAULTS && value !== undefined) limits[name as keyof typeof DEFAULTS] = positive(`limits.${name}`, value);
  }
  return limits;
}
