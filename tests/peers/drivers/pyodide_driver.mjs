// Pyodide in Node.js, with an instance for each session. Runs in the directory whose node_modules contains the package.
import { createRequire } from "node:module";

import { serve } from "./serve.mjs";

const require = createRequire(`${process.cwd()}/`);
const { loadPyodide } = require("pyodide");

async function open() {
  const session = { printed: "" };
  session.pyodide = await loadPyodide({ stdout: (line) => (session.printed += `${line}\n`) });
  return session;
}

async function run(session, code) {
  session.printed = "";
  await session.pyodide.runPythonAsync(code);
  return session.printed;
}

await serve({ open, run, close: () => {} });
