'use strict';
// The host's tools, as `tools.name({...})`, and `llm_query` and `rlm_query`, which call two of them.
//
// A call is one message to a device. The reply is a frame read from the device: the length in four bytes, then JSON.
// No descriptor stays open and no names are known in advance. A script without tools pays for nothing, and a script
// that was resumed elsewhere sees the tools of its new host.
{
  const $ = globalThis.$glovebox;
  const { std, uncurry } = $;
  const { formatKey, safeString } = $.text;

  const DEVICE = '/dev/glovebox/tools';
  // Maximum number of consecutive reads without a reply. A read returns early when the script must stop.
  const MOST_SILENCES = 3;
  // Maximum number of tools for which the error about an unknown tool lists all names.
  const MOST_NAMES = 20;
  // Maximum number of similar names in the error about an unknown tool.
  const MOST_SIMILAR = 3;
  // ASCII letters and digits, and all characters from U+00C0 except general punctuation. tools.py has the same pattern.
  const WORD = /[A-Z]*[0-9a-z\u00c0-\u1fff\u2070-\uffff]+|[A-Z]+/g;
  const NAME_WEIGHT = 4;
  const TEXT_WEIGHT = 1;

  const { open } = std;
  const { read: readBytes } = $.os;
  const close = uncurry(std.out.close);
  const puts = uncurry(std.out.puts);
  const flush = uncurry(std.out.flush);
  const hasFailed = uncurry(std.out.error);
  const fileno = uncurry(std.out.fileno);
  const readAsString = uncurry(std.out.readAsString);

  const { apply, defineProperty, get, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;
  const { isArray } = Array;
  const { abs, ceil, min } = Math;
  const { stringify } = JSON;
  const mapGet = uncurry(Map.prototype.get);
  const mapSet = uncurry(Map.prototype.set);
  const mapDelete = uncurry(Map.prototype.delete);
  const mapClear = uncurry(Map.prototype.clear);
  const mapForEach = uncurry(Map.prototype.forEach);
  const mapSize = uncurry(getOwnPropertyDescriptor(Map.prototype, 'size').get);
  const sort = uncurry(Array.prototype.sort);
  const exec = uncurry(RegExp.prototype.exec);
  const charCodeAt = uncurry(String.prototype.charCodeAt);
  const includes = uncurry(String.prototype.includes);
  const slice = uncurry(String.prototype.slice);
  const toLowerCase = uncurry(String.prototype.toLowerCase);
  const MapClass = Map;
  const PromiseClass = Promise;
  const Failure = Error;
  const ObjectPrototype = Object.prototype;

  class ToolError extends Error {}
  class ToolLimit extends ToolError {}
  class ToolTimeout extends ToolError {}
  class UnknownTool extends ToolError {}
  class InvalidArguments extends ToolError {}
  class ToolDenied extends ToolError {}
  const errors = { __proto__: null, ToolError, ToolLimit, ToolTimeout, UnknownTool, InvalidArguments, ToolDenied };
  for (const name in errors) {
    defineProperty(errors[name].prototype, 'name', { __proto__: null, value: name, writable: true, configurable: true });
  }

  const makeError = (type, message) => new (errors[type] ?? ToolError)(safeString(message));

  const header = new Uint8Array(4);
  // The functions that settle the promises of unanswered calls, by number.
  const pending = new MapClass();
  let lastNumber = 0;
  // Number of consecutive reads without a reply while calls are unanswered.
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

  // Writes `message`, if given, and reads a reply if `wantsReply`. Returns `undefined` if there is no reply.
  // Opens the device each time, because a script can close any descriptor and reuse its number.
  const exchange = (message, wantsReply) => {
    const device = open(DEVICE, 'r+');
    if (device === null) throw new ToolError('the sandbox has no tools');
    try {
      if (message !== undefined) {
        puts(device, message);
        flush(device);
        if (hasFailed(device)) {
          throw new ToolLimit('the arguments exceed `limits.tool_bytes`; send less or raise the limit');
        }
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
    // Reports the stack of the call, not of the reply.
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
    for (let i = 0; i < entries.length; i++) {
      mapSet(found, entries[i].name, { __proto__: null, entry: entries[i], call: undefined, words: undefined });
    }
    catalogue = found;
    return found;
  };

  // A lone surrogate would make the whole message invalid.
  const encode = (message) => $.withoutLoneSurrogates($.stringifyExact(message));

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
          const plural = parameters.length === 1 ? '' : 's';
          const problem = new InvalidArguments(`${name} takes ${parameters.length} argument${plural}, not ${args.length}`);
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

  const TYPES = {
    __proto__: null, string: 'string', integer: 'number', number: 'number', boolean: 'boolean', array: 'any[]', object: 'object', null: 'null',
  };
  const ownValue = (object, key) => {
    const isObject = typeof object === 'object' && object !== null;
    return isObject ? getOwnPropertyDescriptor(object, key)?.value : undefined;
  };

  // Returns the call of a tool in TypeScript notation, for people and models. The host validates the arguments.
  const signature = ({ name, schema, parameters }) => {
    const properties = ownValue(schema, 'properties');
    const required = ownValue(schema, 'required');
    let needed = '\n';
    if (isArray(required)) for (let i = 0; i < required.length; i++) needed += `${required[i]}\n`;
    let shown = '';
    for (let i = 0; i < parameters.length; i++) {
      const type = ownValue(ownValue(properties, parameters[i]), 'type');
      const optional = includes(needed, `\n${parameters[i]}\n`) ? '' : '?';
      shown += `${i === 0 ? '' : ', '}${formatKey(parameters[i], true)}${optional}: ${(typeof type === 'string' && TYPES[type]) || 'any'}`;
    }
    return shown === '' ? `tools.${name}()` : `tools.${name}({ ${shown} })`;
  };

  const summary = ({ entry }) => ({ name: entry.name, description: entry.description, signature: signature(entry) });

  // Returns the words of a text in lower case, each between two spaces. A name in camel case has several words.
  const spaced = (text) => {
    let out = ' ';
    WORD.lastIndex = 0;
    for (let hit = exec(WORD, text); hit !== null; hit = exec(WORD, text)) out += `${toLowerCase(hit[0])} `;
    return out;
  };

  // Returns the words of a tool's name, and those of its description and parameters.
  const searched = (known) => {
    if (known.words === undefined) {
      const { name, description, schema, parameters } = known.entry;
      const properties = ownValue(schema, 'properties');
      let text = description;
      for (let i = 0; i < parameters.length; i++) {
        const about = ownValue(ownValue(properties, parameters[i]), 'description');
        text += ` ${parameters[i]} ${typeof about === 'string' ? about : ''}`;
      }
      known.words = { __proto__: null, name: spaced(name), text: spaced(text) };
    }
    return known.words;
  };

  // Returns two search texts for each distinct word of a query. `whole` matches the whole word. `start` matches words
  // that start with it, ignoring a final `s`. For a word of one or two letters, both match only the whole word.
  const patternsOf = (query) => {
    const patterns = [];
    const text = spaced(query);
    let seen = ' ';
    let from = 1;
    for (let i = 1; i < text.length; i++) {
      if (text[i] !== ' ') continue;
      const word = slice(text, from, i);
      const whole = ` ${word} `;
      from = i + 1;
      if (includes(seen, whole)) continue;
      seen += `${word} `;
      const isPlural = word.length > 3 && slice(word, -1) === 's';
      const start = word.length < 3 ? whole : ` ${isPlural ? slice(word, 0, -1) : word}`;
      patterns[patterns.length] = { __proto__: null, whole, start };
    }
    return patterns;
  };

  const points = (text, { whole, start }) => (includes(text, whole) ? 2 : includes(text, start) ? 1 : 0);

  // Returns the tools with a positive score, the highest score first, then by name.
  const ranked = (score) => {
    const found = [];
    mapForEach(offered(), (known) => {
      const value = score(known);
      if (value > 0) found[found.length] = { __proto__: null, known, value };
    });
    return sort(found, (one, other) => other.value - one.value);
  };

  const matching = (patterns) => ranked((known) => {
    const { name, text } = searched(known);
    let score = 0;
    for (let i = 0; i < patterns.length; i++) {
      score += NAME_WEIGHT * points(name, patterns[i]) + TEXT_WEIGHT * points(text, patterns[i]);
    }
    return score;
  });

  // Returns the number of characters to insert, delete or replace to turn one text into the other.
  const distance = (one, other) => {
    const row = [];
    for (let j = 0; j <= other.length; j++) row[j] = j;
    for (let i = 1; i <= one.length; i++) {
      let diagonal = row[0];
      row[0] = i;
      for (let j = 1; j <= other.length; j++) {
        const above = row[j];
        const isSame = charCodeAt(one, i - 1) === charCodeAt(other, j - 1);
        row[j] = isSame ? diagonal : 1 + min(diagonal, above, row[j - 1]);
        diagonal = above;
      }
    }
    return row[other.length];
  };
  $.distance = distance;

  // Returns the tools with a similar spelling.
  const spelled = (name) => {
    const most = ceil(name.length / 3);
    return ranked(({ entry }) => (abs(entry.name.length - name.length) > most ? 0 : most + 1 - distance(name, entry.name)));
  };

  const unknownTool = (name) => {
    let similar = spelled(name);
    if (similar.length === 0) similar = matching(patternsOf(name));
    let names = '';
    for (let i = 0; i < similar.length && i < MOST_SIMILAR; i++) names += `${i === 0 ? '' : ', '}${similar[i].known.entry.name}`;
    const hint = names === '' ? 'find tools with `tools.search(query)`' : `similar tools: ${names}`;
    return new UnknownTool(`the host has no tool \`${name}\`; ${hint}`);
  };

  // The properties of `tools` that are not tools. A tool with the same name replaces its helper. Arguments can also be
  // passed by name, in an object.
  const helpers = {
    __proto__: null,
    // Finds at most `limit` tools by words of their names, descriptions and parameters. The best match is first. A query
    // without words matches all tools.
    search(query = '', limit = 5) {
      if (isPlain(query)) return helpers.search(query.query, query.limit);
      const patterns = patternsOf(`${query}`);
      const found = patterns.length === 0 ? ranked(() => 1) : matching(patterns);
      const list = [];
      for (let i = 0; i < found.length && i < limit; i++) list[i] = summary(found[i].known);
      return list;
    },
    // Returns a tool with its schema.
    describe(name) {
      if (isPlain(name)) return helpers.describe(name.name);
      const known = mapGet(offered(), name);
      if (known === undefined) throw unknownTool(`${name}`);
      return { ...summary(known), schema: known.entry.schema };
    },
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
      if (name in helpers) return helpers[name];
      if (name in target) return get(target, name);
      if (mapSize(offered()) > MOST_NAMES) throw unknownTool(name);
      let names = '';
      mapForEach(offered(), (_, known) => {
        names += `${names === '' ? '' : ', '}${known}`;
      });
      throw new UnknownTool(`the host has no tool \`${name}\`; available tools: ${names === '' ? 'none' : names}`);
    },
    has: (target, name) => name in errors || name in helpers || find(name) !== undefined,
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
