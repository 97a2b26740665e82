'use strict';
// Text in other forms. A character is what a reader sees as one code point, not half of it.

// What Unicode does not take apart into a letter and its accent.
const LETTERS = { ß: 'ss', æ: 'ae', Æ: 'AE', œ: 'oe', Œ: 'OE', ø: 'o', Ø: 'O', đ: 'd', Đ: 'D', ł: 'l', Ł: 'L', þ: 'th', Þ: 'TH', ð: 'd', Ð: 'D', ı: 'i' };
const plain = (text) => String(text).normalize('NFKD').replace(/\p{M}+/gu, '').replace(/[ßæÆœŒøØđĐłŁþÞðÐı]/g, (c) => LETTERS[c]);

// The words of a text in any case: 'fooBar baz_qux' has four, 'HTTPServer' two.
const words = (text) =>
  String(text).replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2').replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2').match(/[\p{L}\p{N}\p{M}]+(?:['’][\p{L}\p{M}]+)*/gu) ?? [];

const capitalize = (text) => {
  const [first = '', ...rest] = String(text);
  return first.toUpperCase() + rest.join('');
};

// For URLs and file names: small letters, digits and hyphens. Accents go, their letters stay; other alphabets stay as they are.
const slugify = (text, separator = '-') => (plain(text).toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).join(separator);

// At most `length` characters, the ending among them.
const truncate = (text, length = 80, ending = '…') => {
  const all = [...String(text)];
  if (all.length <= length) return String(text);
  return all.slice(0, Math.max(length - [...ending].length, 0)).join('').trimEnd() + [...ending].slice(0, length).join('');
};

const camelCase = (text) => words(text).map((word, i) => (i === 0 ? word.toLowerCase() : capitalize(word.toLowerCase()))).join('');
const snakeCase = (text) => words(text).map((word) => word.toLowerCase()).join('_');
const kebabCase = (text) => words(text).map((word) => word.toLowerCase()).join('-');

// Fills up to `length` characters: 'left' (in front), 'right' (behind) or 'both'.
const pad = (text, length, fill = ' ', side = 'right') => {
  const missing = Math.max(length - [...String(text)].length, 0);
  const made = (count) => [...fill.repeat(Math.ceil(count / Math.max([...fill].length, 1)))].slice(0, count).join('');
  const before = side === 'left' ? missing : side === 'both' ? Math.floor(missing / 2) : 0;
  return made(before) + text + made(missing - before);
};

// White space at the ends goes, elsewhere it becomes one blank.
const clean = (text) => String(text).trim().replace(/\s+/g, ' ');

// How often a part occurs, without overlaps.
const count = (text, part) => (part === '' ? 0 : String(text).split(part).length - 1);
const reverse = (text) => [...String(text)].reverse().join('');

// Whether the letters and digits read the same from both ends.
const isPalindrome = (text) => {
  const letters = (plain(text).toLowerCase().match(/[\p{L}\p{N}]/gu) ?? []).join('');
  return letters !== '' && letters === reverse(letters);
};
const wordCount = (text) => words(text).length;

module.exports = { slugify, truncate, capitalize, camelCase, snakeCase, kebabCase, pad, clean, count, reverse, isPalindrome, words, wordCount };
