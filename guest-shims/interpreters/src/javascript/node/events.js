'use strict';
// `require('events')`, and the globals `EventTarget`, `Event`, `AbortController`.
{
  const $ = $glovebox;
  const { coded } = $;

  const CAPTURES = Symbol('kCapture');
  const SHAPE = Symbol('shapeMode');
  const MONITOR = Symbol('events.errorMonitor');
  const REJECTION = Symbol.for('nodejs.rejection');

  // As in Node, `_events` has the function itself for an event with one listener, and an array for one with more.
  const clear = (emitter) => {
    emitter._events = { __proto__: null };
    emitter._eventsCount = 0;
    return emitter._events;
  };
  const listenersOf = (emitter) => (Object.hasOwn(emitter, '_events') && emitter._events ? emitter._events : clear(emitter));
  const listOf = (listeners) => (listeners === undefined ? [] : typeof listeners === 'function' ? [listeners] : listeners);
  const check = (listener) => {
    if (typeof listener !== 'function') throw $.functionError('listener', listener);
  };

  const insert = (emitter, name, listener, isFirst) => {
    check(listener);
    if (listenersOf(emitter).newListener !== undefined) emitter.emit('newListener', name, listener.listener ?? listener);
    const all = listenersOf(emitter);
    // Creates a new list, so that a listener that adds or removes others does not affect the current event.
    if (all[name] === undefined) {
      all[name] = listener;
      emitter._eventsCount++;
    } else all[name] = isFirst ? [listener, ...listOf(all[name])] : [...listOf(all[name]), listener];
    return emitter;
  };

  const onceOnly = (emitter, name, listener) => {
    check(listener);
    const once = function (...args) {
      emitter.removeListener(name, once);
      return listener.apply(this, args);
    };
    once.listener = listener;
    return Object.defineProperty(once, 'name', { value: 'bound onceWrapper' });
  };

  // Passes the rejection of a listener's promise to the emitter, for `captureRejections`.
  const capture = (emitter, result, name, args) => {
    const report = (error) => {
      if (typeof emitter[REJECTION] === 'function') {
        emitter[REJECTION](error, name, ...args);
        return;
      }
      const before = emitter[CAPTURES];
      try {
        emitter[CAPTURES] = false; // otherwise, a listener of `error` that rejects would be called without end
        emitter.emit('error', error);
      } finally {
        emitter[CAPTURES] = before;
      }
    };
    try {
      result.then?.(undefined, (error) => process.nextTick(report, error));
    } catch (error) {
      emitter.emit('error', error);
    }
  };

  // A function rather than a class, so that older code may call it without `new`.
  function EventEmitter(options) {
    const isShared = this._events !== undefined && this._events !== Object.getPrototypeOf(this)?._events;
    if (!isShared) clear(this);
    this._maxListeners ||= undefined;
    this[SHAPE] = isShared;
    this[CAPTURES] = Boolean(options?.captureRejections ?? EventEmitter.captureRejections);
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
      const list = listOf(all[name]);
      const at = list.findLastIndex((each) => each === listener || each.listener === listener);
      if (at < 0) return this;
      if (list.length > 2) all[name] = list.toSpliced(at, 1);
      else if (list.length === 2) all[name] = list[1 - at];
      else {
        delete all[name];
        this._eventsCount--;
      }
      if (all.removeListener !== undefined) this.emit('removeListener', name, listener);
      return this;
    },
    removeAllListeners(name) {
      const all = listenersOf(this);
      const isTold = all.removeListener !== undefined;
      // The listeners of `removeListener` are removed last.
      const names = name === undefined ? Reflect.ownKeys(all).filter((each) => each !== 'removeListener') : [name];
      for (const each of isTold ? names : []) {
        for (const listener of listOf(all[each]).toReversed()) this.removeListener(each, listener);
      }
      if (name === undefined) clear(this);
      else if (all[name] !== undefined) {
        delete all[name];
        this._eventsCount--;
      }
      return this;
    },
    emit(name, ...args) {
      const all = listenersOf(this);
      const listeners = all[name];
      if (name === 'error' && all[MONITOR] !== undefined) this.emit(MONITOR, ...args);
      if (listeners === undefined) {
        if (name !== 'error') return false;
        if (args[0] instanceof Error) throw args[0];
        throw Object.assign(coded(Error, 'ERR_UNHANDLED_ERROR', `Unhandled error. (${$.inspect(args[0], 2)})`), { context: args[0] });
      }
      for (const listener of listOf(listeners)) {
        const result = listener.apply(this, args);
        if (result !== undefined && result !== null && this[CAPTURES]) capture(this, result, name, args);
      }
      return true;
    },
    listenerCount(name, listener) {
      const list = listOf(listenersOf(this)[name]);
      return listener === undefined ? list.length : list.filter((each) => each === listener || each.listener === listener).length;
    },
    listeners(name) {
      return listOf(listenersOf(this)[name]).map((each) => each.listener ?? each);
    },
    rawListeners(name) {
      return [...listOf(listenersOf(this)[name])];
    },
    eventNames() {
      return Reflect.ownKeys(listenersOf(this));
    },
    setMaxListeners(count) {
      if (typeof count !== 'number') {
        throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "setMaxListeners" argument must be of type number. Received ${$.received(count)}`);
      }
      if (!(count >= 0)) {
        throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "setMaxListeners" is out of range. It must be >= 0. Received ${$.inspect(count, 0)}`);
      }
      this._maxListeners = count;
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
  EventEmitter.prototype._eventsCount = 0;
  EventEmitter.prototype._maxListeners = undefined;

  class AbortError extends Error {}
  $.abortError = ({ reason }) => Object.assign(new AbortError('The operation was aborted', { cause: reason }), { name: 'AbortError', code: 'ABORT_ERR' });

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
  EventEmitter.captureRejections = false;
  EventEmitter.captureRejectionSymbol = REJECTION;
  EventEmitter.errorMonitor = MONITOR;
  EventEmitter.EventEmitter = EventEmitter;
  EventEmitter.listenerCount = (emitter, name) => emitter.listenerCount(name);
  EventEmitter.getEventListeners = (emitter, name) => (emitter instanceof EventTarget ? listenersOn(emitter, name) : emitter.listeners(name));
  EventEmitter.getMaxListeners = (emitter) => emitter.getMaxListeners?.() ?? EventEmitter.defaultMaxListeners;
  EventEmitter.setMaxListeners = (count = EventEmitter.defaultMaxListeners, ...emitters) => {
    if (emitters.length === 0) EventEmitter.defaultMaxListeners = count;
    for (const emitter of emitters) emitter.setMaxListeners?.(count);
  };
  $.node.events = EventEmitter;

  // Prints an object as Node does: with the given properties instead of its own.
  const printed = (kind, propertiesOf) => {
    const show = {
      [$.CUSTOM](depth, options) {
        const name = this.constructor.name;
        return depth < 0 ? name : `${name} ${$.inspectWith(propertiesOf(this), { ...options, depth: options.depth === null ? null : options.depth - 1 })}`;
      },
    };
    Object.defineProperty(kind.prototype, $.CUSTOM, { value: show[$.CUSTOM], writable: true, configurable: true });
    Object.defineProperty(kind.prototype, Symbol.toStringTag, { value: kind.name, configurable: true });
  };

  class Event {
    #stops = false;
    #type;
    #isCancelable;
    #isPrevented = false;
    #target = null;
    #bubbles;
    #isDispatched = false;
    #time = performance.now();
    constructor(type, options) {
      if (arguments.length === 0) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "type" argument must be specified');
      this.#type = `${type}`;
      this.#isCancelable = Boolean(options?.cancelable);
      this.#bubbles = Boolean(options?.bubbles);
    }
    get type() {
      return this.#type;
    }
    get cancelable() {
      return this.#isCancelable;
    }
    get defaultPrevented() {
      return this.#isPrevented;
    }
    get timeStamp() {
      return this.#time;
    }
    get target() {
      return this.#target;
    }
    get currentTarget() {
      return this.#target;
    }
    get bubbles() {
      return this.#bubbles;
    }
    get isTrusted() {
      return false;
    }
    get eventPhase() {
      return this.#isDispatched ? 2 : 0;
    }
    composedPath() {
      return this.#isDispatched ? [this.#target] : [];
    }
    preventDefault() {
      if (this.#isCancelable) this.#isPrevented = true;
    }
    stopPropagation() {}
    stopImmediatePropagation() {
      this.#stops = true;
    }
    static stops(event) {
      return event.#stops;
    }
    static aim(event, target, isDispatched) {
      event.#target = target;
      event.#isDispatched = isDispatched;
    }
  }
  const { stops, aim } = Event;
  delete Event.stops;
  delete Event.aim;
  printed(Event, ({ type, defaultPrevented, cancelable, timeStamp }) => ({ type, defaultPrevented, cancelable, timeStamp }));

  class CustomEvent extends Event {
    #detail;
    constructor(type, options) {
      super(type, options);
      this.#detail = options?.detail ?? null;
    }
    get detail() {
      return this.#detail;
    }
  }
  Object.defineProperty(CustomEvent.prototype, Symbol.toStringTag, { value: 'CustomEvent', configurable: true });

  class EventTarget {
    #listeners = new Map();
    addEventListener(type, listener, options) {
      if (listener === null || listener === undefined) return;
      if (typeof listener !== 'function' && typeof listener !== 'object') {
        throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "listener" argument must be an instance of EventListener. Received ${$.received(listener)}`);
      }
      if (options?.signal?.aborted) return;
      const list = this.#listeners.get(type) ?? [];
      if (list.some((each) => each.listener === listener)) return;
      options?.signal?.addEventListener('abort', () => this.removeEventListener(type, listener), { once: true });
      this.#listeners.set(type, [...list, { listener, once: Boolean(options?.once) }]);
    }
    removeEventListener(type, listener) {
      const list = this.#listeners.get(type) ?? [];
      this.#listeners.set(type, list.filter((each) => each.listener !== listener));
    }
    dispatchEvent(event) {
      if (!(event instanceof Event)) throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "event" argument must be an instance of Event. Received ${$.received(event)}`);
      aim(event, this, true);
      try {
        for (const { listener, once } of this.#listeners.get(event.type) ?? []) {
          if (once) this.removeEventListener(event.type, listener);
          if (typeof listener === 'function') listener.call(this, event);
          else listener.handleEvent(event);
          if (stops(event)) break;
        }
      } finally {
        aim(event, this, false);
      }
      return !event.defaultPrevented;
    }
    static listenersOn(target, type) {
      return (target.#listeners.get(type) ?? []).map(({ listener }) => listener);
    }
  }
  const { listenersOn } = EventTarget;
  delete EventTarget.listenersOn;
  printed(EventTarget, () => ({}));

  let mayMake = false;
  class AbortSignal extends EventTarget {
    #isAborted = false;
    #reason;
    #listener = null;
    constructor() {
      if (!mayMake) throw coded(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor');
      super();
    }
    get aborted() {
      return this.#isAborted;
    }
    get reason() {
      return this.#reason;
    }
    get onabort() {
      return this.#listener;
    }
    set onabort(listener) {
      this.#listener = typeof listener === 'function' ? listener : null;
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
      // As in Node, the timer does not keep the script running.
      setTimeout(() => controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError')), delay)?.unref?.();
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
    static end(signal, reason) {
      signal.#isAborted = true;
      signal.#reason = reason;
    }
  }
  const { end } = AbortSignal;
  delete AbortSignal.end;
  printed(AbortSignal, ({ aborted }) => ({ aborted }));

  class AbortController {
    #signal;
    constructor() {
      mayMake = true;
      this.#signal = new AbortSignal();
      mayMake = false;
    }
    get signal() {
      return this.#signal;
    }
    abort(reason = new DOMException('This operation was aborted', 'AbortError')) {
      const { signal } = this;
      if (signal.aborted) return;
      end(signal, reason);
      const event = new Event('abort');
      aim(event, signal, true);
      signal.onabort?.call(signal, event);
      signal.dispatchEvent(event);
    }
  }
  printed(AbortController, ({ signal }) => ({ signal }));
  for (const made of [Event, CustomEvent, EventTarget, AbortSignal, AbortController]) $.provide(made.name, made);
}
