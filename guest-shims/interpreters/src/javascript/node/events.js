'use strict';
// `require('events')`, and the globals `EventTarget`, `Event`, `AbortController`.
{
  const $ = $glovebox;
  const { coded } = $;

  const listenersOf = (emitter) => (Object.hasOwn(emitter, '_events') && emitter._events ? emitter._events : (emitter._events = { __proto__: null }));
  const check = (listener) => {
    if (typeof listener !== 'function') {
      throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "listener" argument must be of type function. Received ${$.received(listener)}`);
    }
  };

  const insert = (emitter, name, listener, isFirst) => {
    check(listener);
    const all = listenersOf(emitter);
    if (all.newListener !== undefined) emitter.emit('newListener', name, listener.listener ?? listener);
    // Creates a new list, so that a listener that adds or removes others does not affect the current event.
    all[name] = isFirst ? [listener, ...(all[name] ?? [])] : [...(all[name] ?? []), listener];
    return emitter;
  };

  const onceOnly = (emitter, name, listener) => {
    check(listener);
    const once = function (...args) {
      emitter.removeListener(name, once);
      return listener.apply(this, args);
    };
    once.listener = listener;
    return once;
  };

  // A function rather than a class, so that older code may call it without `new`.
  function EventEmitter() {
    listenersOf(this);
  }
  const methods = {
    on(name, listener) {
      return insert(this, name, listener, false);
    },
    prependListener(name, listener) {
      return insert(this, name, listener, true);
    },
    once(name, listener) {
      return insert(this, name, onceOnly(this, name, listener), false);
    },
    prependOnceListener(name, listener) {
      return insert(this, name, onceOnly(this, name, listener), true);
    },
    removeListener(name, listener) {
      check(listener);
      const all = listenersOf(this);
      const list = all[name] ?? [];
      const at = list.findLastIndex((each) => each === listener || each.listener === listener);
      if (at < 0) return this;
      if (list.length === 1) delete all[name];
      else all[name] = list.toSpliced(at, 1);
      if (all.removeListener !== undefined) this.emit('removeListener', name, listener);
      return this;
    },
    removeAllListeners(name) {
      const all = listenersOf(this);
      const isTold = all.removeListener !== undefined;
      // The listeners of `removeListener` are removed last.
      const names = name === undefined ? Reflect.ownKeys(all).filter((each) => each !== 'removeListener') : [name];
      for (const each of isTold ? names : []) {
        for (const listener of (all[each] ?? []).toReversed()) this.removeListener(each, listener);
      }
      if (name === undefined) this._events = { __proto__: null };
      else delete all[name];
      return this;
    },
    emit(name, ...args) {
      const list = listenersOf(this)[name];
      if (list === undefined) {
        if (name !== 'error') return false;
        if (args[0] instanceof Error) throw args[0];
        throw Object.assign(coded(Error, 'ERR_UNHANDLED_ERROR', `Unhandled error. (${$.inspect(args[0], 2)})`), { context: args[0] });
      }
      for (const listener of list) listener.apply(this, args);
      return true;
    },
    listenerCount(name, listener) {
      const list = listenersOf(this)[name] ?? [];
      return listener === undefined ? list.length : list.filter((each) => each === listener || each.listener === listener).length;
    },
    listeners(name) {
      return (listenersOf(this)[name] ?? []).map((each) => each.listener ?? each);
    },
    rawListeners(name) {
      return [...(listenersOf(this)[name] ?? [])];
    },
    eventNames() {
      return Reflect.ownKeys(listenersOf(this));
    },
    setMaxListeners(count) {
      Object.defineProperty(this, '_maxListeners', { value: count, writable: true, configurable: true });
      return this;
    },
    getMaxListeners() {
      return this._maxListeners ?? EventEmitter.defaultMaxListeners;
    },
  };
  methods.addListener = methods.on;
  methods.off = methods.removeListener;
  for (const name of Object.keys(methods)) EventEmitter.prototype[name] = methods[name];
  EventEmitter.prototype._events = undefined;

  $.abortError = ({ reason }) => Object.assign(new Error('The operation was aborted', { cause: reason }), { name: 'AbortError', code: 'ABORT_ERR' });

  EventEmitter.once = (emitter, name, { signal } = {}) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) throw $.abortError(signal);
      const isTarget = typeof emitter.addEventListener === 'function';
      const stop = () => {
        if (isTarget) emitter.removeEventListener(name, done);
        else emitter.removeListener(name, done).removeListener('error', fail);
        signal?.removeEventListener('abort', abort);
      };
      const fail = (error) => {
        stop();
        reject(error);
      };
      const abort = () => fail($.abortError(signal));
      const done = (...args) => {
        stop();
        resolve(args);
      };
      if (isTarget) emitter.addEventListener(name, done, { once: true });
      else emitter.once(name, done);
      if (!isTarget && name !== 'error') emitter.once('error', fail);
      signal?.addEventListener('abort', abort, { once: true });
    });

  EventEmitter.on = (emitter, name, { signal } = {}) => {
    if (signal?.aborted) throw $.abortError(signal);
    const ready = [];
    const waiting = [];
    const push = (how, value) => (waiting.length > 0 ? waiting.shift()[how](value) : ready.push([how, value]));
    const take = (...args) => push('resolve', { value: args, done: false });
    const fail = (error) => push('reject', error);
    emitter.on(name, take);
    if (name !== 'error') emitter.on('error', fail);
    const stop = () => {
      emitter.off('error', fail);
      emitter.off(name, take);
      signal?.removeEventListener('abort', abort);
    };
    const abort = () => {
      stop();
      fail($.abortError(signal));
    };
    signal?.addEventListener('abort', abort, { once: true });
    return {
      next: () =>
        new Promise((resolve, reject) => {
          if (ready.length === 0) {
            waiting.push({ resolve, reject });
            return;
          }
          const [how, value] = ready.shift();
          (how === 'resolve' ? resolve : reject)(value);
        }),
      async return() {
        stop();
        return { value: undefined, done: true };
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  };
  EventEmitter.defaultMaxListeners = 10;
  EventEmitter.EventEmitter = EventEmitter;
  EventEmitter.listenerCount = (emitter, name) => emitter.listenerCount(name);
  $.node.events = EventEmitter;

  class Event {
    #stops = false;
    constructor(type, options = {}) {
      this.type = `${type}`;
      this.cancelable = Boolean(options.cancelable);
      this.defaultPrevented = false;
      this.timeStamp = performance.now();
      this.target = null;
    }
    preventDefault() {
      if (this.cancelable) this.defaultPrevented = true;
    }
    stopPropagation() {}
    stopImmediatePropagation() {
      this.#stops = true;
    }
    static stops(event) {
      return event.#stops;
    }
  }
  const { stops } = Event;
  delete Event.stops;

  class CustomEvent extends Event {
    constructor(type, options = {}) {
      super(type, options);
      this.detail = options.detail ?? null;
    }
  }

  class EventTarget {
    #listeners = new Map();
    addEventListener(type, listener, options) {
      if (listener === null || listener === undefined) return;
      const list = this.#listeners.get(type) ?? [];
      if (list.some((each) => each.listener === listener)) return;
      this.#listeners.set(type, [...list, { listener, once: Boolean(options?.once) }]);
    }
    removeEventListener(type, listener) {
      const list = this.#listeners.get(type) ?? [];
      this.#listeners.set(type, list.filter((each) => each.listener !== listener));
    }
    dispatchEvent(event) {
      event.target = this;
      event.currentTarget = this;
      for (const { listener, once } of this.#listeners.get(event.type) ?? []) {
        if (once) this.removeEventListener(event.type, listener);
        if (typeof listener === 'function') listener.call(this, event);
        else listener.handleEvent(event);
        if (stops(event)) break;
      }
      return !event.defaultPrevented;
    }
  }

  let mayMake = false;
  class AbortSignal extends EventTarget {
    constructor() {
      if (!mayMake) throw coded(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor');
      super();
      this.aborted = false;
      this.reason = undefined;
      this.onabort = null;
    }
    throwIfAborted() {
      if (this.aborted) throw this.reason;
    }
    static abort(reason) {
      const controller = new AbortController();
      controller.abort(reason);
      return controller.signal;
    }
    static timeout(delay) {
      const controller = new AbortController();
      setTimeout(() => controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError')), delay);
      return controller.signal;
    }
    static any(signals) {
      const controller = new AbortController();
      for (const signal of signals) {
        if (signal.aborted) controller.abort(signal.reason);
        else signal.addEventListener('abort', () => controller.abort(signal.reason), { once: true });
      }
      return controller.signal;
    }
  }
  class AbortController {
    constructor() {
      mayMake = true;
      this.signal = new AbortSignal();
      mayMake = false;
    }
    abort(reason = new DOMException('This operation was aborted', 'AbortError')) {
      const { signal } = this;
      if (signal.aborted) return;
      signal.aborted = true;
      signal.reason = reason;
      const event = new Event('abort');
      if (typeof signal.onabort === 'function') signal.onabort(event);
      signal.dispatchEvent(event);
    }
  }
  for (const made of [Event, CustomEvent, EventTarget, AbortSignal, AbortController]) $.provide(made.name, made);
}
