'use strict';
// `Intl`, and the built-in methods that take a locale. FormatJS formats values with data from CLDR.
// `vendor_js/intl` contains both, and `vendor_js/README.md` explains updates. Scripts and data are read on first use.
{
  const $ = $glovebox;
  const { std } = $;
  const DIRECTORY = '/data_js/intl/';
  const DEFAULT = 'en-US';

  const textOf = (name) => {
    const text = std.loadFile(DIRECTORY + name);
    if (text === null) throw new Error(`cannot read '${DIRECTORY}${name}'`);
    return text;
  };
  const dataOf = (name) => JSON.parse(textOf(`${name}.json`));
  const once = (make) => {
    let value;
    return () => (value ??= make());
  };
  const index = once(() => dataOf('index'));
  const define = (object, name, value, writable = true) => Object.defineProperty(object, name, { __proto__: null, value, writable, configurable: true });

  // The library and the built-in methods use these types, even after a script changes the global `Intl`.
  const types = { __proto__: null };
  const intl = ($.intl = { Intl: types, shared: {} });
  const loaded = new Set();
  const run = (script) => {
    if (loaded.has(script)) return;
    if (script !== 'shared' && script !== 'rules') run('shared');
    // Marked first, because a file of the library may request itself while it loads.
    loaded.add(script);
    try {
      $.compileAs(`glovebox:intl/${script}`, `(function ($glovebox) {${textOf(`${script}.js`)}\n})`)($);
    } catch (error) {
      // Memory may have run out, so a later call tries again.
      loaded.delete(script);
      throw error;
    }
  };

  // Locales

  const PLAIN_TAG = /^([a-z]{2,3})(?:-([a-z]{4}))?(?:-([a-z]{2}|\d{3}))?$/i;
  // Languages with a different canonical tag. The library handles their tags, and all tags with extensions or variants.
  const RENAMED = new Set(['aam', 'bh', 'cmn', 'in', 'iw', 'ji', 'jw', 'mo', 'no', 'sh', 'tl', 'zsm']);
  const canonical = (tag) => {
    const [, language, script, region] = PLAIN_TAG.exec(tag) ?? [];
    if (language === undefined || RENAMED.has(language.toLowerCase()) || /\d|SU|YU|DD|BU|ZR|UK/i.test(region)) {
      run('locale');
      try {
        return canonicalByLibrary(tag)[0];
      } catch {
        throw new RangeError('Incorrect locale information provided');
      }
    }
    const parts = [language.toLowerCase()];
    if (script !== undefined) parts.push(script[0].toUpperCase() + script.slice(1).toLowerCase());
    if (region !== undefined) parts.push(region.toUpperCase());
    return parts.join('-');
  };
  let canonicalByLibrary;
  const canonicalLocales = (locales) => {
    if (locales === undefined) return [];
    if (locales === null) throw new TypeError('Cannot convert undefined or null to object');
    const isOne = typeof locales === 'string' || Object.prototype.toString.call(locales) === '[object Intl.Locale]';
    const list = isOne ? [locales] : Array.from(Object(locales));
    const tags = list.map((tag) => {
      if (typeof tag !== 'string' && (typeof tag !== 'object' || tag === null)) throw new TypeError('Incorrect locale information provided');
      return canonical(String(tag));
    });
    return [...new Set(tags)];
  };

  const available = once(() => new Set([...index().locales, ...Object.keys(index().parents), ...index().same, ...Object.keys(index().aliases)]));
  // https://tc39.es/ecma402/#sec-bestavailablelocale
  const bestAvailable = (tag) => {
    for (let candidate = tag; ; ) {
      if (available().has(candidate)) return candidate;
      let end = candidate.lastIndexOf('-');
      if (end < 0) return undefined;
      if (candidate[end - 2] === '-') end -= 2;
      candidate = candidate.slice(0, end);
    }
  };
  const withoutExtension = (tag) => tag.replace(/-u(?:-[a-z0-9]{2,8})+/, '');
  const keywordsOf = (tag) => {
    const [, extension = ''] = /-u((?:-[a-z0-9]{2,8})+)/.exec(tag) ?? [];
    const keywords = new Map();
    for (const [, key, value] of extension.matchAll(/-([a-z0-9]{2})((?:-[a-z0-9]{3,8})*)(?=-[a-z0-9]{2}-|-[a-z0-9]{2}$|$)/g)) {
      if (!keywords.has(key)) keywords.set(key, value.slice(1));
    }
    return keywords;
  };

  // Returns the name of the file with a locale's data: the locale's own file, or that of its language.
  const fileOf = (locale) => {
    const { aliases, locales, parents } = index();
    const tag = aliases[locale] ?? locale;
    return tag in parents || locales.includes(tag) ? tag : tag.replace(/-.*/, '');
  };
  const merged = (base, changes) => {
    const result = { ...base };
    for (const key of Object.keys(changes)) {
      const [old, value] = [result[key], changes[key]];
      if (value === null) delete result[key];
      else result[key] = [old, value].every((it) => typeof it === 'object' && it !== null && !Array.isArray(it)) ? merged(old, value) : value;
    }
    return result;
  };
  const files = new Map();
  const contentOf = (file) => {
    const parent = index().parents[file];
    if (!files.has(file)) files.set(file, parent === undefined ? dataOf(`locales/${file}`) : merged(contentOf(parent), dataOf(`locales/${file}`)));
    return files.get(file);
  };

  const zoneNames = ({ zones, ...dates }) => {
    const timeZoneName = {};
    for (const group of Object.keys(zones)) for (const zone of index().zoneGroups[group].split(' ')) timeZoneName[zone] = zones[group];
    return { ...dates, timeZoneName };
  };
  const DATA = {
    DateTimeFormat: (file) => zoneNames(contentOf(file).dates),
    ListFormat: (file) => contentOf(file).lists,
    NumberFormat: (file) => contentOf(file).numbers,
    PluralRules: (file) => {
      run('rules');
      return intl.plurals[file] ?? intl.plurals[file.replace(/-.*/, '')];
    },
    RelativeTimeFormat: (file) => contentOf(file).relative,
  };

  // Functions that load a locale's data, by the table in which the library keeps it.
  const loaders = new Map();
  // https://tc39.es/ecma402/#sec-resolvelocale, by lookup
  intl.shared.ResolveLocale = (_, requested, options, keys, localeData) => {
    const tag = requested.find((tag) => bestAvailable(withoutExtension(tag)) !== undefined);
    const found = tag === undefined ? DEFAULT : bestAvailable(withoutExtension(tag));
    loaders.get(localeData)?.(found);
    const keywords = keywordsOf(tag ?? '');
    const result = { __proto__: null, dataLocale: found };
    let extension = '';
    for (const key of keys) {
      const values = localeData[found]?.[key] ?? [];
      const isKnown = (value) => value !== undefined && values.includes(value);
      const inTag = keywords.get(key) === '' ? 'true' : keywords.get(key);
      const option = options[key] === undefined || options[key] === null ? undefined : String(options[key]).toLowerCase() || 'true';
      const isFromTag = isKnown(inTag) && (!isKnown(option) || option === inTag);
      if (isFromTag) extension += `-${key}${inTag === 'true' ? '' : `-${inTag}`}`;
      result[key] = isKnown(option) ? option : isFromTag ? inTag : values[0];
    }
    result.locale = extension === '' ? found : `${found}-u${extension}`;
    return result;
  };
  intl.shared.LookupSupportedLocales = (_, requested) => requested.filter((tag) => bestAvailable(withoutExtension(tag)) !== undefined);

  // Constructors

  const SCRIPTS = {
    DateTimeFormat: 'dates', ListFormat: 'lists', Locale: 'locale', NumberFormat: 'numbers', PluralRules: 'plurals', RelativeTimeFormat: 'relative', Segmenter: 'segments',
  };
  const provided = { __proto__: null };
  // Hides the properties in which the library stores an object's state, as if they were internal slots.
  const hide = (prototype, names) => {
    const states = new WeakMap();
    for (const name of names) {
      Object.defineProperty(prototype, name, {
        __proto__: null,
        get() {
          return states.get(this)?.[name];
        },
        set(value) {
          if (!states.has(this)) states.set(this, { __proto__: null });
          states.get(this)[name] = value;
        },
        configurable: true,
      });
    }
  };
  const PREPARED = {
    DateTimeFormat(Type) {
      Type.tzData = zones();
    },
    // Unlike the other types, segmenters and their results store their state in visible properties.
    Segmenter(Type) {
      const segments = Object.create(Type.prototype).segment('');
      const iterator = segments[Symbol.iterator]();
      hide(Type.prototype, ['mergedSegmentationTypeValue', 'ruleSortedKeys', 'rules']);
      for (const [object, names] of [[segments, ['input', 'segmenter']], [iterator, ['input', 'lastSegmentIndex', 'segmenter']]]) {
        const prototype = Object.getPrototypeOf(object);
        hide(prototype, names);
        delete prototype.constructor;
      }
    },
  };
  intl.provide = (types) => {
    for (const name of Object.keys(types)) {
      const Type = types[name];
      if (name === 'getCanonicalLocales') {
        canonicalByLibrary = Type;
        continue;
      }
      if (name in DATA) {
        Type.__defaultLocale = DEFAULT;
        const ready = new Set();
        loaders.set(Type.localeData, (locale) => {
          if (ready.has(locale)) return;
          Type.__addLocaleData({ locale, data: DATA[name](fileOf(locale)) });
          ready.add(locale);
        });
      }
      PREPARED[name]?.(Type);
      define(Type, 'name', name, false);
      for (const key of Object.keys(Type)) Object.defineProperty(Type, key, { enumerable: false });
      provided[name] = Type;
    }
  };
  for (const name of Object.keys(SCRIPTS)) {
    $.lazily(types, name, () => {
      run(SCRIPTS[name]);
      return provided[name];
    });
  }

  // Time zones by name: [seconds since 1970, abbreviation, offset in seconds, whether it is daylight saving time].
  const rulesOf = (text) => {
    const [offsets, transitions] = text.split('|');
    const kinds = offsets.split(' ').map((offset) => [parseInt(offset, 36) * 60, offset.endsWith('!')]);
    let at = -Infinity;
    return Array.from(transitions.matchAll(/([0-9a-z]*)([A-Z])/g), ([, minutes, kind]) => {
      if (minutes !== '') at = (at === -Infinity ? 0 : at) + parseInt(minutes, 36) * 60;
      const [offset, isDst] = kinds[kind.charCodeAt(0) - 65];
      return [at, '', offset, isDst];
    });
  };
  const zones = once(() => {
    const all = { __proto__: null };
    for (const line of dataOf('zones')) {
      const end = line.indexOf('|');
      const rules = once(() => rulesOf(line.slice(end + 1)));
      for (const zone of line.slice(0, end).split(' ')) Object.defineProperty(all, zone, { get: rules, enumerable: true });
    }
    return all;
  });

  // Collation

  // The weights of UCA's three levels by character: primary, secondary, tertiary.
  const weights = once(() => {
    const { order, marks, expansions, tailorings, first } = dataOf('collation');
    const table = new Map();
    let primary = 0;
    for (const [group] of order.matchAll(/\r[^]{2}|\n[^\n\r]*/g)) {
      if (group[0] === '\r') {
        for (let code = group.charCodeAt(1); code <= group.charCodeAt(2); code++) table.set(String.fromCharCode(code), [++primary, 1, 1]);
        continue;
      }
      primary++;
      let [secondary, tertiary] = [1, 0];
      for (const letter of group.slice(1)) {
        if (letter === '\t') [secondary, tertiary] = [secondary + 1, 0];
        else table.set(letter, [primary, secondary, ++tertiary]);
      }
    }
    return { table, marks: new Map(Array.from(marks, (mark, i) => [mark, i + 1000])), expansions, tailorings, first, letters: table.get('a')[0], digits: table.get('0')[0], symbols: table.get('\x60')[0] };
  });

  // Characters without data, such as Han, come after all others, by code point.
  const LAST = 1e5;
  const collationFor = (language) => {
    const { table, marks, expansions, tailorings, first, letters, digits } = weights();
    const own = new Map();
    let longest = 1;
    for (const [before, groups] of tailorings[language] ?? []) {
      groups.forEach((group, i) => group.forEach((letter, j) => {
        const primary = table.get(before)[0] + (i + 1) / 64;
        const capital = letter[0].toUpperCase() + letter.slice(1);
        own.set(letter, [primary, j + 1, 1]);
        own.set(capital, [primary, j + 1, 2]);
        own.set(letter.toUpperCase(), [primary, j + 1, letter.length === 1 ? 2 : 3]);
        longest = Math.max(longest, letter.length);
      }));
    }
    const [low, high] = (first[language] ?? []).map((letter) => table.get(letter)[0]);
    const moved = (weight) => (weight[0] >= low && weight[0] <= high ? [letters - 1 + (weight[0] - low + 1) / 65536, weight[1], weight[2]] : weight);
    // Symbols come before digits, including emoji and other symbols without data.
    const isSymbol = (letter) => /[\p{S}\p{P}]/u.test(letter);
    const withoutData = (letter) => (isSymbol(letter) ? digits - 1 + letter.codePointAt(0) / 0x110000 : LAST + letter.codePointAt(0));
    const weightOf = (letter) => moved(table.get(letter) ?? [withoutData(letter), 1, 1]);
    // Calls `each` with the weights of a text. A mark has no primary weight.
    return (text, each) => {
      if (own.size > 0) text = text.normalize('NFC');
      for (let at = 0; at < text.length; ) {
        let letter;
        for (let length = longest; length > 0 && own.size > 0 && letter === undefined; length--) {
          if (own.has(text.substr(at, length))) letter = text.substr(at, length);
        }
        if (letter !== undefined) each(own.get(letter), letter);
        letter ??= String.fromCodePoint(text.codePointAt(at));
        at += letter.length;
        if (own.has(letter)) continue;
        for (const part of letter < '\x80' ? letter : letter.normalize('NFD')) {
          if (expansions[part] !== undefined) for (const it of expansions[part]) each([weightOf(it)[0], weightOf(it)[1] + 1, weightOf(it)[2]], it);
          else if (table.has(part)) each(weightOf(part), part);
          else if (marks.has(part)) each([0, marks.get(part), 1], part);
          else {
            const compatible = part.normalize('NFKD');
            if (compatible === part && /[\p{M}\p{Cc}\p{Cf}]/u.test(part)) continue;
            for (const it of compatible) each([weightOf(it)[0], weightOf(it)[1], weightOf(it)[2] + (compatible === part ? 0 : 10)], it);
          }
        }
      }
    };
  };
  const collations = new Map();
  const comparisons = new Map();
  const CACHED_KEYS = 4000;

  const sequence = (left, right) => {
    const length = Math.min(left.length, right.length);
    for (let i = 0; i < length; i++) if (left[i] !== right[i]) return left[i] < right[i] ? -1 : 1;
    return Math.sign(left.length - right.length);
  };

  const oneOf = (options, name, values, fallback) => {
    const value = options[name] === undefined ? undefined : String(options[name]);
    if (value === undefined) return fallback;
    if (!values.includes(value)) throw new RangeError(`Value ${value} out of range for Intl.Collator options property ${name}`);
    return value;
  };
  const makeCompare = (language, { caseFirst, ignorePunctuation, numeric, sensitivity }) => {
    const id = `${language} ${caseFirst} ${ignorePunctuation} ${numeric} ${sensitivity}`;
    if (comparisons.has(id)) return comparisons.get(id);
    if (!collations.has(language)) collations.set(language, collationFor(language));
    const weigh = collations.get(language);
    const { symbols, table } = weights();
    const digit = table.get('0')[0];
    const keys = new Map();
    const keyOf = (text) => {
      const key = { primary: [], secondary: [], tertiary: [], cases: [] };
      let number = '';
      const endNumber = () => {
        if (number === '') return;
        const value = number.replace(/^0+(?=.)/, '');
        key.primary.push(digit + 0.5, value.length, ...Array.from(value, Number));
        number = '';
      };
      weigh(text, ([primary, secondary, tertiary], letter) => {
        if (ignorePunctuation && primary < symbols && primary > 0) return;
        if (numeric && letter >= '0' && letter <= '9') {
          number += letter;
          return;
        }
        endNumber();
        if (primary > 0) key.primary.push(primary);
        key.secondary.push(secondary);
        if (primary > 0) key.tertiary.push(tertiary);
        if (primary > 0) key.cases.push(letter !== letter.toLowerCase() ? (caseFirst === 'upper' ? 0 : 2) : 1);
      });
      endNumber();
      return key;
    };
    const cached = (text) => {
      let key = keys.get(text);
      if (key !== undefined) return key;
      if (keys.size >= CACHED_KEYS) keys.clear();
      key = keyOf(text);
      keys.set(text, key);
      return key;
    };
    const compare = (left, right) => {
      if (left === right) return 0;
      const [one, other] = [cached(left), cached(right)];
      let order = sequence(one.primary, other.primary);
      if (order === 0 && (sensitivity === 'accent' || sensitivity === 'variant')) order = sequence(one.secondary, other.secondary);
      if (order === 0 && (sensitivity === 'case' || (sensitivity === 'variant' && caseFirst !== 'false'))) order = sequence(one.cases, other.cases);
      if (order === 0 && sensitivity === 'variant') order = sequence(one.tertiary, other.tertiary);
      return order;
    };
    comparisons.set(id, compare);
    return compare;
  };

  class Collator {
    #options;
    #compare;
    #bound;
    constructor(locales, options) {
      const tags = canonicalLocales(locales);
      const given = options === undefined ? { __proto__: null } : Object(options);
      const usage = oneOf(given, 'usage', ['sort', 'search'], 'sort');
      oneOf(given, 'localeMatcher', ['lookup', 'best fit'], 'best fit');
      const resolved = intl.shared.ResolveLocale(null, tags, {}, [], {});
      const keywords = keywordsOf(tags.find((tag) => bestAvailable(withoutExtension(tag)) !== undefined) ?? '');
      const ofTag = (key, values) => (keywords.get(key) === '' ? 'true' : values.includes(keywords.get(key)) ? keywords.get(key) : 'false');
      const numeric = given.numeric === undefined ? ofTag('kn', ['true', 'false']) === 'true' : Boolean(given.numeric);
      const caseFirst = oneOf(given, 'caseFirst', ['upper', 'lower', 'false'], ofTag('kf', ['upper', 'lower', 'false']));
      const sensitivity = oneOf(given, 'sensitivity', ['base', 'accent', 'case', 'variant'], 'variant');
      const ignorePunctuation = given.ignorePunctuation === undefined ? resolved.locale.startsWith('th') : Boolean(given.ignorePunctuation);
      this.#options = { locale: resolved.locale, usage, sensitivity, ignorePunctuation, collation: 'default', numeric, caseFirst };
      this.#compare = makeCompare(fileOf(resolved.locale).replace(/-.*/, ''), this.#options);
    }

    get compare() {
      const compare = this.#compare;
      return (this.#bound ??= (left, right) => compare(String(left), String(right)));
    }

    resolvedOptions() {
      return { ...this.#options };
    }

    static supportedLocalesOf(locales) {
      return intl.shared.LookupSupportedLocales(null, canonicalLocales(locales));
    }
  }
  // A call without `new` also creates an object.
  const CollatorOrFunction = new Proxy(Collator, { apply: (Type, _, args) => new Type(...args) });
  Object.defineProperty(Collator.prototype, 'constructor', { value: CollatorOrFunction, writable: true, configurable: true });
  Object.defineProperty(Collator.prototype, Symbol.toStringTag, { value: 'Intl.Collator', configurable: true });

  define(types, 'Collator', CollatorOrFunction);
  define(types, 'getCanonicalLocales', { getCanonicalLocales: (locales) => canonicalLocales(locales) }.getCanonicalLocales);
  const supportedValuesOf = (key) => {
    const name = String(key);
    if (name === 'timeZone') return Object.keys(zones()).sort();
    if (!Object.hasOwn(index().supported, name)) throw new RangeError(`Invalid key : ${name}`);
    return [...index().supported[name]];
  };
  define(types, 'supportedValuesOf', supportedValuesOf);

  // Built-in methods that take a locale

  // Caches formatters for at most one locale and plain options, because scripts call these methods in loops.
  const formatters = new Map();
  const KEPT = 100;
  const isPlain = (options) => Object.getPrototypeOf(options) === Object.prototype && Object.values(options).every((value) => ['string', 'number', 'boolean', 'undefined'].includes(typeof value));
  const kept = (kind, locales, options, make) => {
    if (locales !== undefined && typeof locales !== 'string') return make();
    if (options !== undefined && (typeof options !== 'object' || options === null || !isPlain(options))) return make();
    const id = JSON.stringify([kind, locales, options]);
    if (!formatters.has(id)) {
      if (formatters.size >= KEPT) formatters.clear();
      formatters.set(id, make());
    }
    return formatters.get(id);
  };
  const formatter = (name, locales, options) => kept(name, locales, options, () => new types[name](locales, options));
  const DATE = ['weekday', 'year', 'month', 'day'];
  const TIME = ['dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits'];
  // https://tc39.es/ecma402/#sup-properties-of-the-date-prototype-object
  const dateOptions = (options, required, defaults) => {
    const made = Object.create(options === undefined ? null : Object(options));
    const needed = [...(required === 'time' ? [] : DATE), ...(required === 'date' ? [] : TIME)];
    const hasStyle = made.dateStyle !== undefined || made.timeStyle !== undefined;
    if (required === 'date' && made.timeStyle !== undefined) throw new TypeError('Invalid option : timeStyle');
    if (required === 'time' && made.dateStyle !== undefined) throw new TypeError('Invalid option : dateStyle');
    if (hasStyle || needed.some((name) => made[name] !== undefined)) return made;
    const added = [...(defaults === 'time' ? [] : ['year', 'month', 'day']), ...(defaults === 'date' ? [] : ['hour', 'minute', 'second'])];
    for (const name of added) define(made, name, 'numeric');
    return made;
  };
  const timeOf = Date.prototype.getTime;
  const formatDate = (required, defaults) => (date, locales, options) => {
    if (Number.isNaN(timeOf.call(date))) return 'Invalid Date';
    return kept(defaults, locales, options, () => new types.DateTimeFormat(locales, dateOptions(options, required, defaults))).format(date);
  };
  const turkic = (locales) => ['az', 'tr'].includes((canonicalLocales(locales)[0] ?? DEFAULT).replace(/-.*/, ''));
  const joinLocal = (list, locales, options) =>
    Array.from({ length: list.length }, (_, i) => (list[i] === undefined || list[i] === null ? '' : String(list[i].toLocaleString(locales, options)))).join(',');

  // Fast path without data: most scripts only group the digits of numbers in the default locale.
  const SHORT = /^(-?)(\d+)(\.\d{1,3})?$/;
  const formatNumber = (value, locales, options) => {
    const [text, sign, whole, fraction = ''] = (options === undefined && (locales === undefined || locales === DEFAULT) && SHORT.exec(String(value))) || [];
    if (text === undefined || Object.is(value, -0)) return formatter('NumberFormat', locales, options).format(value);
    return sign + whole.replace(/\B(?=(?:\d{3})+$)/g, ',') + fraction;
  };

  // Implementations of the locale-dependent methods (`toLocaleString`, `localeCompare`, …), keyed by the names that
  // `lazy.js` uses.
  $.localized = {
    __proto__: null,
    array: joinLocal,
    compare: (text, that, locales, options) => formatter('Collator', locales, options).compare(String(text), String(that)),
    date: formatDate('any', 'all'),
    dateOnly: formatDate('date', 'date'),
    lower: (text, locales) => (turkic(locales) ? text.replaceAll('İ', 'i').replaceAll('I', 'ı') : text).toLowerCase(),
    number: formatNumber,
    timeOnly: formatDate('time', 'time'),
    upper: (text, locales) => (turkic(locales) ? text.replaceAll('i', 'İ') : text).toUpperCase(),
  };

  const Intl = Object.create(Object.prototype, { [Symbol.toStringTag]: { value: 'Intl', configurable: true } });
  for (const name of Reflect.ownKeys(types)) $.lazily(Intl, name, () => types[name]);
  $.provide('Intl', Intl);
}
