'use strict';
// `console` and `print`.
{
  const $ = globalThis.$glovebox;
  const { inspect, inspectWith, join, uncurry, writeErr, writeOut } = $;
  const { formatNumber, hasOwnText, read, safeString } = $.text;

  const { parseInt, parseFloat, Number } = globalThis;
  const indexOf = uncurry(String.prototype.indexOf);
  const includes = uncurry(String.prototype.includes);
  const charCodeAt = uncurry(String.prototype.charCodeAt);
  const slice = uncurry(String.prototype.slice);
  const repeat = uncurry(String.prototype.repeat);
  const codePointAt = uncurry(String.prototype.codePointAt);
  const toFixed = uncurry(Number.prototype.toFixed);
  const mapGet = uncurry(Map.prototype.get);
  const mapSet = uncurry(Map.prototype.set);
  const mapDelete = uncurry(Map.prototype.delete);
  const mapForEach = uncurry(Map.prototype.forEach);
  const setForEach = uncurry(Set.prototype.forEach);
  const hasOwnProperty = uncurry(Object.prototype.hasOwnProperty);
  const { max } = Math;
  const { stringify } = JSON;
  const { isArray } = Array;
  const { keys } = Object;
  const MapClass = Map;
  const SetClass = Set;
  const WrongType = TypeError;
  const Failure = Error;
  const now = uncurry(performance.now);
  const clock = performance;

  // Node expands two levels of nested objects.
  const DEPTH = 2;
  // The options for `%o`, for table cells whose value has many keys, and for all other table cells.
  const WHOLE = { __proto__: null, depth: 4, showHidden: true };
  const CLOSED = { __proto__: null, depth: -1, maxArrayLength: 3, breakLength: Infinity };
  const OPEN = { __proto__: null, ...CLOSED, depth: 0 };

  const asNumber = (value, convert) => {
    if (typeof value === 'bigint') return `${value}n`;
    if (typeof value === 'symbol') return 'NaN';
    try {
      return formatNumber(convert(value));
    } catch {
      return 'NaN';
    }
  };

  const asString = (value) => {
    if (typeof value === 'number' || typeof value === 'bigint') return inspect(value, 0);
    return typeof value === 'object' && value !== null && !hasOwnText(value) ? inspect(value, 0) : safeString(value);
  };

  const asJson = (value) => {
    try {
      return `${stringify(value)}`;
    } catch (error) {
      return includes(`${read(error, 'message')}`, 'circular') ? '[Circular]' : '[object]';
    }
  };

  const directive = (code, value) => {
    switch (code) {
      case 115: return asString(value);
      case 100: return asNumber(value, Number);
      case 105: return asNumber(value, parseInt);
      case 102: return asNumber(value, parseFloat);
      case 106: return asJson(value);
      case 111: return inspectWith(value, WHOLE);
      case 79: return inspect(value, DEPTH);
      case 99: return '';
      default: return undefined;
    }
  };

  const format = (args) => {
    const first = args[0];
    if (args.length === 1) return typeof first === 'string' ? first : inspect(first, DEPTH);
    let next = 0;
    let text = '';
    if (typeof first === 'string') {
      next = 1;
      let from = 0;
      for (let at = indexOf(first, '%'); at >= 0 && at + 1 < first.length; at = indexOf(first, '%', at)) {
        const code = charCodeAt(first, at + 1);
        if (code === 37) {
          text += slice(first, from, at + 1);
          from = at += 2;
          continue;
        }
        const replaced = next < args.length ? directive(code, args[next]) : undefined;
        if (replaced === undefined) {
          at++;
          continue;
        }
        next++;
        text += slice(first, from, at) + replaced;
        from = at += 2;
      }
      text += slice(first, from);
    }
    for (let i = next; i < args.length; i++) {
      if (i > 0) text += ' ';
      text += typeof args[i] === 'string' ? args[i] : inspect(args[i], DEPTH);
    }
    return text;
  };

  $.format = format;

  let indent = '';
  const indented = (text) => {
    if (indent === '') return text + '\n';
    let out = '';
    for (let from = 0; ; ) {
      const at = indexOf(text, '\n', from);
      if (at < 0) return out + indent + slice(text, from) + '\n';
      out += indent + slice(text, from, at + 1);
      from = at + 1;
    }
  };
  const toOut = (text) => writeOut(indented(text));
  const toErr = (text) => writeErr(indented(text));

  const label = (name) => (name === undefined ? 'default' : safeString(name));
  const counts = new MapClass();
  const timers = new MapClass();

  const elapsed = (name) => {
    const began = mapGet(timers, name);
    if (began === undefined) return undefined;
    const ms = now(clock) - began;
    return ms >= 1000 ? `${toFixed(ms / 1000, 3)}s` : `${toFixed(ms, 3)}ms`;
  };

  const cell = (value) => {
    const isLarge = typeof value === 'object' && value !== null && !isArray(value) && keys(value).length > 2;
    return inspectWith(value, isLarge ? CLOSED : OPEN);
  };

  // Returns the number of columns of a text in a terminal. East Asian characters and pictograms take two.
  const columnsOf = (text) => {
    let width = text.length;
    for (let i = 0; i < text.length; i++) {
      const code = codePointAt(text, i);
      if (code > 0xffff) i++;
      if (code < 0x300) continue;
      if (code < 0x370 || (code >= 0x200b && code <= 0x200f) || (code >= 0xfe00 && code <= 0xfe0f)) width--;
      else if ((code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf && code !== 0x303f) || (code >= 0xac00 && code <= 0xd7a3) ||
        (code >= 0xf900 && code <= 0xfaff) || (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) || (code >= 0xffe0 && code <= 0xffe6)) width++;
      else if (code > 0xffff && !((code >= 0x1f300 && code <= 0x1f64f) || (code >= 0x1f900 && code <= 0x1f9ff) || (code >= 0x20000 && code <= 0x3fffd))) width--;
    }
    return width;
  };

  // Fills the columns for the members of a map or a set.
  const members = (grid, isMap, forEach, data) => {
    grid[0] = isMap ? ['(iteration index)', 'Key', 'Values'] : ['(iteration index)', 'Values'];
    forEach(data, (value, key) => {
      const index = `${grid.length - 1}`;
      grid[grid.length] = isMap ? [index, cell(key), cell(value)] : [index, cell(value)];
    });
  };

  // Fills the columns for the items of a list or an object: the keys of all items, or the chosen keys.
  const items = (grid, data, chosen) => {
    const names = keys(data);
    const rows = [];
    const own = [];
    const heads = { __proto__: null };
    let hasOwn = false;
    for (let r = 0; r < names.length; r++) {
      const item = data[names[r]];
      const isPrimitive = item === null || (typeof item !== 'object' && typeof item !== 'function');
      rows[r] = { __proto__: null };
      own[r] = '';
      if (isPrimitive && chosen === undefined) {
        hasOwn = true;
        own[r] = cell(item);
        continue;
      }
      const wanted = chosen ?? keys(item);
      for (let c = 0; c < wanted.length; c++) {
        heads[wanted[c]] = true;
        rows[r][wanted[c]] = isPrimitive || !hasOwnProperty(item, wanted[c]) ? '' : cell(item[wanted[c]]);
      }
    }
    const shown = keys(heads);
    grid[0] = ['(index)'];
    for (let c = 0; c < shown.length; c++) grid[0][c + 1] = shown[c];
    if (hasOwn) grid[0][shown.length + 1] = 'Values';
    for (let r = 0; r < names.length; r++) {
      const line = [names[r]];
      for (let c = 0; c < shown.length; c++) line[c + 1] = rows[r][shown[c]] ?? '';
      if (hasOwn) line[line.length] = own[r];
      grid[r + 1] = line;
    }
  };

  const table = (data, chosen) => {
    const grid = [];
    if (data instanceof MapClass) members(grid, true, mapForEach, data);
    else if (data instanceof SetClass) members(grid, false, setForEach, data);
    else items(grid, data, chosen);
    const widths = [];
    for (let c = 0; c < grid[0].length; c++) {
      let width = 0;
      for (let r = 0; r < grid.length; r++) width = max(width, columnsOf(grid[r][c]));
      widths[c] = width + 2;
    }
    const rule = (left, middle, right) => {
      const parts = [];
      for (let c = 0; c < widths.length; c++) parts[c] = repeat('─', widths[c]);
      return left + join(parts, middle) + right + '\n';
    };
    const line = (row) => {
      const parts = [];
      for (let c = 0; c < widths.length; c++) parts[c] = ` ${row[c]}${repeat(' ', widths[c] - 1 - columnsOf(row[c]))}`;
      return `│${join(parts, '│')}│\n`;
    };
    let text = rule('┌', '┬', '┐') + line(grid[0]) + rule('├', '┼', '┤');
    for (let r = 1; r < grid.length; r++) text += line(grid[r]);
    return slice(text + rule('└', '┴', '┘'), 0, -1);
  };

  const log = (...args) => toOut(args.length === 0 ? '' : format(args));
  const warn = (...args) => toErr(args.length === 0 ? '' : format(args));
  const print = (...args) => {
    const texts = [];
    for (let i = 0; i < args.length; i++) texts[i] = typeof args[i] === 'string' ? args[i] : inspect(args[i], DEPTH);
    toOut(join(texts, ' '));
  };

  const methods = {
    log,
    info: (...args) => toOut(args.length === 0 ? '' : format(args)),
    debug: (...args) => toOut(args.length === 0 ? '' : format(args)),
    warn,
    error: (...args) => toErr(args.length === 0 ? '' : format(args)),
    trace: (...args) => {
      const frames = $.text.framesOf(new Failure());
      toErr(`Trace${args.length === 0 ? '' : `: ${format(args)}`}\n${frames}`);
    },
    dir: (value, options) => {
      const depth = read(options ?? {}, 'depth');
      toOut(inspect(value, depth === null ? Infinity : typeof depth === 'number' ? depth : DEPTH));
    },
    dirxml: (...args) => toOut(args.length === 0 ? '' : format(args)),
    table: (data, columns) => {
      if (columns !== undefined && !isArray(columns)) throw new WrongType('The "properties" argument must be an instance of Array');
      if (data === null || typeof data !== 'object') {
        log(data);
        return;
      }
      let text;
      try {
        text = table(data, columns);
      } catch {
        // A Proxy's trap threw.
        text = inspect(data, DEPTH);
      }
      toOut(text);
    },
    assert: (condition, ...args) => {
      if (condition) return;
      if (args.length > 0 && typeof args[0] === 'string') args[0] = `Assertion failed: ${args[0]}`;
      toErr(args.length === 0 ? 'Assertion failed' : typeof args[0] === 'string' ? format(args) : `Assertion failed ${format(args)}`);
    },
    count: (name) => {
      const key = label(name);
      const count = (mapGet(counts, key) ?? 0) + 1;
      mapSet(counts, key, count);
      toOut(`${key}: ${count}`);
    },
    countReset: (name) => {
      mapDelete(counts, label(name));
    },
    time: (name) => {
      mapSet(timers, label(name), now(clock));
    },
    timeLog: (name, ...args) => {
      const took = elapsed(label(name));
      if (took !== undefined) toOut(`${label(name)}: ${took}${args.length === 0 ? '' : ` ${format(args)}`}`);
    },
    timeEnd: (name) => {
      const took = elapsed(label(name));
      mapDelete(timers, label(name));
      if (took !== undefined) toOut(`${label(name)}: ${took}`);
    },
    group: (...args) => {
      if (args.length > 0) toOut(format(args));
      indent += '  ';
    },
    groupEnd: () => {
      indent = slice(indent, 2);
    },
    clear: () => {},
  };
  methods.groupCollapsed = methods.group;
  $.console = methods;
  $.global('console', methods);
  $.global('print', print);
  $.resetConsole = () => {
    indent = '';
  };
}
