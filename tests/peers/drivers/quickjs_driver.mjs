// quickjs-emscripten in Node.js; speaks what serve.py speaks. It runs in the directory whose node_modules has the package.
// usage: node quickjs_driver.mjs shared|module
//   shared    a new context for each script, all in the memory of one WebAssembly module: what its documentation begins with
//   module    an instance of the module for each
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.cwd()}/`);
const { getQuickJS, newQuickJSWASMModule } = require("quickjs-emscripten");

// As in serve.py.
const MAX_CALLS = 200;
const WARM_UP_BELOW_MS = 10;

const shared = process.argv[2] === "shared";
const one = shared ? await getQuickJS() : undefined;

async function open() {
  const context = (one ?? (await newQuickJSWASMModule())).newContext();
  const session = { context, printed: "" };
  const log = context.newFunction("log", (...values) => {
    session.printed += `${values.map((value) => context.dump(value)).join(" ")}\n`;
  });
  const console = context.newObject();
  context.setProp(console, "log", log);
  context.setProp(context.global, "console", console);
  log.dispose();
  console.dispose();
  return session;
}

function run(session, code) {
  session.printed = "";
  session.context.unwrapResult(session.context.evalCode(code)).dispose();
  return session.printed;
}

async function fresh(code) {
  const session = await open();
  const printed = run(session, code);
  session.context.dispose();
  return printed;
}

async function turn(call, budgetMs) {
  const ms = [];
  const answers = [];
  const begun = performance.now();
  while (ms.length === 0 || (performance.now() - begun < budgetMs && ms.length < MAX_CALLS)) {
    const before = performance.now();
    const answer = await call();
    ms.push(performance.now() - before);
    answers.push(answer.trim());
  }
  if (ms.length > 1 && ms[0] < WARM_UP_BELOW_MS) ms.shift();
  return { ms, answers };
}

async function answer(request) {
  if (request.do === "fresh") return turn(() => fresh(request.code), request.budget_ms);
  if (request.do !== "live" && request.do !== "work") throw new Error(`there is no measure \`${request.do}\``);
  const session = await open();
  if (request.do === "live") run(session, request.setup);
  const result = await turn(() => run(session, request.code), request.budget_ms);
  session.context.dispose();
  return result;
}

for await (const line of createInterface({ input: process.stdin })) {
  let result;
  try {
    result = await answer(JSON.parse(line));
  } catch (error) {
    result = { error: `${error.name}: ${error.message}` };
  }
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
