'use strict';
// `require('assert')`, with Node's messages.
{
  const $ = $glovebox;
  const { coded, deepEqual, inspectWith } = $;

  // Values with more lines are not compared line by line.
  const MOST_LINES = 400;
  const shown = (value) => inspectWith(value, { depth: 1000, sorted: true, compact: false, maxArrayLength: Infinity, maxStringLength: Infinity });

  // Returns a diff based on the longest common subsequence of lines.
  const lineDiff = (actual, expected) => {
    const a = shown(actual).split('\n');
    const b = shown(expected).split('\n');
    if (a.length > MOST_LINES || b.length > MOST_LINES) return `${a.slice(0, 25).join('\n')}\n\nshould be\n\n${b.slice(0, 25).join('\n')}`;
    const same = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) {
      for (let j = b.length - 1; j >= 0; j--) same[i][j] = a[i] === b[j] ? same[i + 1][j + 1] + 1 : Math.max(same[i + 1][j], same[i][j + 1]);
    }
    const lines = [];
    for (let i = 0, j = 0; i < a.length || j < b.length; ) {
      if (i < a.length && j < b.length && a[i] === b[j]) {
        lines.push(`  ${a[i++]}`);
        j++;
      } else if (i < a.length && (j === b.length || same[i + 1][j] >= same[i][j + 1])) lines.push(`+ ${a[i++]}`);
      else lines.push(`- ${b[j++]}`);
    }
    return lines.join('\n');
  };

  const HEADS = {
    strictEqual: 'Expected values to be strictly equal:',
    deepStrictEqual: 'Expected values to be strictly deep-equal:',
    notStrictEqual: 'Expected "actual" to be strictly unequal to:',
    notDeepStrictEqual: 'Expected "actual" not to be strictly deep-equal to:',
  };
  const messageFor = (operator, actual, expected) => {
    const isPlain = (value) => typeof value !== 'object' && typeof value !== 'function';
    switch (operator) {
      case 'strictEqual':
      case 'deepStrictEqual': {
        const [a, b] = [shown(actual), shown(expected)];
        const isZero = actual === 0 && expected === 0;
        if (!isZero && isPlain(actual) && isPlain(expected) && !a.includes('\n') && !b.includes('\n') && a.length + b.length <= 80) return `${HEADS[operator]}\n\n${a} !== ${b}\n`;
        if (a === b) return `Values have same structure but are not reference-equal:\n\n${a}\n`;
        const isSame = operator === 'strictEqual' && !isPlain(actual) && !isPlain(expected) && actual !== null && expected !== null;
        return `${isSame ? 'Expected "actual" to be reference-equal to "expected":' : HEADS[operator]}\n+ actual - expected\n\n${lineDiff(actual, expected)}\n`;
      }
      case 'notStrictEqual':
      case 'notDeepStrictEqual': {
        const text = shown(actual);
        return text.includes('\n') || text.length > 5 ? `${HEADS[operator]}\n\n${text}${text.includes('\n') ? '\n' : ''}` : `${HEADS[operator]} ${text}`;
      }
      case '==':
      case '!=':
        return `${shown(actual)} ${operator} ${shown(expected)}`;
      case 'deepEqual':
        return `Expected values to be loosely deep-equal:\n\n${shown(actual)}\n\nshould loosely deep-equal\n\n${shown(expected)}`;
      default:
        return `Expected "actual" not to be loosely deep-equal to:\n\n${shown(expected)}`;
    }
  };

  class AssertionError extends Error {
    constructor({ message, actual, expected, operator, stackStartFn }) {
      super(message ?? messageFor(operator, actual, expected));
      this.generatedMessage = message === undefined;
      this.code = 'ERR_ASSERTION';
      this.actual = actual;
      this.expected = expected;
      this.operator = operator;
      Error.captureStackTrace?.(this, stackStartFn);
    }
  }
  Object.defineProperty(AssertionError.prototype, 'name', { value: 'AssertionError', writable: true, configurable: true });

  // Throws an assertion error. `generated` is the message if the script passed none.
  const fail = (message, details, generated) => {
    if (message instanceof Error) throw message;
    throw Object.assign(new AssertionError({ message: message ?? generated, ...details }), { generatedMessage: message === undefined });
  };

  const truthy = (value, message, count, operator, stackStartFn) => {
    if (value) return;
    const missing = count === 0 ? 'No value argument passed to `assert.ok()`' : undefined;
    const said = message ?? missing ?? `The expression evaluated to a falsy value:\n\n  ${operator}(${$.inspect(value, 2)})\n`;
    if (said instanceof Error) throw said;
    throw Object.assign(new AssertionError({ message: said, actual: value, expected: true, operator: '==', stackStartFn }), { generatedMessage: message === undefined });
  };

  function assert(value, message) {
    truthy(value, message, arguments.length, 'assert', assert);
  }

  const comparison = (name, operator, test) => {
    assert[name] = {
      [name](actual, expected, message) {
        if (arguments.length < 2) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "actual" and "expected" arguments must be specified');
        if (!test(actual, expected)) fail(message, { actual, expected, operator, stackStartFn: assert[name] });
      },
    }[name];
  };
  // eslint-disable-next-line eqeqeq
  comparison('equal', '==', (a, b) => a == b || (a !== a && b !== b));
  // eslint-disable-next-line eqeqeq
  comparison('notEqual', '!=', (a, b) => !(a == b || (a !== a && b !== b)));
  comparison('strictEqual', 'strictEqual', Object.is);
  comparison('notStrictEqual', 'notStrictEqual', (a, b) => !Object.is(a, b));
  comparison('deepEqual', 'deepEqual', (a, b) => deepEqual(a, b, false));
  comparison('notDeepEqual', 'notDeepEqual', (a, b) => !deepEqual(a, b, false));
  comparison('deepStrictEqual', 'deepStrictEqual', (a, b) => deepEqual(a, b, true));
  comparison('notDeepStrictEqual', 'notDeepStrictEqual', (a, b) => !deepEqual(a, b, true));

  class Comparison {}

  // Returns normally if a thrown value is the expected one. Otherwise throws the error that describes the mismatch.
  const matches = (thrown, expected, message, operator) => {
    if (expected === undefined) return;
    if (typeof expected === 'function') {
      if (expected.prototype !== undefined && thrown instanceof expected) return;
      if (Error.isPrototypeOf(expected)) {
        throw message === undefined && thrown instanceof Error
          ? Object.assign(new AssertionError({
              message: `The error is expected to be an instance of "${expected.name}". Received "${thrown.constructor.name}"\n\nError message:\n\n${thrown.message}`,
              actual: thrown, expected, operator,
            }), { generatedMessage: true })
          : thrown;
      }
      if (expected.call({}, thrown) === true) return;
      fail(message, { actual: thrown, expected, operator }, `The ${expected.name ? `"${expected.name}" ` : ''}validation function is expected to return "true". Received ${$.inspect(false, 0)}\n\nCaught error:\n\n${$.inspect(thrown, 2)}`);
    }
    if (expected instanceof RegExp) {
      if (expected.test(String(thrown))) return;
      fail(message, { actual: thrown, expected, operator }, `The input did not match the regular expression ${expected}. Input:\n\n${$.inspect(String(thrown), 0)}\n`);
    }
    const keys = Object.keys(expected);
    if (expected instanceof Error) keys.push('name', 'message');
    for (const key of keys) {
      const isMatch = expected[key] instanceof RegExp && typeof thrown?.[key] === 'string' ? expected[key].test(thrown[key]) : deepEqual(thrown?.[key], expected[key], true);
      if (isMatch) continue;
      const pick = (value) => Object.assign(new Comparison(), Object.fromEntries(keys.filter((name) => name in Object(value)).map((name) => [name, value[name]])));
      fail(message, { actual: thrown, expected, operator }, messageFor('deepStrictEqual', pick(thrown), pick(expected)));
    }
  };
  const settled = (outcome, expected, message, operator) => {
    if (typeof expected === 'string') [expected, message] = [undefined, expected];
    if (outcome.thrown) {
      matches(outcome.error, expected, message, operator);
      return;
    }
    const what = operator === 'rejects' ? 'rejection' : 'exception';
    const name = expected?.name ? ` (${expected.name})` : '';
    fail(message instanceof Error ? message : `Missing expected ${what}${name}${message ? `: ${message}` : '.'}`, { actual: undefined, expected, operator });
  };
  const unwanted = (outcome, expected, message, operator) => {
    if (!outcome.thrown) return;
    if (typeof expected === 'string') message = expected;
    const what = operator === 'doesNotReject' ? 'rejection' : 'exception';
    fail(`Got unwanted ${what}${message ? `: ${message}` : '.'}\nActual message: "${outcome.error?.message}"`, { actual: outcome.error, expected, operator });
  };
  const run = (body) => {
    if (typeof body !== 'function') throw $.functionError('fn', body);
    try {
      body();
      return { thrown: false };
    } catch (error) {
      return { thrown: true, error };
    }
  };
  const wait = async (promise) => {
    const isFunction = typeof promise === 'function';
    const pending = isFunction ? promise() : promise;
    if (typeof pending?.then !== 'function' || typeof pending.catch !== 'function') {
      if (isFunction) throw coded(TypeError, 'ERR_INVALID_RETURN_VALUE', `Expected instance of Promise to be returned from the "promiseFn" function but got ${$.received(pending)}.`);
      throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "promiseFn" argument must be of type function or an instance of Promise. Received ${$.received(promise)}`);
    }
    try {
      await pending;
      return { thrown: false };
    } catch (error) {
      return { thrown: true, error };
    }
  };

  const rest = {
    ok(value, message) {
      truthy(value, message, arguments.length, 'assert.ok', assert.ok);
    },
    fail: (message) => fail(message, { operator: 'fail' }, 'Failed'),
    throws: (body, expected, message) => settled(run(body), expected, message, 'throws'),
    doesNotThrow: (body, expected, message) => unwanted(run(body), expected, message, 'doesNotThrow'),
    rejects: async (promise, expected, message) => settled(await wait(promise), expected, message, 'rejects'),
    doesNotReject: async (promise, expected, message) => unwanted(await wait(promise), expected, message, 'doesNotReject'),
    match(text, pattern, message) {
      if (pattern.test(text)) return;
      fail(message, { actual: text, expected: pattern, operator: 'match' }, `The input did not match the regular expression ${pattern}. Input:\n\n${$.inspect(text, 0)}\n`);
    },
    doesNotMatch(text, pattern, message) {
      if (!pattern.test(text)) return;
      fail(message, { actual: text, expected: pattern, operator: 'doesNotMatch' }, `The input was expected to not match the regular expression ${pattern}. Input:\n\n${$.inspect(text, 0)}\n`);
    },
    ifError(value) {
      if (value === null || value === undefined) return;
      fail(`ifError got unwanted exception: ${value?.message ?? $.inspect(value, 2)}`, { actual: value, expected: null, operator: 'ifError' });
    },
    AssertionError,
  };
  Object.assign(assert, rest);

  const strict = function (value, message) {
    truthy(value, message, arguments.length, 'assert', strict);
  };
  Object.assign(strict, assert, {
    equal: assert.strictEqual, notEqual: assert.notStrictEqual, deepEqual: assert.deepStrictEqual, notDeepEqual: assert.notDeepStrictEqual,
  });
  assert.strict = strict;
  strict.strict = strict;
  $.node.assert = assert;
  $.node['assert/strict'] = strict;
}
