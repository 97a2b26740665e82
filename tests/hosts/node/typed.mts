// Uses the provider through the types that jco generates: `node typed.mts` prints the lines that a test expects, and
// `tsc` checks the program against the declarations. The tools that scripts call are functions in this program.
import { load } from './load.mjs';
import type { ImportObject, Root } from '../../programs-node/glovebox/component.js';
import type { Outcome, Policy, Runtime, SandboxError } from '../../programs-node/glovebox/interfaces/glovebox-sandbox-types.js';

type Tools = ImportObject['glovebox:sandbox/tools@0.2.0'];

const tools: Tools = {
  listTools: () => [{ name: 'double', description: 'Twice a number.' }],
  call: (name: string, text: string) => {
    if (name !== 'double') throw { kind: 'unknown', message: `there is no ${name}` };
    return JSON.stringify(2 * JSON.parse(text).x);
  },
};

const instantiate = await load<Root>(new URL('../../programs-node/glovebox', import.meta.url).pathname);
// The modules look the import up by its name without a version, unlike the declarations.
const { sandbox } = await instantiate({ 'glovebox:sandbox/tools': tools });

const policy: Policy = { limits: { fuel: 2_000_000_000n }, clock: { tag: 'fixed', val: 0n }, entropy: { tag: 'seeded', val: 1n } };
const text = new TextDecoder();
const kindOf = (outcome: Outcome): string => (outcome.tag === 'raised' ? `raised ${outcome.val.typeName}` : outcome.tag);

const scripts: [Runtime, string][] = [
  [{ tag: 'python' }, 'print(sum(range(101)))'],
  [{ tag: 'python' }, 'print(tools.double(x=21))'],
  [{ tag: 'javascript' }, 'console.log([1, 2, 3].map((x) => x * x).join())'],
  [{ tag: 'javascript' }, 'throw new TypeError("no")'],
  [{ tag: 'javascript' }, 'for (;;);'],
];
for (const [runtime, source] of scripts) {
  const run = sandbox.execute(runtime, { source }, policy);
  console.log(runtime.tag, kindOf(run.outcome), text.decode(run.stdout.bytes).trim());
}

const found = sandbox.validate({ tag: 'python' }, { source: 'print(' }, policy);
console.log('validate', found.map(({ line, column }) => `${line}:${column}`).join());

const session = sandbox.Session.open({ tag: 'javascript' }, policy, {});
session.execute({ source: 'var x = 20' });
const fork = session.fork();
session.setVariable('x', '1');
console.log('session', session.getVariable('x')?.repr, fork.execute({ source: 'x + 1' }).value?.repr);

try {
  sandbox.execute({ tag: 'named', val: 'cobol' }, { source: '' }, policy);
} catch (error) {
  console.log('error', (error as SandboxError).tag);
}
