// Compares the outcomes of an adapter with those of the framework's executor, and with the list of cases that are
// expected to differ. The first line of the list, `# N cases`, is the size of the suite. Each line `# REASON` is followed
// by the cases that differ for this reason. BLESS=1 writes the list instead of comparing it.
// usage: node compare.ts LIST FRAMEWORK ADAPTER
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';

const [path, ...files] = process.argv.slice(2) as [string, string, string];
const list = basename(path);
const [framework, adapter] = files.map((file) => JSON.parse(readFileSync(file, 'utf8'))) as [Record<string, string>, Record<string, string>];
const isBless = process.env['BLESS'] === '1';

/** Returns the number of cases, and the reason for each case that is expected to differ. */
function read(): { total: number; reasons: Map<string, string> } {
  const [first = '', ...lines] = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  const reasons = new Map<string, string>();
  let reason = 'no reason';
  for (const line of lines) {
    if (line.startsWith('# ')) reason = line.slice(2);
    else if (reasons.has(line)) throw new Error(`${list} lists \`${line}\` twice`);
    else reasons.set(line, reason);
  }
  return { total: Number(first.split(' ')[1]), reasons };
}

function write(total: number, reasons: Map<string, string>): void {
  const lines = [`# ${total} cases`];
  for (const reason of new Set(reasons.values())) {
    lines.push(`# ${reason}`, ...[...reasons].filter(([, its]) => its === reason).map(([name]) => name));
  }
  writeFileSync(path, lines.map((line) => `${line}\n`).join(''));
}

const names = Object.keys(framework);
const differing = names.filter((name) => framework[name] !== adapter[name]);
const { total, reasons } = isBless && !existsSync(path) ? { total: 0, reasons: new Map<string, string>() } : read();
const summary = `${names.length - differing.length} of ${names.length} as in the framework`;
if (isBless) {
  const known = [...reasons].filter(([name]) => differing.includes(name));
  const added = differing.filter((name) => !reasons.has(name)).map((name) => [name, 'add the reason'] as const);
  write(names.length, new Map([...known, ...added]));
  console.log(summary);
} else {
  const problems = differing
    .filter((name) => !reasons.has(name))
    .map((name) => `${name}: differs, and ${list} does not list it\n  framework: ${framework[name]}\n  adapter:   ${adapter[name]}`);
  for (const name of reasons.keys()) {
    if (!differing.includes(name)) problems.push(`${name}: ${name in framework ? 'does not differ' : 'not a case of this suite'}; remove its line from ${list}`);
  }
  if (names.length !== total) problems.push(`${names.length} cases ran, and ${list} says ${total}`);
  for (const line of [...problems, summary]) console.log(line);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
