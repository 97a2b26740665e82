// quickjs-emscripten in Node.js. Runs in the directory whose node_modules contains the package.
// usage: node quickjs_driver.mjs shared|module
//   shared    a new context for each script, all in the memory of one WebAssembly module, as in its documentation's first example
//   module    a new instance of the module for each script
import { createRequire } from "node:module";

import { serve } from "./serve.mjs";

const require = createRequire(`${process.cwd()}/`);
const { getQuickJS, newQuickJSWASMModule } = require("quickjs-emscripten");

const one = process.argv[2] === "shared" ? await getQuickJS() : undefined;

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

await serve({ open, run, close: (session) => session.context.dispose() });
