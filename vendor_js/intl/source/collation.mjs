// Extracts the collation order from `Intl.Collator` of this Node.js: the Unicode Collation Algorithm with CLDR's root.

const SCRIPTS = /[\p{Script=Common}\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{Script=Armenian}\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gujarati}\p{Script=Gurmukhi}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Thai}\p{Script=Georgian}\p{Script=Hiragana}\p{Script=Katakana}]/u;
const REORDERED = ['Greek', 'Cyrillic', 'Hebrew', 'Arabic', 'Devanagari', 'Bengali', 'Thai'];
const collator = (locale, sensitivity) => new Intl.Collator(`${locale}-u-co-standard`, { sensitivity }).compare;
const variant = collator('en', 'variant');
const base = collator('en', 'base');
const accent = collator('en', 'accent');

const characters = () => {
  const letters = [];
  const marks = [];
  for (let code = 0x20; code < 0xffff; code++) {
    if (code >= 0xd800 && code < 0xf900) continue;
    const it = String.fromCharCode(code);
    if (!/\p{Assigned}/u.test(it) || it.normalize('NFD') !== it) continue;
    if (/\p{M}/u.test(it)) {
      if (variant(`a${it}`, 'a') !== 0) marks.push(it);
    } else if (SCRIPTS.test(it) && variant(it, '') !== 0 && it.normalize('NFKD').length === 1) letters.push(it);
  }
  return { letters: letters.sort((a, b) => variant(a, b) || (a < b ? -1 : 1)), marks: marks.sort((a, b) => variant(`a${a}`, `a${b}`) || (a < b ? -1 : 1)) };
};

// Encodes letters as groups with the same primary weight. A group starts with `\n`, and a tab precedes a letter with a
// secondary difference. `\r` and two letters represent a run of at least four groups of one letter with consecutive
// codes.
const encoded = (letters) => {
  const groups = [];
  for (const letter of letters) {
    const last = groups.at(-1);
    if (last !== undefined && base(last.at(-1), letter) === 0) {
      if (accent(last.at(-1), letter) !== 0) last.push('\t');
      last.push(letter);
    } else groups.push([letter]);
  }
  let text = '';
  for (let i = 0; i < groups.length; i++) {
    let end = i;
    const code = (at) => (groups[at]?.length === 1 ? groups[at][0].charCodeAt(0) : NaN);
    while (code(end + 1) === code(end) + 1) end++;
    if (end - i >= 3) {
      text += `\r${groups[i][0]}${groups[end][0]}`;
      i = end;
    } else text += `\n${groups[i].join('')}`;
  }
  return text;
};

const LATIN = [...'abcdefghijklmnopqrstuvwxyz'];
const CANDIDATES = [];
for (const [from, to] of [[0xdf, 0x17f], [0x1a0, 0x1b0], [0x218, 0x21b], [0x1ea0, 0x1ef9]]) {
  for (let code = from; code <= to; code++) {
    const it = String.fromCharCode(code);
    if (/\p{Ll}/u.test(it)) CANDIDATES.push(it);
  }
}
const DIGRAPHS = ['ch', 'cs', 'ddz', 'dz', 'dzs', 'dž', 'gy', 'lj', 'll', 'ly', 'nj', 'ny', 'rr', 'sz', 'ty', 'zs', 'aa'];

// Returns the letters that a locale sorts separately, as pairs of the preceding letter and groups of letters.
const tailored = (locale) => {
  const compare = collator(locale, 'base');
  const own = CANDIDATES.filter((it) => compare(it, it.normalize('NFD')[0]) !== 0 && base(it, it.normalize('NFD')[0]) === 0 && it.normalize('NFD').length > 1);
  // CLDR's root already sorts letters such as `ø` separately.
  own.push(...CANDIDATES.filter((it) => it.normalize('NFD').length === 1 && LATIN.some((letter) => Math.sign(compare(it, letter)) !== Math.sign(base(it, letter)))));
  own.push(...DIGRAPHS.filter((it) => compare(it, `${it.slice(0, -1)}zzz`) > 0 && base(it, `${it.slice(0, -1)}zzz`) < 0));
  const places = new Map();
  for (const letter of own.sort((a, b) => compare(a, b) || (a < b ? -1 : 1))) {
    const before = LATIN.findLast((it) => compare(it, letter) < 0 && compare(`${it}zzz`, letter) !== 0) ?? 'a';
    const list = places.get(before) ?? [];
    places.set(before, list);
    const last = list.at(-1);
    if (last !== undefined && compare(last[0], letter) === 0) last.push(letter);
    else list.push([letter]);
  }
  return [...places];
};

const isLetterOf = (script, it) => /[\p{Ll}\p{Lo}]/u.test(it) && new RegExp(`\\p{Script=${script}}`, 'u').test(it);

export const collation = (locales) => {
  const { letters, marks } = characters();
  const tailorings = {};
  const first = {};
  for (const locale of locales) {
    const compare = collator(locale, 'base');
    const places = tailored(locale);
    if (places.length > 0) tailorings[locale] = places;
    const script = REORDERED.find((name) => {
      const letter = letters.find((it) => isLetterOf(name, it));
      return compare(letter, 'a') < 0;
    });
    if (script !== undefined) {
      const all = letters.filter((it) => isLetterOf(script, it));
      first[locale] = [all[0], all.at(-1)];
    }
  }
  const expansions = Object.entries({ ß: 'ss', ẞ: 'SS', æ: 'ae', Æ: 'AE', œ: 'oe', Œ: 'OE' }).filter(([one, two]) => base(one, two) === 0);
  return { order: encoded(letters), marks: marks.join(''), expansions: Object.fromEntries(expansions), tailorings, first };
};
