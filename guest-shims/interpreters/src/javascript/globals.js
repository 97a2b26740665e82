'use strict';
// Timers, exit, and the other globals that are not part of the language.
{
  const $ = globalThis.$glovebox;
  const { uncurry } = $;
  const native = { __proto__: null, sleep: $.os.sleep, now: uncurry(performance.now), clock: performance, queueMicrotask };

  // Node's maximum delay. A longer delay becomes one millisecond, as in Node.
  const MOST_DELAY_MS = 2147483647;
  // Maximum nesting of iterator helpers. They call each other without a stack check, so deeper nesting would trap.
  const MOST_HELPERS = 1000;

  const bind = uncurry(Function.prototype.bind);
  const mapGet = uncurry(Map.prototype.get);
  const mapSet = uncurry(Map.prototype.set);
  const mapDelete = uncurry(Map.prototype.delete);
  const mapClear = uncurry(Map.prototype.clear);
  const hasOwn = uncurry(Object.prototype.hasOwnProperty);
  const weakGet = uncurry(WeakMap.prototype.get);
  const weakSet = uncurry(WeakMap.prototype.set);
  const { apply, construct, defineProperty } = Reflect;
  const { ceil, max } = Math;
  const dateNow = Date.now;
  const PromiseClass = Promise;
  const Failure = TypeError;
  const OutOfRange = RangeError;

  // The words shared with the host, see `state.rs`. `FRESH_ORIGIN` and `OLD_ORIGIN` are indices in `times`, all others
  // in `words`.
  const words = new Int32Array(new ArrayBuffer(48));
  const times = new Float64Array(words.buffer);
  const WAITING = 0;
  const EXITED = 1;
  const EXIT_CODE = 2;
  const FRESH_ORIGIN = 2;
  const OLD_ORIGIN = 3;
  const LITTER = 8;
  const LEAVING = 9;
  const LISTENING = 10;
  const WANTED = 11;
  $.buffer = words.buffer;

  // A heap of timers by due time, then by age. It has no prototype, because scripts may define numeric setters on
  // `Array.prototype`.
  let heap = { __proto__: null };
  let heapSize = 0;
  let nextId = 1;
  const live = new Map();
  const now = () => native.now(native.clock);
  const before = (a, b) => a.due < b.due || (a.due === b.due && a.id < b.id);

  const push = (timer) => {
    let at = heapSize++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(timer, heap[parent])) break;
      heap[at] = heap[parent];
      at = parent;
    }
    heap[at] = timer;
  };

  const pop = () => {
    const top = heap[0];
    const last = heap[--heapSize];
    delete heap[heapSize];
    if (heapSize > 0) {
      let at = 0;
      for (;;) {
        let child = at * 2 + 1;
        if (child >= heapSize) break;
        if (child + 1 < heapSize && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], last)) break;
        heap[at] = heap[child];
        at = child;
      }
      heap[at] = last;
    }
    return top;
  };

  // Number of unanswered calls to the host's tools.
  let calls = 0;
  // The function to call when no other work is left.
  let ending;

  // Number of timers that keep the script alive: those on which the script has not called `unref()`.
  let referenced = 0;
  const count = () => {
    words[WAITING] = referenced + calls + (ending === undefined ? 0 : 1);
  };

  $.expect = (more) => {
    calls += more;
    count();
  };

  $.lastly = (action) => {
    ending = action;
    count();
  };

  // Sets the flag that makes the host call `forget` at the end of the execution.
  $.litter = (is) => {
    words[LITTER] = is ? 1 : 0;
  };

  // Kinds of timers: one-shot, repeating, and immediate, which runs after the timers that are due.
  const ONCE = 0;
  const AGAIN = 1;
  const AT_ONCE = 2;

  // The test that the running code belongs to, for `node:test`. Timers restore it for their callbacks.
  $.scope = undefined;

  const start = (callback, delay, args, every) => {
    if (typeof callback !== 'function') throw $.functionError('callback', callback);
    let wait = +delay;
    if (every === AT_ONCE) wait = 0;
    else if (!(wait >= 1 && wait <= MOST_DELAY_MS)) wait = 1;
    let call = callback;
    if (args.length > 0) {
      const bound = [callback, undefined];
      for (let i = 0; i < args.length; i++) bound[i + 2] = args[i];
      call = apply(bind, undefined, bound);
    }
    const timer = { id: nextId++, due: 0, wait, call, every: every === AGAIN ? wait : 0, isReferenced: true, scope: $.scope };
    arm(timer);
    return timer;
  };

  // Adds a timer to the heap, due after its delay.
  const arm = (timer) => {
    timer.due = now() + timer.wait;
    mapSet(live, timer.id, timer);
    if (timer.isReferenced) referenced++;
    push(timer);
    count();
  };

  const stop = (id) => {
    const timer = mapGet(live, id);
    if (timer === undefined) return;
    mapDelete(live, id);
    if (timer.isReferenced) referenced--;
    count();
  };

  // Returns the timer of a `Timeout` or an `Immediate`, and `undefined` for any other value.
  let recordOf;
  const refer = (timer, is) => {
    if (timer.isReferenced === is) return;
    timer.isReferenced = is;
    if (!is) $.litter(true);
    if (mapGet(live, timer.id) !== timer) return;
    referenced += is ? 1 : -1;
    count();
  };
  class Immediate {
    #timer;
    constructor(timer) {
      this.#timer = timer;
    }
    static {
      recordOf = (object) => (typeof object === 'object' && object !== null && #timer in object ? object.#timer : undefined);
      this.replace = (object, timer) => {
        object.#timer = timer;
      };
    }
    ref() {
      refer(this.#timer, true);
      return this;
    }
    unref() {
      refer(this.#timer, false);
      return this;
    }
    hasRef() {
      return this.#timer.isReferenced;
    }
  }
  const { replace } = Immediate;
  delete Immediate.replace;
  // A separate class, so that scripts can distinguish timeouts from immediates.
  class Timeout extends Immediate {
    refresh() {
      const timer = recordOf(this);
      if (timer.isClosed) return this;
      stop(timer.id);
      // The heap still contains the old record, which is no longer live.
      const fresh = { ...timer };
      replace(this, fresh);
      arm(fresh);
      return this;
    }
    close() {
      clear(this);
      return this;
    }
  }
  const toPrimitive = function () {
    return recordOf(this).id;
  };
  const dispose = function () {
    clear(this);
  };
  defineProperty(Timeout.prototype, Symbol.toPrimitive, { __proto__: null, value: toPrimitive, writable: true, configurable: true });
  if (Symbol.dispose !== undefined) {
    defineProperty(Immediate.prototype, Symbol.dispose, { __proto__: null, value: dispose, writable: true, configurable: true });
  }

  // Stops a timer, given as an object or as its number.
  const clear = (given) => {
    const timer = recordOf(given);
    if (timer !== undefined) {
      timer.isClosed = true;
      stop(timer.id);
    } else if (typeof given === 'number' || typeof given === 'string') stop(+given);
  };

  const setTimeout = (callback, delay, ...args) => new Timeout(start(callback, delay, args, ONCE));
  const setInterval = (callback, delay, ...args) => new Timeout(start(callback, delay, args, AGAIN));
  const setImmediate = (callback, ...args) => new Immediate(start(callback, 0, args, AT_ONCE));
  const clearTimeout = (timer) => clear(timer);
  const clearInterval = (timer) => clear(timer);
  const clearImmediate = (timer) => clear(timer);

  // Targets of weak references created or dereferenced in the running job. The language keeps them until the job ends.
  const kept = new Set();
  const keptAdd = uncurry(Set.prototype.add);
  const keptClear = uncurry(Set.prototype.clear);
  const keep = (target) => {
    if (target === undefined) return;
    keptAdd(kept, target);
    $.litter(true);
  };
  // Releases the kept targets at the end of an execution, and the timers that the execution did not wait for.
  $.release = () => {
    keptClear(kept);
    heap = { __proto__: null };
    heapSize = 0;
    mapClear(live);
    referenced = 0;
    count();
  };
  const NativeRef = WeakRef;
  const deref = uncurry(NativeRef.prototype.deref);
  const references = {
    WeakRef: function WeakRef(target) {
      if (new.target === undefined) throw new Failure("Constructor WeakRef requires 'new'");
      const made = construct(NativeRef, [target], new.target);
      keep(target);
      return made;
    },
    deref() {
      const target = deref(this);
      keep(target);
      return target;
    },
  };
  defineProperty(references.WeakRef, 'prototype', { __proto__: null, value: NativeRef.prototype, writable: false });
  for (const [name, value] of [['constructor', references.WeakRef], ['deref', references.deref]]) {
    defineProperty(NativeRef.prototype, name, { __proto__: null, value, writable: true, configurable: true });
  }

  // The interpreter's `Promise.any` rejects with an error that has no message. This one adds Node's message.
  const nativeAny = PromiseClass.any;
  const Aggregate = AggregateError;
  const { any } = {
    any(promises) {
      const Class = this;
      const Reporting = function (executor) {
        return new Class((resolve, reject) => executor(resolve, (error) => {
          if (error instanceof Aggregate && !hasOwn(error, 'message')) {
            defineProperty(error, 'message', { __proto__: null, value: 'All promises were rejected', writable: true, configurable: true });
          }
          reject(error);
        }));
      };
      Reporting.resolve = (value) => Class.resolve(value);
      return apply(nativeAny, Reporting, [promises]);
    },
  };
  defineProperty(PromiseClass, 'any', { __proto__: null, value: any, writable: true, configurable: true });

  // Waits for the next timer and returns its callback. The host calls the callback, so that it has no frame of the boot
  // scripts below it. While tool calls are unanswered, also waits for answers. Returns `undefined` if one comes first.
  $.tick = () => {
    keptClear(kept);
    while (heapSize > 0 && mapGet(live, heap[0].id) !== heap[0]) pop();
    if (calls > 0 && $.answer(heapSize > 0 ? max(ceil(heap[0].due - now()), 0) : null)) return undefined;
    // Timers with `unref()` must not extend the execution once no other work is left.
    if (heapSize > 0 && (referenced > 0 || calls > 0)) {
      const timer = heap[0];
      for (let wait = timer.due - now(); wait > 0; wait = timer.due - now()) native.sleep(ceil(wait));
      pop();
      if (timer.every > 0) {
        // Counts from now. Otherwise, a callback that runs longer than its interval would starve other timers.
        timer.due = now() + timer.every;
        push(timer);
      } else stop(timer.id);
      $.scope = timer.scope;
      return timer.call;
    }
    mapClear(live);
    referenced = 0;
    const last = ending;
    ending = undefined;
    count();
    return last;
  };

  // Discards the remaining work of an execution that failed or exited.
  $.reset = () => {
    calls = 0;
    ending = undefined;
    $.resetConsole();
    $.forget();
    $.resetProcess?.();
    words[LEAVING] = 0;
    words[WAITING] = 0;
    words[EXITED] = 0;
    words[WANTED] = 0;
  };
  // Records that the script waits for packages that the host must make importable. Returns `true` for the first
  // request.
  $.wantPackages = () => {
    const isFirst = words[WANTED] === 0;
    words[WANTED] = 1;
    return isFirst;
  };

  // An error that the interpreter itself marked as uncatchable. Throwing it runs no `catch` and no `finally`.
  let unwinding;
  $.arm = (error) => {
    unwinding = error;
  };
  const exit = (code) => {
    words[EXIT_CODE] = code === undefined ? 0 : code | 0;
    words[EXITED] = 1;
    throw unwinding;
  };

  // Sets the exit code of a script that ends without calling an exit function.
  $.leaveWith = (code) => {
    words[LEAVING] = code;
  };

  // The handler for uncaught errors. `undefined` until the script adds a listener to `process`.
  let heed;
  $.listen = (how) => {
    heed = how;
    words[LISTENING] = 1;
  };
  // Passes an uncaught error, and the promise that was rejected with it, to the script's listeners. Returns 1 if a
  // listener handled the error, and 0 otherwise. Throws a listener's exception.
  $.uncaught = (error, promise) => (heed(error, promise) ? 1 : 0);

  // Adds Node's error for a value that is not a function.
  const checked = {
    queueMicrotask(callback) {
      if (typeof callback !== 'function') throw $.functionError('callback', callback);
      native.queueMicrotask(callback);
    },
  };

  const sleepAsync = (delay) => new PromiseClass((resolve) => setTimeout(resolve, delay));
  const handler = () => {
    throw new Failure('read and write handlers are not available in this sandbox; read `std.in` instead');
  };

  $.overrides = {
    __proto__: null,
    std: { __proto__: null, exit },
    os: {
      __proto__: null, setTimeout, clearTimeout, setInterval, clearInterval, sleepAsync, setReadHandler: handler, setWriteHandler: handler,
    },
  };
  $.global('setTimeout', setTimeout);
  $.global('setInterval', setInterval);
  $.global('clearTimeout', clearTimeout);
  $.global('clearInterval', clearInterval);
  $.global('setImmediate', setImmediate);
  $.global('clearImmediate', clearImmediate);
  $.global('WeakRef', references.WeakRef);
  $.global('queueMicrotask', checked.queueMicrotask);

  // The interpreter's `performance.timeOrigin` is the value of its monotonic clock at boot, equal in every instance.
  let origin;
  const timeNow = performance.now;
  const clock = {
    now: timeNow,
    get timeOrigin() {
      origin ??= dateNow() - now();
      return origin;
    },
    toJSON: () => ({ timeOrigin: clock.timeOrigin }),
  };
  times[OLD_ORIGIN] = performance.timeOrigin;
  // The host replaces the interpreter's origin with this one, so that `performance.now()` restarts at zero.
  times[FRESH_ORIGIN] = times[OLD_ORIGIN] + now();
  $.global('performance', clock);
  // The library uses these, because a script may declare the same names, and reading an uninitialised binding throws.
  $.builtins = { __proto__: null, performance: clock, setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate };

  const depths = new WeakMap();
  const Helpers = globalThis.Iterator?.prototype;
  const guard = (name) => {
    const helper = Helpers?.[name];
    if (typeof helper !== 'function') return;
    const guarded = {
      [name](argument) {
        const depth = ((typeof this === 'object' && this !== null && weakGet(depths, this)) || 0) + 1;
        if (depth > MOST_HELPERS) {
          throw new OutOfRange(`more than ${MOST_HELPERS} nested iterator helpers; use a loop instead`);
        }
        const made = apply(helper, this, [argument]);
        weakSet(depths, made, depth);
        return made;
      },
    }[name];
    defineProperty(Helpers, name, { __proto__: null, value: guarded, writable: true, configurable: true, enumerable: false });
  };
  guard('map');
  guard('filter');
  guard('take');
  guard('drop');
  guard('flatMap');
}
