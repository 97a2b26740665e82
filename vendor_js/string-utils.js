'use strict';
// Text functions. Characters are code points.

// Letters that Unicode does not decompose into a base letter and an accent.
const LETTERS = { ß: 'ss', æ: 'ae', Æ: 'AE', œ: 'oe', Œ: 'OE', ø: 'o', Ø: 'O', đ: 'd', Đ: 'D', ł: 'l', Ł: 'L', þ: 'th', Þ: 'TH', ð: 'd', Ð: 'D', ı: 'i' };
const plain = (text) => String(text).normalize('NFKD').replace(/\p{M}+/gu, '').replace(/[ßæÆœŒøØđĐłŁþÞðÐı]/g, (c) => LETTERS[c]);

// Splits a text into words, including at changes of case: 'fooBar baz_qux' has four words, 'HTTPServer' has two.
const words = (text) =>
  String(text).replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2').replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2').match(/[\p{L}\p{N}\p{M}]+(?:['’][\p{L}\p{M}]+)*/gu) ?? [];

const capitalize = (text) => {
  const [first = '', ...rest] = String(text);
  return first.toUpperCase() + rest.join('');
};

// Converts a text to lower-case words joined by `separator`, for URLs and file names. Removes accents from letters, and
// preserves other alphabets.
const slugify = (text, separator = '-') => (plain(text).toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).join(separator);

// Shortens a text to at most `length` characters, including the ending.
const truncate = (text, length = 80, ending = '…') => {
  const all = [...String(text)];
  if (all.length <= length) return String(text);
  return all.slice(0, Math.max(length - [...ending].length, 0)).join('').trimEnd() + [...ending].slice(0, length).join('');
};

const camelCase = (text) => words(text).map((word, i) => (i === 0 ? word.toLowerCase() : capitalize(word.toLowerCase()))).join('');
const snakeCase = (text) => words(text).map((word) => word.toLowerCase()).join('_');
const kebabCase = (text) => words(text).map((word) => word.toLowerCase()).join('-');

// Pads a text to `length` characters: 'left' (at the start), 'right' (at the end) or 'both'.
const pad = (text, length, fill = ' ', side = 'right') => {
  const missing = Math.max(length - [...String(text)].length, 0);
  const made = (count) => [...fill.repeat(Math.ceil(count / Math.max([...fill].length, 1)))].slice(0, count).join('');
  const before = side === 'left' ? missing : side === 'both' ? Math.floor(missing / 2) : 0;
  return made(before) + text + made(missing - before);
};

// Removes white space at both ends, and replaces other runs of white space with single spaces.
const clean = (text) => String(text).trim().replace(/\s+/g, ' ');

// Counts the occurrences of a part, without overlaps.
const count = (text, part) => (part === '' ? 0 : String(text).split(part).length - 1);
const reverse = (text) => [...String(text)].reverse().join('');

// Returns true if the letters and digits read the same in both directions.
const isPalindrome = (text) => {
  const letters = (plain(text).toLowerCase().match(/[\p{L}\p{N}]/gu) ?? []).join('');
  return letters !== '' && letters === reverse(letters);
};
const wordCount = (text) => words(text).length;

module.exports = { slugify, truncate, capitalize, camelCase, snakeCase, kebabCase, pad, clean, count, reverse, isPalindrome, words, wordCount };
