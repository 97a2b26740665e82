// A small agent: it lets a model's scripts run in the sandbox, and shows all that can become of one.
//
// It is a component, made by componentize-js for the world `command` of `wit/`: the imports below are the contract's interfaces.
//
// What the bindings make of the contract:
// * a record is an object with names in camelCase, where what has a default may be left out; a list of bytes is a Uint8Array;
// * a case of a variant is `{ tag: 'exited', val: 3 }`, an enum's is a string, and a 64-bit number is a BigInt;
// * a function that can fail throws, with the case of `sandbox-error` as the error's `payload`;
// * a resource is an object of a class. `using` drops it at the end of the block; without that, only the garbage collector does, late or
//   never.

import { Blob, Session, execute, info, start, validate } from 'glovebox:sandbox/sandbox@0.2.0';

const python = { tag: 'python' };
const javascript = { tag: 'javascript' };

/** The default policy but for these limits. It can ask for less than the host grants, and for no more. */
const policy = (limits) => ({ limits });

const text = (bytes) => new TextDecoder().decode(bytes);

/** What became of a script. None of these is an error: the sandbox did what it was asked to. */
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

/** Prints a file, which is read piece by piece: it may be larger than one call gives. */
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

// What a model might answer to "add up the prices": each answer is tried, and what is wrong with it goes back to the model.
const answers = [
  "total = sum(item['price'] for item in context",
  'total = sum(item.price for item in context)',
  `\
total = sum(item['price'] for item in context)
with open('total.txt', 'w') as file:
    file.write(str(total))
total`,
];

/** The loop of an agent: look at the script, run it, and go on until one does what it should. */
function work(session) {
  for (const [turn, source] of answers.entries()) {
    // The language's own parser, which runs nothing.
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

/** A session keeps variables and files, and its states can be forked, undone, and saved as bytes. */
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

/** Every way in which a script can end, each in an interpreter of its own. */
function outcomes() {
  const endings = [
    [javascript, { source: "console.log('hello from javascript')" }, {}],
    [python, { source: 'raise SystemExit(3)' }, {}],
    [python, { source: "int('twelve')" }, {}],
    [python, { source: 'while True: pass' }, policy({ fuel: 50_000_000n })],
    // Cancelled after a tenth of a second.
    [python, { source: 'import time\ntime.sleep(60)', deadlineMs: 100n }, {}],
    // The hash of nested tuples goes deeper than the interpreter's native stack.
    [python, { source: 't = ()\nfor _ in range(100000): t = (t,)\nhash(t)' }, {}],
  ];
  for (const [runtime, request, limits] of endings) {
    console.log(`outcome: ${described(execute(runtime, request, limits))}`);
  }
}

// A tool of this program's own, and a script that calls it.
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

/** A script that this program answers: it runs until it needs a tool, waits, and goes on with the answer. */
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

/** Calls what must be refused, and prints why: an error is the host's or the caller's, never the script's. */
function refused(call) {
  let error;
  try {
    call();
  } catch (thrown) {
    // Whatever is no error of the sandbox's is one of this program's.
    if (thrown.payload === undefined) throw thrown;
    error = thrown.payload;
  }
  if (error === undefined) throw new Error('this must be refused');
  const details = {
    'source-too-large': ({ bytes, limit }) => `, ${bytes} bytes of at most ${limit}`,
    'stdin-too-large': ({ bytes, limit }) => `, ${bytes} bytes of at most ${limit}`,
    file: ({ kind }) => `, ${kind}`,
  };
  // The others have a text: `error.val`.
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

  // One execution at a time: until the one that was started has ended, the session has time for nothing else.
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

// What `wasi:cli/run` calls. To throw is to fail, without a word: the host then exits with 1.
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
