// Tests the type checker for JavaScript and TypeScript with the real package `typescript`, on correct scripts and on
// scripts with one mistake each.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TypeChecker } from 'glovebox-sandbox/typescript';

const object = (properties: object, ...required: string[]) => ({ type: 'object', properties, required, additionalProperties: false });
const place = object({ lat: { type: 'number' }, lon: { type: 'number' } }, 'lat', 'lon');
const execute = (): number => 1;
const tools = {
  weather: { schema: object({ city: { type: 'string' }, days: { type: 'integer' }, unit: { enum: ['c', 'f'] } }, 'city'), execute },
  send_mail: { schema: object({ to: { type: 'array', items: { type: 'string' } }, subject: { type: 'string' }, cc: { anyOf: [{ type: 'string' }, { type: 'null' }] } }, 'to', 'subject'), execute },
  route: { schema: object({ start: place, end: place }, 'start', 'end'), execute },
  anything: execute,
};

/** Scripts with a mistake in the line that ends with `// wrong`. */
const MISTAKES = [
  'await tools.wether({ city: "Oslo" }); // wrong',
  'const found = tools.find("mail"); // wrong',
  'for (const city of ["Oslo"]) {\n  console.log(await tools.forecast({ city })); // wrong\n}',
  'await tools.weather({}); // wrong',
  'await tools.weather(); // wrong',
  'await tools.weather({ city: 5 }); // wrong',
  'await tools.weather({ city: "Oslo", unit: "k" }); // wrong',
  'await tools.weather({ city: "Oslo", day: 2 }); // wrong',
  'await tools.weather({ town: "Oslo" }); // wrong',
  'await tools.weather("Oslo", 1, "c", 4); // wrong',
  'await tools.weather("Oslo", "1"); // wrong',
  'await tools.send_mail({ to: "a@example.com", subject: "s" }); // wrong',
  'await tools.send_mail({ to: ["a"] }); // wrong',
  'await tools.send_mail({ to: [1], subject: "s" }); // wrong',
  'await tools.send_mail({ to: [], subject: "s", cc: 3 }); // wrong',
  'await tools.route({ start: { lat: 1, lon: 2 }, end: { lat: 1 } }); // wrong',
  'await tools.route({ start: { lat: 1, lon: 2 }, end: [1, 2] }); // wrong',
  'const plan = async () => tools.route({ start: { lat: 1, lon: 2 } }); // wrong\nawait plan();',
  'const high = tools.weather({ city: "Oslo" }).high; // wrong',
  'const texts = tools.weather("Oslo").map((day) => day.text); // wrong',
  'for (const day of tools.weather("Oslo")) console.log(day); // wrong',
  'console.log([1, 2].mapp((n) => n)); // wrong',
  'console.log("abc".toUppercase()); // wrong',
  'console.log(Object.fromEntry([])); // wrong',
  'const rows = [1];\nconsole.log(row.length); // wrong',
  'const total = 5;\ntotal(); // wrong',
  'class Plan { constructor() { this.days = 1; } }\nnew Plan().nights; // wrong',
];

const CORRECT = [
  'const days = await tools.weather({ city: "Oslo", days: 2, unit: "c" });\nconsole.log(days.high, days[0].text);',
  'await Promise.all(["Oslo", "Rome"].map((city) => tools.weather(city, 1)));',
  'await tools.send_mail({ to: [], subject: "s", cc: null });\nawait tools.anything(1, { b: 2 });\nawait tools.anything();',
  'for (const { name, signature } of tools.search("mail")) console.log(name, signature, tools.describe(name).schema);',
  'const data = {};\ndata.rows = readJson("a.json");\nlet best;\nfor (const row of data.rows) if (!best || row.n > best.n) best = row;\nconsole.log(best.n);',
  'const fs = require("fs");\nconst { join } = require("path");\nfs.writeFileSync(join("a", "b"), Buffer.from("x"));\nconsole.log(process.argv, context, _);',
  'function add(a, b) { return b === undefined ? a : a + b; }\nconsole.log(add(1), add(1, 2, 3), parseInt(5.5), [].push());',
  '/** @param {Integer} n */\nfunction f(n) { return n; }\nf();',
  'const groups = Object.groupBy([1, 2], (n) => (n > 1 ? "b" : "a"));\nconsole.log(groups.a, new Set([1]).union(new Set([2])), structuredClone({}));',
  'import { x } from "./x.mjs";\nexport class A extends x { get y() { return this.z; } }',
];

test('seeded mistakes are found, and correct scripts are not reported', async () => {
  await using checker = new TypeChecker({ tools });
  const missed: string[] = [];
  for (const source of MISTAKES) {
    const lines = (await checker.check(source)).map(({ line }) => line);
    if (!lines.includes(source.split('\n').findIndex((line) => line.endsWith('// wrong')) + 1)) missed.push(source);
  }
  assert.ok(missed.length * 100 <= MISTAKES.length * 5, missed.join('\n'));
  for (const source of CORRECT) assert.deepEqual(await checker.check(source), [], source);
  // TypeScript is checked against the types that it declares.
  const typed = 'interface A { b: number }\nconst a: A = { b: 1 };\nconst f = (n: number) => n;\nf(a.b);\n';
  assert.deepEqual(await checker.check(typed, { name: 'a.ts' }), []);
  const found = await checker.check(`${typed}/* 😀 */ f(a.c);\nf("x");`, { name: 'a.ts' });
  assert.deepEqual(found.map(({ line, column }) => [line, column]), [[5, 13], [6, 3]]);
  assert.match(found[0]?.message ?? '', /^Property 'c' does not exist on type 'A'\. \[TS2339\]$/);
  assert.equal((await checker.check('rows.push(1)'))[0]?.line, 1);
  assert.deepEqual(await checker.check('rows.push(1)', { globals: ['rows', 'no name'] }), []);
  // Scripts are not executed, so a script cannot replace the checker or keep it busy.
  assert.deepEqual(await checker.check('globalThis.check = 1; for (;;);'), []);
  assert.equal((await checker.check('absent;\n'.repeat(100))).length, 20);
});

test('a check within limits that are too small fails', async () => {
  await using checker = new TypeChecker({ limits: { memoryBytes: 64 << 20 } });
  await assert.rejects(checker.check('1'), /types: cannot load the type checker/);
  await assert.rejects(new TypeChecker({ typescript: '/absent/typescript.js' }).check('1'), /ENOENT/);
});
