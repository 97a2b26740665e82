// Tests `glovebox mcp` with the official TypeScript clients: version 2 of the SDK, and version 1, which most clients
// use. Both validate every structured answer against the tool's output schema.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

import * as v2 from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio';
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const glovebox = process.env.GLOVEBOX;
const token = 'a token for the official clients';
const tools = [
  'run_code', 'session_open', 'session_list', 'session_fork', 'session_undo', 'session_close', 'files_list', 'files_read', 'files_write',
];

/** Makes the calls that a typical model makes. */
async function use(client, call) {
  assert.deepEqual((await client.listTools()).tools.map((tool) => tool.name), tools);
  const progress = [];
  const code = "import time\nprint('step')\ntime.sleep(0.7)\nprint('done')";
  const onprogress = (update) => progress.push(update);
  const ran = await call('run_code', { language: 'python', code }, { onprogress });
  assert.equal(ran.content[0].text, 'step\ndone\n');
  assert.match(progress.at(-1).message, /: step$/);
  const failed = await call('run_code', { language: 'typescript', code: 'const x: number = 1; throw new TypeError("why")' });
  assert.ok(failed.isError && failed.structuredContent.outcome === 'raised');
  const wrong = await call('run_code', { language: 'python', code: '1', timeout: 5 });
  assert.ok(wrong.isError && wrong.content[0].text.includes('unknown field `timeout`'));

  const { session } = (await call('session_open', { language: 'javascript' })).structuredContent;
  const shown = await call('run_code', { language: 'javascript', session, code: "console.log('y'.repeat(9000)); 6 * 7" });
  assert.equal(shown.structuredContent.value, '42');
  const link = shown.content.find((block) => block.type === 'resource_link');
  assert.equal((await client.readResource({ uri: link.uri })).contents[0].text, `${'y'.repeat(9000)}\n`);
  await call('files_write', { session, path: 'a.txt', text: 'é' });
  const read = await call('files_read', { session, path: 'a.txt' });
  assert.equal(read.structuredContent.text, 'é');

  // An abandoned call does not block the session for its full duration.
  const begun = performance.now();
  const given = new AbortController();
  const never = call('run_code', { language: 'javascript', session, code: 'for (;;) {}' }, { signal: given.signal });
  await sleep(500);
  given.abort();
  await assert.rejects(never);
  const after = await call('run_code', { language: 'javascript', session, code: '1 + 1' });
  assert.equal(after.structuredContent.value, '2');
  assert.ok(performance.now() - begun < 6000, `${performance.now() - begun} ms`);
  await call('session_close', { session });
}

/** Approves a script's first call to a tool, and denies its second one, in a new interpreter and in a session. */
async function approve(client, call) {
  const asked = [];
  const answer = ({ params }) => {
    asked.push(params.message);
    const content = asked.length % 2 ? { approve: true } : { approve: false, reason: 'too expensive' };
    return { action: 'accept', content };
  };
  client.setRequestHandler(client instanceof Client1 ? ElicitRequestSchema : 'elicitation/create', answer);
  const { session } = (await call('session_open', { language: 'javascript' })).structuredContent;
  const code = 'console.log((await tools.pay({ euros: 20 })).euros); await tools.pay({ euros: 30 }).catch(({ name, message }) => console.log(name, message))';
  for (const where of [{}, { session }]) {
    asked.length = 0;
    const ran = await call('run_code', { language: 'javascript', code, ...where });
    assert.equal(ran.content[0].text, '20\nToolDenied too expensive\n');
    const question = 'A script wants to call the tool `pay` with these arguments: ';
    assert.deepEqual(asked, [`${question}{"euros":20}`, `${question}{"euros":30}`]);
  }
  await call('session_close', { session });
}

async function driven(name, client, transport, test = use) {
  await client.connect(transport);
  const isFirst = client instanceof Client1;
  const call = (tool, args, options) => {
    const params = { name: tool, arguments: args };
    return isFirst ? client.callTool(params, undefined, options) : client.callTool(params, options);
  };
  await test(client, call);
  await client.close();
  console.log(`javascript, ${name}: passed`);
}

const about = { name: 'test', version: '1' };
const capabilities = { elicitation: { form: {} } };
const first = () => new Client1(about, { capabilities });
const second = (mode) => new v2.Client(about, { capabilities, versionNegotiation: { mode } });
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => /^(GLOVEBOX_|XDG_|PATH$|HOME$)/.test(name)));
const start = { command: glovebox, args: ['mcp'], env: environment };
const paying = { ...start, args: ['mcp', '--tool', 'pay=cat', '--approve', 'pay'] };

await driven('stdio, version 1', first(), new Stdio1(start));
await driven('approvals, version 1', first(), new Stdio1(paying), approve);
for (const mode of ['auto', 'legacy']) {
  await driven(`stdio, version 2, ${mode}`, second(mode), new Stdio2(start));
  await driven(`approvals, version 2, ${mode}`, second(mode), new Stdio2(paying), approve);
}
const server = spawn(glovebox, ['mcp', '--listen', '127.0.0.1:0'], {
  env: { ...process.env, GLOVEBOX_TOKEN: token },
  stdio: ['ignore', 'inherit', 'pipe'],
});
try {
  const [line] = await once(server.stderr, 'data');
  const url = new URL(/http:\/\/\S+\/mcp/.exec(line)[0]);
  const options = { requestInit: { headers: { authorization: `Bearer ${token}` } } };
  await driven('HTTP, version 1', first(), new Http1(url, options));
  for (const mode of ['auto', 'legacy']) {
    await driven(`HTTP, version 2, ${mode}`, second(mode), new v2.StreamableHTTPClientTransport(url, options));
  }
} finally {
  server.kill('SIGTERM');
  const [code] = await once(server, 'exit');
  assert.equal(code, 0);
}
