'use strict';
// The host's tools, as `tools.name({...})`, and `llm_query` and `rlm_query`, which call two of them.
//
// A call is one message to a device. The reply is a frame read from the device: the length in four bytes, then JSON.
// No descriptor stays open and no names are known in advance. A script without tools pays for nothing, and a script
// that was resumed elsewhere sees the tools of its new host.
{
  const $ = globalThis.$glovebox;
  const { std, uncurry } = $;
  const { safeString } = $.text;

  const DEVICE = '/dev/glovebox/tools';
  // Maximum number of consecutive reads without a reply. A read returns early when the script must stop.
  const MOST_SILENCES = 3;

  const { open } = std;
  const { read: readBytes } = $.os;
  const close = uncurry(std.out.close);
  const puts = uncurry(std.out.puts);
  const flush = uncurry(std.out.flush);
  const hasFailed = uncurry(std.out.error);
  const fileno = uncurry(std.out.fileno);
  const readAsString = uncurry(std.out.readAsString);

  const { apply, defineProperty, get, getPrototypeOf } = Reflect;
  const { isArray } = Array;
  const { stringify } = JSON;
  const mapGet = uncurry(Map.prototype.get);
  const mapSet = uncurry(Map.prototype.set);
  const mapDelete = uncurry(Map.prototype.delete);
  const mapClear = uncurry(Map.prototype.clear);
  const mapForEach = uncurry(Map.prototype.forEach);
  const toWellFormed = uncurry(String.prototype.toWellFormed);
  const MapClass = Map;
  const PromiseClass = Promise;
  const Failure = Error;
  const ObjectPrototype = Object.prototype;

  class ToolError extends Error {}
  class ToolLimit extends ToolError {}
  class ToolTimeout extends ToolError {}
  class UnknownTool extends ToolError {}
  class InvalidArguments extends ToolError {}
  const errors = { __proto__: null, ToolError, ToolLimit, ToolTimeout, UnknownTool, InvalidArguments };
  for (const name in errors) {
    defineProperty(errors[name].prototype, 'name', { __proto__: null, value: name, writable: true, configurable: true });
  }

  const makeError = (type, message) => new (errors[type] ?? ToolError)(safeString(message));

  const header = new Uint8Array(4);
  // The functions that settle the promises of unanswered calls, by number.
  const pending = new MapClass();
  let lastNumber = 0;
  // Number of consecutive empty answers of the host while calls are unanswered.
  let silences = 0;
  // The host's tools by name, once requested.
  let catalogue;

  $.forget = () => {
    mapClear(pending);
    lastNumber = 0;
    catalogue = undefined;
    silences = 0;
    $.release();
    $.litter(false);
  };

  // Writes a message, if there is one, and reads a reply if one is wanted. Returns `undefined` without a reply. The
  // device is opened each time, because a script may close any descriptor and open another one in its place.
  const exchange = (message, wantsReply) => {
    const device = open(DEVICE, 'r+');
    if (device === null) throw new ToolError('the host offers no tools here');
    try {
      if (message !== undefined) {
        puts(device, message);
        flush(device);
        if (hasFailed(device)) throw new ToolLimit('the arguments exceed `limits.tool_bytes`');
      }
      if (!wantsReply) return undefined;
      const got = readBytes(fileno(device), header.buffer, 0, 4);
      if (got === 0) return undefined;
      if (got !== 4) throw new ToolLimit('not enough memory for the reply');
      return $.parseExact(readAsString(device, header[0] + header[1] * 0x100 + header[2] * 0x10000 + header[3] * 0x1000000));
    } finally {
      close(device);
    }
  };

  const take = (number) => {
    const call = mapGet(pending, number);
    if (call !== undefined) {
      mapDelete(pending, number);
      $.expect(-1);
    }
    return call;
  };

  const fail = (call, reason) => {
    // The stack of the call, not of the reply.
    $.text.setFrames(reason, $.text.framesOf(call));
    call.reject(reason);
  };

  // Rejects all unanswered calls, after a reply without a call's number or if the device or the host fails.
  const failAll = (make) => {
    mapForEach(pending, (call, number) => {
      take(number);
      fail(call, make());
    });
  };

  const deliver = (reply) => {
    const refused = reply.error;
    if (reply.id === null) {
      failAll(() => makeError(refused.type, refused.message));
      return;
    }
    const call = take(reply.id);
    if (call === undefined) return;
    if (refused !== undefined) fail(call, makeError(refused.type, refused.message));
    else call.resolve(reply.ok);
  };

  // Waits for the next reply, at most `wait` milliseconds or, if `wait` is `null`, without a limit. Settles the reply's
  // promise. Returns `false` if no reply came within `wait`.
  $.answer = (wait) => {
    let reply;
    try {
      reply = exchange(wait === null ? undefined : stringify({ wait }), true);
    } catch (reason) {
      if (!(reason instanceof ToolError)) throw reason;
      failAll(() => new ToolError(reason.message));
      return true;
    }
    if (reply !== undefined) {
      silences = 0;
      deliver(reply);
      return true;
    }
    if (wait !== null) return false;
    if (++silences === MOST_SILENCES) {
      silences = 0;
      failAll(() => new ToolError('the host did not answer'));
    }
    return true;
  };

  const offered = () => {
    if (catalogue !== undefined) return catalogue;
    $.litter(true);
    const found = new MapClass();
    let reply = exchange('{"list":true}', true);
    while (reply !== undefined && reply.tools === undefined) {
      deliver(reply);
      reply = exchange(undefined, true);
    }
    const entries = reply === undefined ? [] : reply.tools;
    for (let i = 0; i < entries.length; i++) mapSet(found, entries[i].name, { __proto__: null, entry: entries[i], call: undefined });
    catalogue = found;
    return found;
  };

  const encode = (message) => {
    const text = stringify(message);
    // A lone surrogate would make the whole message invalid.
    return $.hasLoneSurrogate(text) ? stringify(message, (key, value) => (typeof value === 'string' ? toWellFormed(value) : value)) : text;
  };

  const invoke = (name, named, begun) => {
    const { stack } = new Failure();
    return new PromiseClass((resolve, reject) => {
      const call = { __proto__: null, resolve, reject, stack };
      $.litter(true);
      const id = ++lastNumber;
      const text = encode({ id, name, arguments: named });
      try {
        exchange(text, false);
      } catch (reason) {
        fail(call, reason);
        return;
      }
      mapSet(pending, id, call);
      $.expect(1);
      if (begun !== undefined) begun(id);
    });
  };

  // `fetch` uses this for the host's services that are not tools.
  $.invoke = invoke;
  // Abandons a call whose reply is no longer awaited. The host ends the call with the execution.
  $.abandon = (number) => {
    take(number);
  };

  const put = (object, key, value) => {
    defineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  };

  const isPlain = (value) => {
    if (typeof value !== 'object' || value === null || isArray(value)) return false;
    const prototype = getPrototypeOf(value);
    return prototype === ObjectPrototype || prototype === null;
  };

  const made = ({ name, description, schema, parameters }) => {
    const call = {
      [name](...args) {
        if (args.length === 0) return invoke(name, {});
        if (args.length === 1 && isPlain(args[0])) return invoke(name, args[0]);
        if (args.length > parameters.length) {
          const problem = new InvalidArguments(`${name} takes ${parameters.length} arguments, not ${args.length}`);
          return new PromiseClass((_, reject) => reject(problem));
        }
        const named = {};
        for (let i = 0; i < args.length; i++) put(named, parameters[i], args[i]);
        return invoke(name, named);
      },
    }[name];
    put(call, 'description', description);
    put(call, 'schema', schema);
    return call;
  };

  const find = (name) => {
    const known = typeof name === 'string' ? mapGet(offered(), name) : undefined;
    if (known === undefined) return undefined;
    known.call ??= made(known.entry);
    return known.call;
  };

  const refuse = () => false;
  const tools = new Proxy({}, {
    __proto__: null,
    get: (target, name) => {
      // The language looks up these names on every object, so they are not tools.
      if (typeof name === 'symbol' || name === 'then' || name === 'toJSON') return get(target, name);
      if (name in errors) return errors[name];
      const call = find(name);
      if (call !== undefined) return call;
      if (name in target) return get(target, name);
      let names = '';
      mapForEach(offered(), (_, known) => {
        names += `${names === '' ? '' : ', '}${known}`;
      });
      throw new UnknownTool(`the host has no tool \`${name}\`; it has ${names === '' ? 'none' : names}`);
    },
    has: (target, name) => name in errors || find(name) !== undefined,
    ownKeys: () => {
      const names = [];
      mapForEach(offered(), (_, name) => {
        names[names.length] = name;
      });
      return names;
    },
    getOwnPropertyDescriptor: (target, name) => {
      const value = find(name);
      return value === undefined ? undefined : { value, writable: true, enumerable: true, configurable: true };
    },
    set: refuse,
    defineProperty: refuse,
    deleteProperty: refuse,
    setPrototypeOf: refuse,
    preventExtensions: refuse,
  });

  const required = (name) => {
    const call = find(name);
    if (call === undefined) throw new UnknownTool(`the host has no tool \`${name}\`, which \`${name}()\` requires`);
    return call;
  };

  const queries = {
    // Queries a language model.
    async llm_query(...args) {
      return apply(required('llm_query'), undefined, args);
    },
    // Runs a task in another session with its own context, by default the global `context`.
    async rlm_query(...args) {
      const isBare = args.length === 1 && !isPlain(args[0]) && typeof context !== 'undefined';
      if (isBare) args[1] = context;
      return apply(required('rlm_query'), undefined, args);
    },
  };

  $.global('tools', tools);
  $.global('llm_query', queries.llm_query);
  $.global('rlm_query', queries.rlm_query);
}
