'use strict';
// CSV as defined in RFC 4180: `parse(text, options)` and `stringify(rows, options)`.

// Parses CSV to a list of rows. Options: `header` (true: objects with the first row's names as keys; false: arrays),
// `delimiter` (','), `trim` (false).
function parse(text, options = {}) {
  const { header = true, delimiter = ',', trim = false } = options;
  if (typeof text !== 'string') throw new TypeError('parse: the text must be a string');
  if (typeof delimiter !== 'string' || delimiter.length !== 1 || delimiter === '"') {
    throw new TypeError('parse: the delimiter must be one character other than a double quote');
  }
  const rows = [];
  let row = [];
  let at = text.startsWith('\ufeff') ? 1 : 0;
  const add = (field) => row.push(field);
  let isQuoted = false;
  while (at < text.length || row.length > 0) {
    if (text[at] === '"') {
      isQuoted = true;
      let field = '';
      for (at++; ; at++) {
        const end = text.indexOf('"', at);
        if (end < 0) throw new SyntaxError(`parse: unclosed quote in row ${rows.length + 1}`);
        field += text.slice(at, end);
        at = end + 1;
        if (text[at] !== '"') break;
        field += '"';
      }
      add(field);
    } else {
      let end = at;
      while (end < text.length && text[end] !== delimiter && text[end] !== '\n' && text[end] !== '\r') end++;
      add(trim ? text.slice(at, end).trim() : text.slice(at, end));
      at = end;
    }
    if (text[at] === delimiter) {
      at++;
      if (at < text.length) continue;
      add('');
    } else if (at < text.length && text[at] !== '\n' && text[at] !== '\r') {
      throw new SyntaxError(`parse: unexpected text after a closing quote in row ${rows.length + 1}`);
    }
    if (text[at] === '\r') at++;
    if (text[at] === '\n') at++;
    // An empty line is not a row, but a quoted empty field is.
    if (row.length > 1 || row[0] !== '' || isQuoted) rows.push(row);
    row = [];
    isQuoted = false;
  }
  if (!header) return rows;
  const [names = [], ...records] = rows;
  return records.map((record) => {
    const made = {};
    names.forEach((name, i) => {
      // A column may have any name, even `__proto__`.
      Object.defineProperty(made, name, { value: record[i] ?? '', writable: true, enumerable: true, configurable: true });
    });
    return made;
  });
}

// Converts a list of objects or arrays to CSV. Options: `header` (true), `columns` (the names, in order), `delimiter`
// (','), `newline` ('\n'). `null` and `undefined` become empty fields, objects become JSON, and other values, including
// zero and false, become text.
function stringify(rows, options = {}) {
  const { header = true, delimiter = ',', newline = '\n' } = options;
  if (!Array.isArray(rows)) throw new TypeError('stringify: the rows must be an array');
  const special = new Set([delimiter, '"', '\n', '\r']);
  const cell = (value) => {
    if (value === null || value === undefined) return '';
    const text = value instanceof Date && !Number.isNaN(value.getTime()) ? value.toISOString() : typeof value === 'object' ? JSON.stringify(value) : String(value);
    const isPlain = text === text.trim() && ![...text].some((c) => special.has(c));
    return isPlain ? text : `"${text.replaceAll('"', '""')}"`;
  };
  const line = (values) => {
    const text = values.map(cell).join(delimiter);
    // A row of one empty cell would be an empty line.
    return text === '' ? '""' : text;
  };
  const areArrays = rows.every(Array.isArray);
  const names = options.columns ?? (areArrays ? undefined : [...new Set(rows.flatMap((row) => Object.keys(row)))]);
  const lines = rows.map((row) => line(Array.isArray(row) ? row : names.map((name) => (Object.hasOwn(row, name) ? row[name] : undefined))));
  if (header && names !== undefined && (names.length > 0 || rows.length > 0)) lines.unshift(line(names));
  return lines.map((text) => text + newline).join('');
}

module.exports = { parse, stringify };
