'use strict';
// `require('node:test')`: runs tests one after the other, and prints the results like Node's reporter `spec`.
{
  const $ = $glovebox;
  const { inspectWith, writeOut } = $;
  const { framesOf, safeString } = $.text;
  const { assert, process } = $.node;
  const { clearTimeout, performance, setImmediate, setTimeout } = $.builtins;

  // The result of a test that failed. `kind` is `code`, `cancelled`, or `subtests`, whose tests are not listed as failed.
  class TestFailure extends Error {
    constructor(reason, kind) {
      super(`${reason}`);
      Object.assign(this, { reason, kind });
    }
  }
  const failureOf = (thrown) => (thrown instanceof TestFailure ? thrown : Object.assign(new TestFailure('', 'code'), { reason: thrown }));
  const cancelled = (reason) => new TestFailure(reason, 'cancelled');
  const PENDING = 'Promise resolution is still pending but the event loop has already resolved';
  const UNFINISHED = 'test did not finish before its parent and was cancelled';

  // The test or suite whose function is being called, until the call returns.
  let current;
  // Calls a function of a test, a suite or a hook. A function with two parameters ends by calling the second one.
  const call = async (body, context, scope) => {
    let finish;
    const finished = new Promise((resolve, reject) => {
      let calls = 0;
      finish = (error) => {
        if (++calls > 1) throw new TestFailure('callback invoked multiple times', 'code');
        if (error) reject(error);
        else resolve();
      };
    });
    finished.catch(() => {});
    const outer = { current, scope: $.scope };
    $.scope = scope;
    if (scope instanceof Item) {
      current = scope;
      scope.root.entered.add(scope);
    }
    try {
      if (body.length !== 2) return body(context);
      if (body(context, finish) instanceof Promise) throw new TestFailure('passed a callback but also returned a Promise', 'code');
    } finally {
      current = outer.current;
      // The code after a suite's function belongs to others. Until a test ends, all code belongs to the test.
      if (scope.isSuite) $.scope = outer.scope;
    }
    return finished;
  };

  // Returns the position of the script's call, as `file:line:column`.
  const callerOf = () => /([^\s(]+:\d+:\d+)\)?$/m.exec(framesOf(new Error()))?.[1];
  const noteOf = (value, missing) => (value === undefined ? '' : ` # ${typeof value === 'string' && value !== '' ? value : missing}`);

  // A test, a suite, or the root of the tests of an execution.
  class Item {
    constructor(parent, name, { only, plan, skip, timeout, todo }, body) {
      Object.assign(this, { parent, name, body, timeout, skip: skip || undefined, todo: todo || undefined, isSuite: false, isShown: false, isReported: false, failure: undefined });
      Object.assign(this, { root: parent?.root ?? this, depth: parent === undefined ? -1 : parent.depth + 1, duration: 0, notes: [], end: Promise.resolve(), plan, checks: 0 });
      this.ending = new Promise((_, reject) => {
        this.stop = reject;
      });
      this.ending.catch(() => {});
      Object.assign(this, { children: [], hooks: { before: [], after: [], beforeEach: [], afterEach: [] }, at: callerOf(), only: Boolean(only), hasOnly: false });
    }
    // Returns `true` if only other tests of the suite are marked with `only`.
    isFiltered() {
      return this.parent.hasOnly && !this.only && !this.hasOnly;
    }
    // Fails with an error that nothing caught, without waiting for the functions of the test or the suite.
    fail(error) {
      this.isAborted = true;
      this.failure ??= failureOf(error);
      this.stop(this.failure);
    }
    // Waits for a promise until no work is left.
    wait(promise) {
      return Promise.race([promise, this.root.ending]);
    }
    async runHooks(name, context) {
      const isOnce = name === 'before' || name === 'after';
      for (const hook of isOnce ? this.hooks[name].splice(0) : this.hooks[name]) await this.wait(call(hook.body, context, hook));
    }
    async attempt(action) {
      try {
        await action();
      } catch (thrown) {
        this.failure ??= failureOf(thrown);
      }
    }
    async run() {
      if (this.isReported || this.isFiltered()) return undefined;
      if (this.root.hasEnded) return this.cancel(PENDING);
      this.begun = performance.now();
      if (this.skip === undefined) await (this.isSuite ? this.runSuite() : this.runTest());
      const failed = this.children.filter((child) => child.hasFailed()).length;
      if (failed > 0) this.failure ??= new TestFailure(`${failed} subtests failed`, 'subtests');
      this.report();
      // Rejections without a handler are reported when no microtask is left. The next test must not start before that,
      // because it would fail with the errors of this test.
      if (!this.root.hasEnded) await new Promise((resolve) => setImmediate(resolve));
      $.scope = this.parent;
      return undefined;
    }
    async runTest() {
      const context = contextOf(this);
      const above = [];
      for (let item = this.parent; item !== undefined; item = item.parent) above.push(item);
      let timer;
      await this.attempt(async () => {
        await this.parent.runHooks('before', contextOf(this.parent));
        for (const item of above.toReversed()) await item.runHooks('beforeEach', context);
        const work = [call(this.body, context, this), this.ending];
        if (this.timeout < 2 ** 31) {
          work.push(new Promise((_, reject) => {
            timer = setTimeout(() => reject(cancelled(`test timed out after ${this.timeout}ms`)), this.timeout);
            timer.unref();
          }));
        }
        await this.wait(Promise.race(work));
      });
      clearTimeout(timer);
      for (let end; this.failure === undefined && end !== this.end; ) {
        end = this.end;
        await this.attempt(() => Promise.race([end, this.ending]));
      }
      if (this.failure !== undefined) for (const child of this.children) child.cancel(UNFINISHED);
      this.controller?.abort();
      if (this.plan !== undefined && this.plan !== this.checks) this.failure ??= new TestFailure(`plan expected ${this.plan} assertions but received ${this.checks}`, 'code');
      for (const item of above) await this.attempt(() => item.runHooks('afterEach', context));
      await this.attempt(() => this.runHooks('after', context));
      context.mock.restoreAll();
    }
    async runSuite() {
      const context = contextOf(this);
      await this.attempt(async () => {
        await this.wait(Promise.race([this.built, this.ending]));
        this.begun = performance.now();
        await this.parent.runHooks('before', contextOf(this.parent));
        await this.runHooks('before', context);
      });
      // Node reports no tests of a suite that an uncaught error ended before its first test.
      if (this.isAborted) this.children = [];
      for (const child of this.children) {
        if (this.failure === undefined) await this.attempt(() => Promise.race([child.run(), this.ending]));
        if (this.failure !== undefined) child.cancel(UNFINISHED);
      }
      await this.attempt(() => this.runHooks('after', context));
    }
    cancel(reason) {
      if (this.isReported || this.isFiltered()) return;
      for (const child of this.children) child.cancel(reason);
      this.failure = cancelled(reason);
      this.report();
    }
    hasFailed() {
      return this.failure !== undefined && this.todo === undefined;
    }
    title() {
      const { duration, failure, name, skip, todo } = this;
      const mark = skip !== undefined ? '﹣' : failure === undefined ? '✔' : '✖';
      const time = duration > 0 ? ` (${duration}ms)` : '';
      return `${mark} ${name}${time}${skip === undefined ? noteOf(todo, 'TODO') : noteOf(skip, 'SKIP')}`;
    }
    report() {
      if (this.isReported) return;
      this.isReported = true;
      this.root.entered.delete(this);
      if (this.begun !== undefined) this.duration = Math.round((performance.now() - this.begun) * 1e6) / 1e6;
      let text = '';
      for (let item = this.parent; item !== this.root && !item.isShown; item = item.parent) {
        item.isShown = true;
        text = `${'  '.repeat(item.depth)}▶ ${item.name}\n${text}`;
      }
      const indent = '  '.repeat(this.depth);
      writeOut(`${text}${indent}${this.title()}\n${this.notes.map((note) => `${indent}ℹ ${note}\n`).join('')}`);
      const { counts, failed } = this.root;
      if (this.failure !== undefined && this.failure.kind !== 'subtests') failed.push(this);
      if (!this.isSuite) counts.tests++;
      counts[this.isSuite ? 'suites' : this.skip !== undefined ? 'skipped' : this.todo !== undefined ? 'todo' : this.failure === undefined ? 'pass' : this.failure.kind === 'cancelled' ? 'cancelled' : 'fail']++;
    }
  }

  // The root of the running execution's tests.
  let root;
  // Fails the test that caused an uncaught error. If it has ended, or the cause is a hook or no test, a note in the
  // summary reports the error.
  const listener = (event, error) => {
    const { scope } = $;
    const isOwn = scope?.root === root && scope !== root;
    if (isOwn && scope instanceof Item && !scope.isReported) return scope.fail(error);
    const name = `Test${scope instanceof Item ? '' : ' hook'} "${scope?.name}"`;
    const source = isOwn ? `${name}${scope.at === undefined ? '' : ` at ${scope.at}`}` : 'A resource';
    const effect = isOwn ? `and would have caused the test to fail, but instead triggered an ${event} event` : `which triggered an ${event} event, caught by the test runner`;
    root.notes.push(`Error: ${source} generated asynchronous activity after the test ended. This activity created the error "${safeString(error)}" ${effect}.`);
    process.exitCode = 1;
  };
  const rootOf = () => {
    const execution = $.entered();
    if (root?.execution === execution) return root;
    const begun = performance.now();
    const made = Object.assign(new Item(undefined, '<root>', { __proto__: null }), { execution, entered: new Set(), failed: [], counts: { tests: 0, suites: 0, pass: 0, fail: 0, cancelled: 0, skipped: 0, todo: 0, duration_ms: 0 } });
    root = made;
    // As in Node, an uncaught error of the script's synchronous code ends the script.
    made.end = made.end.then(() => $.listenForTests(listener));
    process.once('beforeExit', async () => {
      if (root !== made) return;
      made.hasEnded = true;
      made.stop(cancelled(PENDING));
      await made.end;
      await made.attempt(() => Promise.all(made.hooks.after.map((hook) => call(hook.body, contextOf(made), hook))));
      if (made.failure !== undefined || made.counts.fail > 0 || made.counts.cancelled > 0 || made.children.some((child) => child.hasFailed())) process.exitCode = 1;
      made.counts.duration_ms = Math.round((performance.now() - begun) * 1e6) / 1e6;
      const summary = [...made.notes, ...Object.keys(made.counts).map((name) => `${name} ${made.counts[name]}`)];
      writeOut(summary.map((line) => `ℹ ${line}\n`).join(''));
      const shown = made.failed.flatMap((item) => [...(item.at === undefined ? [] : [`test at ${item.at}`]), `${item.title()}\n  ${inspectWith(item.failure.reason, { breakLength: Infinity }).replaceAll('\n', '\n  ')}\n`]);
      if (shown.length > 0) writeOut(['\n✖ failing tests:\n', ...shown].join('\n'));
      $.listenForTests(undefined);
      $.scope = undefined;
      root = undefined;
    });
    return made;
  };

  // Adds a test or a suite. The arguments before the function are optional.
  const add = (parent, isSuite, [first, second, third], extra) => {
    const name = typeof first === 'string' ? first : undefined;
    const [options, body] = [[first, second], [second, third]].map(([settings, given]) => (typeof settings === 'function' ? [{}, settings] : [settings ?? {}, given]))[name === undefined ? 0 : 1];
    const called = typeof body === 'function' ? body : () => {};
    const item = new Item(parent, name || called.name || '<anonymous>', { __proto__: null, ...(typeof options === 'object' ? options : {}), ...extra }, called);
    item.isSuite = isSuite;
    parent.children.push(item);
    for (let above = parent; item.only && above !== undefined && (above.isSuite || above === above.root); above = above.parent) above.hasOnly = true;
    if (isSuite) {
      item.built = item.skip === undefined ? call(called, contextOf(item), item) : Promise.resolve();
      const close = () => item.root.entered.delete(item);
      item.built.then(close, close);
    }
    if (parent.isSuite) return undefined;
    parent.end = parent.end.then(() => item.run());
    return parent.end;
  };
  // Returns the test or suite whose function is on the stack. After an `await`, it is not in `current`.
  const enteredItem = ({ entered }) => {
    if (entered.size === 0) return undefined;
    const { prepareStackTrace, stackTraceLimit } = Error;
    Error.prepareStackTrace = (error, sites) => sites.map((site) => site.getFunction());
    // The interpreter's maximum.
    Error.stackTraceLimit = 64;
    const { stack } = new Error();
    Object.assign(Error, { prepareStackTrace, stackTraceLimit });
    for (const running of stack) for (const item of entered) if (item.body === running) return item;
    return undefined;
  };
  const parentOf = () => {
    const top = rootOf();
    if (current?.root === top) return current;
    const { scope } = $;
    return enteredItem(top) ?? (scope?.isSuite && top.entered.has(scope) ? scope : top);
  };
  const adder = (isSuite, name) => {
    const made = (extra, own) => ({ [own]: (...args) => add(parentOf(), isSuite, args, extra) })[own];
    return Object.assign(made({}, name), { skip: made({ skip: true }, 'skip'), todo: made({ todo: true }, 'todo'), only: made({ only: true }, 'only') });
  };
  const hook = (name, target) => ({
    [name](body) {
      if (typeof body !== 'function') throw $.functionError('fn', body);
      const item = target();
      item.hooks[name].push({ name, body, root: item.root, at: callerOf() });
    },
  })[name];
  const HOOKS = ['before', 'after', 'beforeEach', 'afterEach'];

  // Returns the functions of `assert` for one test, which count their calls for the test's plan.
  const countingAssert = (item) => {
    const made = {};
    for (const [name, check] of Object.entries(assert)) {
      if (typeof check !== 'function' || name === 'AssertionError' || name === 'strict') continue;
      made[name] = (...args) => {
        item.checks++;
        return check(...args);
      };
    }
    return made;
  };

  // Returns the object that the function of a test, a suite or a hook receives.
  const contextOf = (item) => {
    const context = {
      name: item.name,
      get fullName() {
        const names = [];
        for (let named = item; named !== undefined && named !== item.root; named = named.parent) names.unshift(named.name);
        return names.join(' > ');
      },
      get assert() {
        return (item.assert ??= countingAssert(item));
      },
      get signal() {
        return (item.controller ??= new AbortController()).signal;
      },
    };
    if (item.isSuite) return context;
    for (const name of HOOKS) context[name] = hook(name, () => item);
    return Object.assign(context, {
      mock: new MockTracker(),
      diagnostic: (message) => void item.notes.push(String(message)),
      skip: (message = true) => void (item.skip = message),
      todo: (message = true) => void (item.todo = message),
      plan(count) {
        if (typeof count !== 'number') throw $.coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "count" argument must be of type number. Received ${$.received(count)}`);
        item.plan = count;
      },
      test(...args) {
        item.checks++;
        return add(item, false, args, {});
      },
    });
  };

  const isFunction = (name, value) => {
    if (typeof value !== 'function') throw $.functionError(name, value);
  };
  // Replaces functions with functions that record their calls.
  class MockTracker {
    #restores = [];
    fn(original = () => {}, ...rest) {
      const { times = Infinity } = rest.find((given) => typeof given === 'object') ?? {};
      const implementation = rest[0] === undefined || typeof rest[0] === 'object' ? original : rest[0];
      isFunction('original', original);
      isFunction('implementation', implementation);
      let body = implementation;
      const once = new Map();
      const calls = [];
      let count = 0;
      const mocked = function (...args) {
        const call = { arguments: args, error: undefined, result: undefined, stack: new Error(), target: new.target && original, this: this };
        const chosen = once.get(count) ?? (count < times ? body : original);
        once.delete(count);
        count++;
        try {
          return (call.result = new.target === undefined ? chosen.apply(this, args) : Reflect.construct(chosen, args));
        } catch (error) {
          call.error = error;
          throw error;
        } finally {
          calls.push(call);
        }
      };
      const mock = {
        get calls() {
          return [...calls];
        },
        callCount: () => calls.length,
        mockImplementation(next) {
          isFunction('implementation', next);
          body = next;
        },
        mockImplementationOnce(next, onCall = count) {
          isFunction('implementation', next);
          once.set(onCall, next);
        },
        resetCalls() {
          calls.length = 0;
        },
        restore() {
          body = original;
        },
      };
      this.#restores.push(() => mock.restore());
      return Object.defineProperties(mocked, { name: { value: original.name }, length: { value: original.length }, mock: { value: mock } });
    }
    // Replaces the function in the field `field` of the property's descriptor.
    #replace(object, name, field, rest) {
      let holder = object;
      while (holder !== null && !Object.hasOwn(holder, name)) holder = Object.getPrototypeOf(holder);
      const found = holder === null ? undefined : Object.getOwnPropertyDescriptor(holder, name);
      const original = found?.[field];
      if (typeof original !== 'function') throw $.coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The argument 'methodName' must be a method. Received ${$.inspect(original, 0)}`);
      const mocked = this.fn(original, ...rest);
      mocked.mock.restore = () => (holder === object ? Object.defineProperty(object, name, found) : delete object[name]);
      const own = holder === object ? Object.getOwnPropertyDescriptor(object, name) : found;
      Object.defineProperty(object, name, { ...own, [field]: mocked, configurable: true });
      return mocked;
    }
    method(object, name, ...rest) {
      const { getter, setter } = rest.find((given) => typeof given === 'object') ?? {};
      return this.#replace(object, name, getter ? 'get' : setter ? 'set' : 'value', rest);
    }
    getter(object, name, ...rest) {
      return this.#replace(object, name, 'get', rest);
    }
    setter(object, name, ...rest) {
      return this.#replace(object, name, 'set', rest);
    }
    restoreAll() {
      this.#restores.forEach((restore) => restore());
    }
    reset() {
      this.restoreAll();
      this.#restores = [];
    }
  }

  const test = adder(false, 'test');
  const describe = adder(true, 'describe');
  const hooks = Object.fromEntries(HOOKS.map((name) => [name, hook(name, parentOf)]));
  $.node['node:test'] = Object.assign(test, hooks, { describe, it: test, suite: describe, test, mock: new MockTracker() });
}
