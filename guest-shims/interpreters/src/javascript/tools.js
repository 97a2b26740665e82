'use strict';
// The host's functions, as `tools.name({...})`; `llm_query` and `rlm_query`, which call two of them.
//
// A call is one message to a device, its reply a frame read from it: its length in four bytes, then JSON. Nothing is kept
// open and nothing is known beforehand: a script that uses no tools pays for none, and one that was resumed elsewhere,
// where there may be others, is not misled.
{
  const $ = globalThis.$glovebox;
  const { std, uncurry } = $;
  const { safeString } = $.text;

  const DEVICE = '/dev/glovebox/tools';
  // A read returns early when the script is asked to stop.
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
  // By number: what settles the promises of the calls that are to be answered.
  const pending = new MapClass();
  let lastNumber = 0;
  // How often in a row the host has said nothing though there are calls.
  let silences = 0;
  // What the host offers, by name, once it was asked.
  let catalogue;

  $.forget = () => {
    mapClear(pending);
    lastNumber = 0;
    catalogue = undefined;
    silences = 0;
    $.release();
    $.litter(false);
  };

  // Writes a message, if there is one, and reads a reply if one is wanted; `undefined` where none comes. The device is
  // opened each time: a script may close any descriptor, and open another in its place.
  const exchange = (message, wantsReply) => {
    const device = open(DEVICE, 'r+');
    if (device === null) throw new ToolError('the host offers no tools here');
    try {
      if (message !== undefined) {
        puts(device, message);
        flush(device);
        if (hasFailed(device)) throw new ToolLimit('the arguments are more than the host takes (`limits.tool_bytes`)');
      }
      if (!wantsReply) return undefined;
      const got = readBytes(fileno(device), header.buffer, 0, 4);
      if (got === 0) return undefined;
      if (got !== 4) throw new ToolLimit('there is no memory for the reply');
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
    // The place of the call, not of the answer.
    $.text.setFrames(reason, $.text.framesOf(call));
    call.reject(reason);
  };

  // When the host's answer is for no call, or will never come, it is for all.
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

  // Waits for the next reply, at most so many milliseconds, and settles its promise. Whether one came.
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
      failAll(() => new ToolError('the host does not answer'));
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
    // Half a character would make the whole message unreadable.
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

  // For `fetch`: what the host does for scripts that is none of its tools.
  $.invoke = invoke;
  // Nobody waits for the answer any longer: the host ends the call with the execution.
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
      // What the language itself asks of any object is no tool's name.
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
    if (call === undefined) throw new UnknownTool(`the host has registered no tool \`${name}\`; it must, for \`${name}()\` to work`);
    return call;
  };

  const queries = {
    // Asks a language model.
    async llm_query(...args) {
      return apply(required('llm_query'), undefined, args);
    },
    // Gives a task to another session, with a context of its own: the global `context`, unless one is given.
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
