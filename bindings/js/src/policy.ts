// Policies in the format of the engine's policy files.
import type { Policy } from './backend.ts';
import { errorOf } from './errors.ts';

/** The backends that support tools whose calls wait for answers. */
const WITH_ENGINE = 'with backend: "native" or "daemon" outside browsers';

/**
 * Rejects tools whose calls wait for the caller's answer. Only the engine in this process and daemons support them.
 * `remedy` names them.
 */
export function refuseWaitingTools({ tools }: Policy, remedy = WITH_ENGINE): void {
  const waiting = tools.find(({ waits }) => waits);
  if (!waiting) return;
  throw errorOf('UnsupportedError', `tools: \`${waiting.name}\` has no \`execute\`; add one, or answer its calls with \`Sandbox.start\`, ${remedy}`);
}

/**
 * Rejects options that only the engine in this process supports. `reason` follows the option's name in the message.
 */
export function refuseHostAccess(policy: Policy, reason: string): void {
  const requested = {
    workspace: policy.workspace !== undefined,
    mounts: policy.mounts.length > 0,
    commit: policy.commit !== 'always',
    packages: policy.packages !== undefined,
    network: policy.network !== undefined,
  };
  for (const [name, isRequested] of Object.entries(requested)) if (isRequested) throw errorOf('UnsupportedError', `${name}: ${reason}`);
}

/** Converts a name to the snake case of policy files. */
export function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/**
 * Converts the parts of a policy that both the engine in this process and a daemon support. Omits default values: the
 * engine has the same defaults, and a daemon applies its own policy.
 */
export function policyRecord(policy: Policy): object {
  const limits = Object.entries(policy.limits).map(([name, value]) => [snake(name), value]);
  const session = {
    ...(policy.checkpoints !== undefined && {
      checkpoints: typeof policy.checkpoints === 'bigint' ? { every: policy.checkpoints } : policy.checkpoints,
    }),
    ...(policy.onUnwind && { on_unwind: policy.onUnwind }),
  };
  return {
    ...(limits.length > 0 && { limits: Object.fromEntries(limits) }),
    ...(Object.keys(session).length > 0 && { session }),
    ...(policy.env.length > 0 && { env: Object.fromEntries(policy.env) }),
    ...(policy.args.length > 0 && { args: policy.args }),
    ...(policy.autoPersistGlobals && { auto_persist_globals: true }),
    ...(policy.metering !== 'fuel' && { metering: policy.metering }),
    ...(policy.seed !== undefined && { entropy: { seeded: policy.seed } }),
    ...(policy.clockNs !== undefined && { clock: { fixed: policy.clockNs } }),
  };
}
