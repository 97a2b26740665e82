// Tests JSON with integers of any size.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_DIGITS, parseJson, stringifyJson, stringifyParsedJson } from '../src/json.ts';

test('only integers outside the safe range become bigints', () => {
  for (const [text, value] of [
    ['9007199254740991', 2 ** 53 - 1],
    ['-9007199254740991', 1 - 2 ** 53],
    ['9007199254740992', 2n ** 53n],
    ['-9007199254740992', -(2n ** 53n)],
    ['9007199254740993', 2n ** 53n + 1n],
    ['18446744073709551616', 2n ** 64n],
    [' -340282366920938463463374607431768211457 ', -(2n ** 128n) - 1n],
    ['0.1000000000000000055511151231257827', 0.1],
    ['12345678901234567890.5', 12345678901234567890.5],
    ['1e0000000000000000000021', 1e21],
    ['12345678901234567890E-2', 123456789012345678.9],
    ['9007199254740993.0', 2 ** 53],
    ['"12345678901234567890"', '12345678901234567890'],
    ['[1,12345678901234567890]', [1, 12345678901234567890n]],
    ['[0.1234567890123456789,true,null,-12345678901234567890]', [0.12345678901234568, true, null, -12345678901234567890n]],
    ['{"a" : 12345678901234567890\n}', { a: 12345678901234567890n }],
    ['{"12345678901234567890":{"b":[{"c":12345678901234567890}]}}', { '12345678901234567890': { b: [{ c: 12345678901234567890n }] } }],
    // The last of several equal keys takes precedence.
    ['{"a":12345678901234567890,"a":1}', { a: 1 }],
    ['{"a":[12345678901234567890],"a":{"0":12345678901234567891}}', { a: { 0: 12345678901234567891n } }],
  ] as const) {
    assert.deepEqual(parseJson(text), value, text);
  }
  assert.ok(Object.is(parseJson('-0'), -0));
});

test('strings next to integers are unchanged', () => {
  for (const text of ['', '"', '\\', '\\"', '\\\\', '"12345678901234567890"', '\\",12345678901234567890,\\"', ':12345678901234567890', '\u0001\ud83d\ude00']) {
    const value = [text, 12345678901234567890n, { [text]: text }, 12345678901234567891n];
    assert.deepEqual(parseJson(stringifyJson(value)), value, text);
  }
});

test('invalid text is rejected as by JSON.parse', () => {
  for (const text of [
    '',
    '[12345678901234567890',
    '[01234567890123456789]',
    '[12345678901234567890-1]',
    '{12345678901234567890:1}',
    '{"a":12345678901234567890 1}',
    '[1 12345678901234567890]',
    '[true12345678901234567890]',
    "['12345678901234567890']",
  ]) {
    let message = '';
    assert.throws(() => JSON.parse(text), (error: Error) => Boolean((message = error.message)));
    assert.throws(() => parseJson(text), { name: 'SyntaxError', message });
  }
});

test('keys keep their order, and `__proto__` is an ordinary key', () => {
  const text = '{"b":12345678901234567890,"__proto__":{"__proto__":12345678901234567890,"polluted":1},"a":[{"__proto__":12345678901234567890}]}';
  const value = parseJson(text);
  assert.deepEqual(Object.keys(value), ['b', '__proto__', 'a']);
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
  assert.equal(Object.getPrototypeOf(value.a[0]), Object.prototype);
  assert.equal(value.polluted, undefined);
  assert.equal(stringifyJson(value), text);
});

test('depth is limited only by JSON.parse', () => {
  const depth = 100_000;
  const text = `${'['.repeat(depth)}12345678901234567890${']'.repeat(depth)}`;
  let value = parseJson(text);
  for (let level = 0; level < depth; level += 1) [value] = value;
  assert.equal(value, 12345678901234567890n);
});

test('parsing takes linear time, and integers have a maximum length', () => {
  const digits = '7'.repeat(MAX_DIGITS);
  assert.deepEqual(parseJson(`[${digits},-${digits}]`), [BigInt(digits), -BigInt(digits)]);
  for (const longer of [`${digits}7`, `-${digits}7`, '7'.repeat(10_000_000)]) {
    assert.throws(() => parseJson(`[${longer}]`), { name: 'RangeError', message: `an integer has ${longer.replace('-', '').length} digits; the maximum is 4300` });
  }
  // Parses long strings, some of which contain many escapes or quotation marks.
  for (const long of ['x'.repeat(10_000_000), '\\\\'.repeat(2_000_000), '\\"'.repeat(2_000_000), '1'.repeat(10_000_000)]) {
    assert.equal(parseJson(`["${long}",12345678901234567890]`)[1], 12345678901234567890n);
  }
});

test('integers are written with all digits', () => {
  const when = new Date(0);
  const value = { a: 2n ** 64n, b: [-(2n ** 53n), 1n, undefined, 0.5], c: '"1"', d: undefined, when, own: { toJSON: () => 2n ** 65n }, e: 1e21 };
  const text = '{"a":18446744073709551616,"b":[-9007199254740992,1,null,0.5],"c":"\\"1\\"","when":"1970-01-01T00:00:00.000Z","own":36893488147419103232,"e":1e+21}';
  assert.equal(stringifyJson(value), text);
  assert.equal(stringifyJson([2 ** 53, -(2 ** 64), 1e20, 1e21, 1 / 3, NaN]), '[9007199254740992,-18446744073709551616,100000000000000000000,1e+21,0.3333333333333333,null]');
  assert.equal(stringifyJson(5n), '5');
  assert.equal(stringifyJson(undefined), undefined);
  assert.equal(stringifyJson({ a: 'b' }), '{"a":"b"}');
  const cyclic: unknown[] = [1n];
  cyclic.push(cyclic);
  assert.throws(() => stringifyJson(cyclic), { name: 'TypeError', message: /circular/ });
});

test('getters and `toJSON` run once', () => {
  const prototype = BigInt.prototype as { toJSON?: unknown };
  let calls: string[] = [];
  const value = (result: unknown): object => ({
    get read() {
      calls.push('getter');
      return result;
    },
    own: {
      toJSON: () => {
        calls.push('toJSON');
        return result;
      },
    },
  });
  const check = (result: unknown, text: string): void => {
    for (const serialize of [stringifyJson, stringifyParsedJson]) {
      calls = [];
      serialize(value(result));
      assert.deepEqual(calls, ['getter', 'toJSON'], text);
    }
    assert.equal(stringifyJson(value(result)), `{"read":${text},"own":${text}}`);
  };
  check(1, '1');
  check('1234567890123456', '"1234567890123456"');
  check(2n ** 64n, '18446744073709551616');
  check([2 ** 64, 2n ** 64n], '[18446744073709551616,18446744073709551616]');
  prototype.toJSON = () => 'rounded';
  try {
    check([2n ** 64n], '[18446744073709551616]');
  } finally {
    delete prototype.toJSON;
  }
});

test("a program's own `toJSON` of bigints does not apply", () => {
  const prototype = BigInt.prototype as { toJSON?: unknown };
  prototype.toJSON = () => 'rounded';
  try {
    assert.equal(stringifyJson({ a: [1n, { toJSON: () => 2n }], b: 'c' }), '{"a":[1,2],"b":"c"}');
  } finally {
    delete prototype.toJSON;
  }
});

test('any value is the same after a round trip', () => {
  let seed = 20_26;
  const next = (max: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return (seed >>> 8) % max;
  };
  const parts = ['"', '\\', '12345678901234567', 'é', '\n', '{', ',', ':', '__proto__'];
  const text = (): string => Array.from({ length: next(5) }, () => parts[next(parts.length)]).join('');
  const integer = (): bigint => (next(2) ? 1n : -1n) * (2n ** 53n + BigInt(next(1_000))) ** BigInt(1 + next(4));
  const large = (): number => (next(2) ? 1 : -1) * 2 ** (53 + next(900)) * (1 + next(2) / 2);
  const leaves = [text, integer, large, () => next(1_000), () => (next(1_000) + 0.123456789012345) / 7, () => null, () => next(2) === 1];
  const made = (depth: number): unknown => {
    const kind = depth === 0 ? 2 : next(3);
    if (kind === 0) return Array.from({ length: next(4) }, () => made(depth - 1));
    if (kind === 1) return Object.fromEntries(Array.from({ length: next(4) }, () => [text(), made(depth - 1)]));
    return leaves[next(leaves.length)]?.();
  };
  for (let round = 0; round < 2_000; round += 1) {
    const start = seed;
    const value = made(4);
    assert.deepEqual(parseJson(stringifyParsedJson(value)), value, `seed ${start}`);
  }
});
