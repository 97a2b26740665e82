'use strict';
// `console` and `print`.
{
  const $ = globalThis.$glovebox;
  const { inspect, join, uncurry, writeErr, writeOut } = $;
  const { formatNumber, hasOwnText, isError, read, safeString } = $.text;

  const { parseInt, parseFloat, Number } = globalThis;
  const indexOf = uncurry(String.prototype.indexOf);
  const includes = uncurry(String.prototype.includes);
  const charCodeAt = uncurry(String.prototype.charCodeAt);
  const slice = uncurry(String.prototype.slice);
  const repeat = uncurry(String.prototype.repeat);
  const padEnd = uncurry(String.prototype.padEnd);
  const toFixed = uncurry(Number.prototype.toFixed);
  const mapGet = uncurry(Map.prototype.get);
  const mapSet = uncurry(Map.prototype.set);
  const mapDelete = uncurry(Map.prototype.delete);
  const mapForEach = uncurry(Map.prototype.forEach);
  const { stringify } = JSON;
  const { isArray } = Array;
  const { keys } = Object;
  const MapClass = Map;
  const Failure = Error;
  const now = uncurry(performance.now);
  const clock = performance;

  // Node opens two levels of nested objects.
  const DEPTH = 2;

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
    if (typeof value === 'string') return value;
    if (typeof value === 'object' && value !== null) return hasOwnText(value) && !isError(value) ? safeString(value) : inspect(value, 0);
    return inspect(value, 0);
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
      case 111: return inspect(value, 4);
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

  const cells = (row, columns, add) => {
    if (row === null || (typeof row !== 'object' && typeof row !== 'function')) return { __proto__: null, own: inspect(row, 0) };
    const found = { __proto__: null, at: new MapClass() };
    const names = keys(row);
    for (let i = 0; i < names.length; i++) {
      add(names[i]);
      mapSet(found.at, names[i], inspect(read(row, names[i]), 0));
    }
    return found;
  };

  const table = (data, chosen) => {
    if (data === null || typeof data !== 'object') return inspect(data, DEPTH);
    const heads = [];
    const known = new MapClass();
    const add = (name) => {
      if (mapGet(known, name)) return;
      mapSet(known, name, true);
      heads[heads.length] = name;
    };
    const rows = [];
    let plain = false;
    const addRow = (name, row) => {
      const found = cells(row, heads, add);
      plain ||= found.own !== undefined;
      rows[rows.length] = { __proto__: null, name, found };
    };
    let index = 0;
    if (data instanceof MapClass) mapForEach(data, (value, key) => addRow(inspect(key, 0), { Value: value, index: index++ }));
    else {
      const names = keys(data);
      for (let i = 0; i < names.length; i++) addRow(names[i], data[names[i]]);
    }
    const shown = isArray(chosen) ? chosen : heads;
    const grid = [['(index)']];
    for (let c = 0; c < shown.length; c++) grid[0][c + 1] = `${shown[c]}`;
    if (plain) grid[0][grid[0].length] = 'Values';
    for (let r = 0; r < rows.length; r++) {
      const line = [rows[r].name];
      for (let c = 0; c < shown.length; c++) line[c + 1] = rows[r].found.at === undefined ? '' : mapGet(rows[r].found.at, shown[c]) ?? '';
      if (plain) line[line.length] = rows[r].found.own ?? '';
      grid[r + 1] = line;
    }
    const widths = [];
    for (let c = 0; c < grid[0].length; c++) {
      let width = 0;
      for (let r = 0; r < grid.length; r++) if (grid[r][c].length > width) width = grid[r][c].length;
      widths[c] = width + 2;
    }
    const rule = (left, middle, right) => {
      const parts = [];
      for (let c = 0; c < widths.length; c++) parts[c] = repeat('─', widths[c]);
      return left + join(parts, middle) + right + '\n';
    };
    const line = (row) => {
      const parts = [];
      for (let c = 0; c < widths.length; c++) parts[c] = padEnd(` ${row[c]}`, widths[c]);
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
      const frames = $.userFrames(`${read(new Failure(), 'stack')}`);
      toErr(`Trace${args.length === 0 ? '' : `: ${format(args)}`}\n${slice(frames, 0, -1)}`);
    },
    dir: (value, options) => {
      const depth = read(options ?? {}, 'depth');
      toOut(inspect(value, depth === null ? Infinity : typeof depth === 'number' ? depth : DEPTH));
    },
    dirxml: (...args) => toOut(args.length === 0 ? '' : format(args)),
    table: (data, columns) => {
      let text;
      try {
        text = table(data, columns);
      } catch {
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
  $.global('console', methods);
  $.global('print', print);
  $.resetConsole = () => {
    indent = '';
  };
}
