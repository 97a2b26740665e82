// A small agent that runs a model's scripts in the sandbox and shows every possible outcome.
//
// The program is a component, built by componentize-js for the world `command` of `wit/`. The imports below are the
// contract's interfaces.
//
// The bindings represent the contract as follows:
// * a record is an object with camelCase names, whose optional fields may be omitted; a list of bytes is a Uint8Array;
// * a variant's case is `{ tag: 'exited', val: 3 }`, an enum's case is a string, and a 64-bit number is a BigInt;
// * a function that can fail throws an error whose `payload` is the case of `sandbox-error`;
// * a resource is an object of a class. `using` drops the resource at the end of the block. Otherwise only the garbage
//   collector drops it, late or never.

import { Blob, Session, execute, info, start, validate } from 'glovebox:sandbox/sandbox@0.2.0';

const python = { tag: 'python' };
const javascript = { tag: 'javascript' };

/** Returns the default policy with these limits. A policy can only request less than the host grants. */
const policy = (limits) => ({ limits });

const text = (bytes) => new TextDecoder().decode(bytes);

/** Describes a script's result. No outcome is an error: the sandbox worked as intended. */
function described({ outcome, value, stdout }) {
  const words = {
    completed: () => 'completed',
    exited: (code) => `exited with ${code}`,
    raised: ({ typeName, message, line }) => `raised ${typeName}: ${message} (line ${line})`,
    exhausted: ({ resource, limit }) => `exhausted ${resource}, limit ${limit}`,
    cancelled: () => 'cancelled',
    trapped: (kind) => `trapped, ${kind}`,
  };
  let described = words[outcome.tag](outcome.val);
  if (value) described += `, value ${value.repr}`;
  if (stdout.bytes.length > 0) described += `, wrote: ${text(stdout.bytes).trim()}`;
  return described;
}

/** Prints a file in chunks, because it may be larger than one call returns. */
function showFile(files, path) {
  const pieces = [];
  let size = 0;
  for (;;) {
    const piece = files.read(path, BigInt(size), 65_536n);
    if (piece.length === 0) break;
    pieces.push(text(piece));
    size += piece.length;
  }
  console.log(`file: ${path} (${size} bytes): ${pieces.join('')}`);
}

// A model's possible answers to "add up the prices". Each answer is tried, and its problem is reported back to the
// model.
const answers = [
  "total = sum(item['price'] for item in context",
  'total = sum(item.price for item in context)',
  `\
total = sum(item['price'] for item in context)
with open('total.txt', 'w') as file:
    file.write(str(total))
total`,
];

/** The loop of an agent: validates and runs each script until one succeeds. */
function work(session) {
  for (const [turn, source] of answers.entries()) {
    // Uses the language's own parser, which runs nothing.
    const [first] = validate(python, { source }, {});
    if (first) {
      const { line, column, message } = first;
      console.log(`turn ${turn + 1}: not well-formed, line ${line}, column ${column}: ${message}`);
      continue;
    }
    const execution = session.execute({ source });
    console.log(`turn ${turn + 1}: ${described(execution)}`);
    if (execution.outcome.tag === 'completed') break;
  }
  using files = session.files();
  showFile(files, 'total.txt');
}

const total = (session) => session.getVariable('total').json;

/** Keeps variables and files in a session, and forks, undoes and saves its state. */
function keep(session) {
  using copy = session.fork();
  copy.execute({ source: 'total += 100' });
  console.log(`fork: ${total(copy)} in the copy, ${total(session)} in the original`);

  session.execute({ source: 'total = 0' });
  const before = total(session);
  session.undo();
  console.log(`undo: ${before} before, ${total(session)} after`);

  using state = session.hibernate();
  using resumed = Session.resume(python, state, {}, {});
  console.log(`resume: ${total(resumed)}`);
}

/** Shows every way in which a script can end. Each script runs in a new interpreter. */
function outcomes() {
  const endings = [
    [javascript, { source: "console.log('hello from javascript')" }, {}],
    [python, { source: 'raise SystemExit(3)' }, {}],
    [python, { source: "int('twelve')" }, {}],
    [python, { source: 'while True: pass' }, policy({ fuel: 50_000_000n })],
    // Cancelled after a tenth of a second.
    [python, { source: 'import time\ntime.sleep(60)', deadlineMs: 100n }, {}],
    // Hashing nested tuples exceeds the interpreter's native stack.
    [python, { source: 't = ()\nfor _ in range(400000): t = (t,)\nhash(t)' }, {}],
  ];
  for (const [runtime, request, limits] of endings) {
    console.log(`outcome: ${described(execute(runtime, request, limits))}`);
  }
}

// A tool of this program, and a script that calls it.
const remember = {
  name: 'remember',
  description: 'Keeps a fact, and says how many there are.',
  argumentsSchema: '{"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]}',
};
const notes = `\
kept = [tools.remember(fact=fact) for fact in ('tea costs 3', 'milk costs 2')]
try:
    tools.remember(fact='one too many')
except tools.ToolError as error:
    print('refused:', error)
open('notes.txt', 'w').write(str(kept))
`;

/**
 * Runs a script whose tool calls this program answers: the script runs until it needs a tool, waits, and continues with
 * the answer.
 */
function step() {
  const notebook = [];
  const answer = ({ id, name, arguments: given }) => {
    console.log(`tool: ${name} ${given}`);
    if (notebook.length === 2) {
      return { id, answer: { tag: 'err', val: { kind: 'failed', message: 'the notebook is full' } } };
    }
    notebook.push(JSON.parse(given).fact);
    return { id, answer: { tag: 'ok', val: JSON.stringify(notebook.length) } };
  };
  using started = start(python, { source: notes }, {}, [remember]);
  let step = started.continue([], 1_000n);
  while (step.tag !== 'done') {
    const answers = step.tag === 'needs-tools' ? step.val.map(answer) : [];
    step = started.continue(answers, 1_000n);
  }
  console.log(`steps: ${described(step.val)}`);
  using files = started.files();
  showFile(files, 'notes.txt');
}

/**
 * Makes a call that must be refused, and prints the reason. An error is a fault of the host or the caller, never of the
 * script.
 */
function refused(call) {
  let error;
  try {
    call();
  } catch (thrown) {
    // An error without a payload is a bug in this program.
    if (thrown.payload === undefined) throw thrown;
    error = thrown.payload;
  }
  if (error === undefined) throw new Error('the sandbox accepted an invalid call');
  const details = {
    'source-too-large': ({ bytes, limit }) => `, ${bytes} bytes of at most ${limit}`,
    'stdin-too-large': ({ bytes, limit }) => `, ${bytes} bytes of at most ${limit}`,
    file: ({ kind }) => `, ${kind}`,
  };
  // The other cases carry a message: `error.val`.
  const detail = details[error.tag] ?? (() => '');
  console.log(`error: ${error.tag}${detail(error.val)}`);
}

function errors(session) {
  refused(() => execute({ tag: 'named', val: 'cobol' }, { source: '' }, {}));
  refused(() => execute(python, { source: '' }, policy({ fuel: 0n })));
  refused(() => execute(python, { source: 'print(1 + 1)' }, policy({ sourceBytes: 8n })));
  refused(() => execute(python, { source: '', stdin: new TextEncoder().encode('abc') }, policy({ stdinBytes: 2n })));
  refused(() => start(python, { source: '' }, {}, [{ name: 'no name', description: '' }]));
  using state = new Blob();
  state.append(new TextEncoder().encode('no session'));
  refused(() => Session.resume(python, state, {}, {}));
  refused(() => session.undoTo(1_000_000n));
  using files = session.files();
  refused(() => files.stat('missing.txt'));

  // A session runs one execution at a time. Until the started execution has ended, the session refuses other calls.
  using started = session.start({ source: 'import time\ntime.sleep(60)' });
  refused(() => session.execute({ source: '' }));
  started.cancel();
  let step;
  do step = started.continue([]);
  while (step.tag !== 'done');
  console.log(`outcome: ${described(step.val)}`);
  refused(() => started.files());

  session.close();
  refused(() => session.execute({ source: '' }));
}

// Called as `wasi:cli/run`. A thrown error makes the host exit with 1, without a message.
export const run = {
  run() {
    try {
      main();
    } catch (error) {
      console.error(error.payload?.tag ?? error, error.payload?.val ?? error.stack);
      throw error;
    }
  },
};

function main() {
  const languages = new Set(info().runtimes.map(({ language }) => language));
  console.log(`runtimes: ${[...languages].join(', ')}`);
  using session = Session.open(python, {}, { context: '[{"price": 5}, {"price": 7}]' });
  work(session);
  keep(session);
  outcomes();
  step();
  errors(session);
}
