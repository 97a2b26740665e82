'use strict';
// Shell commands and list functions: find and search files, group and sort lists.

const fs = require('fs');
const path = require('path');
const csv = requireVendor('csv-simple');

// Returns every file below a directory, in order; `pattern` is a name with `*` and `?`, or a regular expression.
function find(directory = '.', pattern = '*') {
  const isWanted = pattern instanceof RegExp ? (name) => pattern.test(name) : (name) => path.matchesGlob(name, pattern);
  return walk(directory).filter((file) => isWanted(path.basename(file)));
}

function walk(directory = '.') {
  return fs.readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const whole = path.join(directory, entry.name);
    return entry.isDirectory() ? walk(whole) : [whole];
  });
}

// Returns a directory tree as an indented list.
function tree(directory = '.', indent = '') {
  return fs.readdirSync(directory, { withFileTypes: true })
    .map((entry) => `${indent}${entry.name}${entry.isDirectory() ? `/\n${tree(path.join(directory, entry.name), `${indent}  `)}` : '\n'}`)
    .join('');
}

const lines = (file) => readLines(file);

// Returns the matching lines: `{ file, line, text }`.
function grep(pattern, files) {
  const wanted = pattern instanceof RegExp ? new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, '')) : { test: (text) => text.includes(pattern) };
  return [].concat(files).flatMap((file) => lines(file).flatMap((text, i) => (wanted.test(text) ? [{ file, line: i + 1, text }] : [])));
}

// Replaces matches in a file, in place; returns their number.
function sed(file, pattern, replacement) {
  const text = readText(file);
  const isPattern = pattern instanceof RegExp;
  let count = 0;
  const counted = (found, ...rest) => {
    count++;
    return typeof replacement === 'function' ? replacement(found, ...rest) : `${replacement}`;
  };
  let made = isPattern ? text.replace(pattern, counted) : text.replaceAll(String(pattern), counted);
  // Replaces with the text itself, in which `$1` and similar references stand for groups.
  if (isPattern && typeof replacement !== 'function') made = text.replace(pattern, `${replacement}`);
  if (count > 0) writeText(file, made);
  return count;
}

const head = (file, count = 10) => lines(file).slice(0, count);
const tail = (file, count = 10) => (count === 0 ? [] : lines(file).slice(-count));
function wc(file) {
  const text = readText(file);
  return { lines: text.split('\n').length - 1, words: text.split(/\s+/).filter(Boolean).length, bytes: fileSize(file) };
}

const by = (key) => (typeof key === 'function' ? key : (item) => item[key]);
function groupBy(items, key) {
  const groups = {};
  for (const item of items) {
    const name = String(by(key)(item));
    if (!Object.hasOwn(groups, name)) Object.defineProperty(groups, name, { value: [], writable: true, enumerable: true, configurable: true });
    groups[name].push(item);
  }
  return groups;
}
// The sort is stable, and missing values come last.
function sortBy(items, key, isDescending = false) {
  const value = by(key);
  const order = (a, b) => (a === b ? 0 : a === undefined || a === null ? 1 : b === undefined || b === null ? -1 : (a < b) === isDescending ? 1 : -1);
  return [...items].sort((a, b) => order(value(a), value(b)));
}
function unique(items, key = (item) => item) {
  const seen = new Set();
  return items.filter((item) => !seen.has(by(key)(item)) && seen.add(by(key)(item)));
}
function chunk(items, size) {
  if (!Number.isInteger(size) || size < 1) throw new RangeError('size must be an integer of at least 1');
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}

const csvToJson = (from, to) => writeJson(to, csv.parse(readText(from)));
const jsonToCsv = (from, to) => writeText(to, csv.stringify(readJson(from)));

const ls = listFiles;
const cat = (...files) => files.map(readText).join('');
const touch = (file) => appendText(file, '');
const mkdir = (directory) => fs.mkdirSync(directory, { recursive: true });
const rm = (file) => fs.rmSync(file, { recursive: true, force: true });
const cp = (from, to) => fs.cpSync(from, to, { recursive: true });
const mv = (from, to) => fs.renameSync(from, to);

module.exports = {
  readText, writeText, appendText, readJson, writeJson, readLines, writeLines, fileExists, fileSize, listFiles, copyFile, removeFile, find, walk, tree, grep, sed,
  head, tail, wc, groupBy, sortBy, unique, chunk, csvToJson, jsonToCsv, ls, cat, touch, mkdir, rm, cp, mv,
};
