// Cases for executors of Code Mode, from the documentation of `@cloudflare/codemode`. They run in Node.js with the
// adapter, and in a Worker with the framework's `DynamicWorkerExecutor`.
import { type Case, settled } from './observe.ts';

type Call = (...values: unknown[]) => Promise<unknown>;
type Provider = { name: string; fns: Record<string, Call>; prelude?: string };
type Connector = { name: string; binding: { callTool(method: string, given: unknown): Promise<unknown> } };

interface Executor {
  execute(code: string, providers: Provider[], options?: { connectors?: Connector[] }): Promise<{ result: unknown; error?: string; logs?: string[] }>;
}

const fns: Record<string, Call> = {
  add: async (a, b) => Number(a) + Number(b),
  echo: async (...values) => values,
  nothing: async () => undefined,
  later: async (value) => (await new Promise((done) => setTimeout(done, 5)), value),
  fail: async () => {
    throw new TypeError('no such luck');
  },
  failWithText: async () => {
    throw 'only text';
  },
};

/** Returns the cases. `create` makes an executor with a timeout. `connector` makes the binding of a connector. */
export function casesOf(create: (timeoutMs: number) => Executor, connector: (callTool: Connector['binding']['callTool']) => Connector['binding']): Record<string, Case> {
  const execute = async (code: string, providers: Provider[] = [{ name: 'codemode', fns }], connectors: Connector[] = [], timeoutMs = 8_000): Promise<unknown> => {
    const { result, error, logs = [] } = await create(timeoutMs).execute(code, providers, { connectors });
    return { result, error, logs };
  };

  /** Runs a function and returns its result, error and logs. */
  const script = (body: string, providers?: Provider[], connectors?: Connector[]): Case => () => settled(execute(`async () => { ${body} }`, providers, connectors));

  /** Runs a function that is expected to fail, and returns its error only as a type. Each engine has its own texts. */
  const failure = (body: string, providers?: Provider[]): Case => async () => {
    const { error, result } = (await execute(`async () => { ${body} }`, providers)) as { error?: string; result: unknown };
    return [typeof error, result];
  };

  /** Sends a value to a host function and returns it, and what the host received. */
  const value = (expression: string): Case => async () => {
    const received: unknown[] = [];
    const keep: Call = async (given) => (received.push(given), given);
    return [await settled(execute(`async () => codemode.keep(${expression})`, [{ name: 'codemode', fns: { keep } }])), received];
  };

  const names = (...all: string[]): Case => () => settled(execute('async () => 1', all.map((name) => ({ name, fns: {} }))));
  const binding = connector(async (method, given) => {
    if (method === 'pause') return { __codemode_control__: 'pause' };
    if (method === 'fail') return { __codemode_control__: 'error', message: 'no such bill' };
    return { method, given };
  });
  const bank = [{ name: 'bank', binding }];

  return {
    'result: number': script('return 6 * 7;'),
    'result: none': script(''),
    'result: null': script('return null;'),
    'result: text': script('return "é\\u{1f600}";'),
    'result: object': script('return { a: [{ b: null }], c: {} };'),
    'result: promise': script('return Promise.resolve(1);'),
    'result: bytes': script('return new Uint8Array([0, 128, 255]);'),
    'result: buffer': script('return new Uint8Array([7, 8]).buffer;'),
    'result: key of the codec': script('return { __codemode_binary_v1__: "Uint8Array", data: 1 };'),
    'result: date': script('return new Date(0);'),
    'result: map': script('return new Map([["a", 1]]);'),
    'result: bigint': script('return 2n ** 70n;'),
    'result: not a number': script('return NaN;'),
    'result: function': failure('return () => 1;'),
    'code: function without async': () => settled(execute('() => 1')),
    'code: function expression': () => settled(execute('async function () { return 1; }')),
    'code: in parentheses': () => settled(execute('(async () => 1)')),
    'code: statements': () => settled(execute('const a = 1; return a;')),
    'code: expression': () => settled(execute('1 + 1')),
    'code: fenced': () => settled(execute('```js\nasync () => 1\n```')),
    'code: empty': () => settled(execute('')),
    'code: comments': () => settled(execute('// one\nasync () => 1 // two')),
    'code: syntax error': async () => {
      const outcome = (await settled(execute('async () => {'))) as { value?: { error?: string } };
      return typeof (outcome.value?.error ?? outcome);
    },
    'call: arguments': script('return codemode.add(1, 2);'),
    'call: no argument': script('return codemode.echo();'),
    'call: several values': script('return codemode.echo(1, "a", null, [2], { b: 3 });'),
    'call: undefined argument': script('return codemode.echo(undefined, 1);'),
    'call: undefined result': script('return (await codemode.nothing()) === undefined;'),
    'call: asynchronous function': script('return codemode.later("done");'),
    'call: concurrent': script('return Promise.all([1, 2, 3].map((n) => codemode.later(n)));'),
    'call: one after the other': script('let n = 0; for (let i = 0; i < 5; i += 1) n = await codemode.add(n, i); return n;'),
    'call: error': script('await codemode.fail();'),
    'call: thrown text': script('await codemode.failWithText();'),
    'call: error is catchable': script('try { await codemode.fail(); } catch (error) { return [error instanceof Error, error.message]; }'),
    'call: absent function': script('return codemode.absent();'),
    'call: inherited property': failure('return codemode.constructor();'),
    'call: absent provider': failure('return absent.f();'),
    'call: symbol': script('return codemode[Symbol.iterator] === undefined;'),
    'call: awaited provider': failure('return await codemode;'),
    'call: not awaited': script('codemode.later(1); return 2;'),
    'value: bytes': value('new Uint8Array([0, 128, 255])'),
    'value: nested bytes': value('{ a: [new Uint8Array([1])], b: new Uint8Array([2]).buffer }'),
    'value: view': value('new DataView(new ArrayBuffer(4), 1, 2)'),
    'value: floats': value('new Float32Array([0.5])'),
    'value: null': value('null'),
    'value: undefined in an object': value('{ a: undefined, b: 1 }'),
    'value: negative zero': value('-0'),
    'value: not a number': value('[NaN, Infinity]'),
    'value: large number': value('[2 ** 53, 1e300]'),
    'value: date': value('new Date(0)'),
    'value: map and set': value('[new Map([["a", 1]]), new Set([1])]'),
    'value: sparse array': value('[1, , 3]'),
    'value: method toJSON': value('{ toJSON: () => "mine" }'),
    'value: cycle': failure('const a = {}; a.self = a; return codemode.echo(a);'),
    'value: bigint': failure('return codemode.echo(1n);'),
    'providers: two': script('return [await a.f(), await b.f()];', ['a', 'b'].map((name) => ({ name, fns: { f: async () => name } }))),
    'providers: no functions': failure('return empty.f();', [{ name: 'empty', fns: {} }]),
    'providers: prelude': script('return codemode.twice(4);', [{ name: 'codemode', fns, prelude: 'codemode.twice = async (n) => codemode.add(n, n);' }]),
    'providers: prelude has priority': script('return codemode.add(1, 2);', [{ name: 'codemode', fns, prelude: 'codemode.add = () => "mine";' }]),
    'providers: prelude with a closure': script('return codemode.step(async () => 1);', [{ name: 'codemode', fns, prelude: 'codemode.step = async (f) => [await f()];' }]),
    'names: of functions': script('return [await codemode.a_b(), await codemode.c_d()];', [{ name: 'codemode', fns: { 'a-b': async () => 1, 'c.d': async () => 2 } }]),
    'names: digit first': script('return codemode._2x();', [{ name: 'codemode', fns: { '2x': async () => 1 } }]),
    'names: reserved word': script('return codemode.delete_();', [{ name: 'codemode', fns: { delete: async () => 1 } }]),
    'names: conflict of functions': script('return 1;', [{ name: 'codemode', fns: { 'a-b': async () => 1, a_b: async () => 2 } }]),
    'names: reserved global': names('Promise'),
    'names: reserved local': names('__dispatchers'),
    'names: console': names('console'),
    'names: not an identifier': names('a b'),
    'names: empty': names(''),
    'names: twice': names('a', 'a'),
    'names: connector and provider': script('return 1;', [{ name: 'bank', fns: {} }], bank),
    'names: reserved connector': script('return 1;', [], [{ name: 'Error', binding }]),
    'names: connector is not an identifier': script('return 1;', [], [{ name: '1a', binding }]),
    'connector: call': script('return bank.find({ id: 1 });', [], bank),
    'connector: no argument': script('return bank.find();', [], bank),
    'connector: first argument only': script('return bank.find({ id: 1 }, 2);', [], bank),
    'connector: error': script('return bank.fail();', [], bank),
    'connector: error is catchable': script('try { await bank.fail(); } catch (error) { return error.message; }', [], bank),
    'connector: pause': script('await bank.pause(); return 1;', [], bank),
    'connector: with a provider': script('return [await bank.find(1), await codemode.add(1, 2)];', undefined, bank),
    'error: message': script('throw new TypeError("mine");'),
    'error: rejected promise': script('await Promise.reject(new RangeError("r"));'),
    'error: after logs': script('console.log("a"); throw new Error("b");'),
    'logs: values': script('console.log("a", 1, true, null, undefined);'),
    'logs: levels': script('console.log("a"); console.warn("b"); console.error("c");'),
    'logs: objects': script('console.log({ a: 1 }, [1, 2]);'),
    'logs: several lines': script('console.log("a\\nb");'),
    'limit: time': async () => {
      const { error } = (await execute('async () => new Promise((done) => setTimeout(done, 1_000))', [], [], 200)) as { error?: string };
      return /^execution timed out/i.test(error ?? '');
    },
    'limit: time in a call': async () => {
      const { error } = (await execute('async () => codemode.wait()', [{ name: 'codemode', fns: { wait: () => new Promise(() => undefined) } }], [], 200)) as { error?: string };
      return /^execution timed out/i.test(error ?? '');
    },
    'sandbox: no network': failure('return fetch("http://127.0.0.1:1/");'),
    'sandbox: fresh globals': async () => {
      const executor = create(8_000);
      await executor.execute('async () => { globalThis.kept = 1; }', []);
      return executor.execute('async () => typeof kept', []).then(({ result }) => result);
    },
    'sandbox: timers': script('await new Promise((done) => setTimeout(done, 5)); return 1;'),
    'sandbox: base64 and URLs': script('return [btoa("a"), new URL("http://a/b?c").search, new TextEncoder().encode("é").length];'),
    'concurrency: separate functions': () => {
      const executor = create(8_000);
      return Promise.all([1, 2, 3].map((n) => executor.execute('async () => codemode.n()', [{ name: 'codemode', fns: { n: async () => n } }]).then(({ result }) => result)));
    },
  };
}
