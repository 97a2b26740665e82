// The code shared by the JavaScript drivers, with the protocol of serve.py.
import { createInterface } from "node:readline";

// The same values as in serve.py.
const MAX_CALLS = 200;
const WARM_UP_BELOW_MS = 10;

/** Runs an agent's commands in a new session, as `agent` in serve.py does. */
async function agent(peer, start, commands) {
  const begun = performance.now();
  const session = await peer.open();
  const printed = [];
  for (const code of [start, ...commands]) printed.push((await peer.run(session, code)).trim());
  const tookMs = performance.now() - begun;
  peer.close(session);
  return { tookMs, answer: `${printed[0]} ${printed.at(-1)}` };
}

/**
 * Repeats a call until the time budget is exhausted. A call that measures only a part of its work returns that time and
 * the answer.
 */
async function turn(call, budgetMs) {
  const ms = [];
  const answers = [];
  const begun = performance.now();
  while (ms.length === 0 || (performance.now() - begun < budgetMs && ms.length < MAX_CALLS)) {
    const before = performance.now();
    const result = await call();
    const { tookMs, answer } = typeof result === "string" ? { tookMs: performance.now() - before, answer: result } : result;
    ms.push(tookMs);
    answers.push(answer.trim());
  }
  if (ms.length > 1 && ms[0] < WARM_UP_BELOW_MS) ms.shift();
  return { ms, answers };
}

async function answer(peer, request) {
  if (request.do === "fresh") {
    const fresh = async () => {
      const session = await peer.open();
      const printed = await peer.run(session, request.code);
      peer.close(session);
      return printed;
    };
    return turn(fresh, request.budget_ms);
  }
  if (request.do === "agent") return turn(() => agent(peer, request.code, request.commands), request.budget_ms);
  if (request.do !== "live" && request.do !== "work") throw new Error(`unknown measure \`${request.do}\``);
  const session = await peer.open();
  if (request.do === "live") await peer.run(session, request.setup);
  const result = await turn(() => peer.run(session, request.code), request.budget_ms);
  peer.close(session);
  return result;
}

/**
 * Answers requests until standard input ends. A peer has the functions `open()`, `run(session, code)` and
 * `close(session)`. `run` returns the output.
 */
export async function serve(peer) {
  for await (const line of createInterface({ input: process.stdin })) {
    let result;
    try {
      result = await answer(peer, JSON.parse(line));
    } catch (error) {
      result = { error: `${error.name}: ${error.message}` };
    }
    process.stdout.write(`${JSON.stringify(result)}\n`);
  }
}
