// Generates the files in the parent directory from FormatJS, its CLDR data, and the ICU of this Node.js:
//
//     npm ci --ignore-scripts && node build.mjs
//
// Each library becomes a script that the boot code compiles on first use. Imports that several libraries share are
// replaced by `$glovebox.intl.shared`, so that their code exists only once.
import { build } from 'esbuild';
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import { collation } from './collation.mjs';

const HERE = import.meta.dirname;
const OUT = path.dirname(HERE);
const MODULES = path.join(HERE, 'node_modules', '@formatjs');

// The locales with data. The data of a locale in `VARIANTS` contains only the differences from its parent.
const LOCALES = [
  'ar', 'bn', 'cs', 'da', 'de', 'el', 'en', 'es', 'fa', 'fi', 'fr', 'he', 'hi', 'hu', 'id', 'it', 'ja', 'ko', 'nb', 'nl', 'pl', 'pt', 'ro', 'ru', 'sk', 'sv', 'th', 'tr',
  'uk', 'vi', 'zh',
];
const VARIANTS = {
  'ar-AE': 'ar', 'ar-EG': 'ar', 'ar-SA': 'ar', 'de-AT': 'de', 'de-CH': 'de', 'en-AU': 'en', 'en-CA': 'en', 'en-GB': 'en', 'en-IE': 'en', 'en-IN': 'en', 'en-NZ': 'en', 'en-ZA': 'en', 'es-AR': 'es',
  'es-CL': 'es', 'es-CO': 'es', 'es-MX': 'es', 'es-US': 'es', 'fr-BE': 'fr', 'fr-CA': 'fr', 'fr-CH': 'fr', 'it-CH': 'it', 'nl-BE': 'nl', 'pt-PT': 'pt', 'zh-Hant': 'zh', 'zh-Hant-HK': 'zh',
};
// Locales whose data equals the data of their language.
const SAME = [
  'cs-CZ', 'da-DK', 'de-DE', 'el-GR', 'en-US', 'es-ES', 'fa-IR', 'fi-FI', 'fr-FR', 'he-IL', 'hi-IN', 'hu-HU', 'id-ID', 'it-IT', 'ja-JP', 'ko-KR', 'nb-NO', 'nl-NL', 'pl-PL', 'pt-BR', 'ro-RO', 'ru-RU',
  'sk-SK', 'sv-SE', 'th-TH', 'tr-TR', 'uk-UA', 'vi-VN', 'zh-CN', 'bn-BD',
];

// Locales whose script determines the data that they use.
const ALIASES = { 'zh-TW': 'zh-Hant', 'zh-HK': 'zh-Hant-HK', 'zh-MO': 'zh-Hant-HK', 'zh-Hant-TW': 'zh-Hant', 'zh-Hans': 'zh', 'zh-Hans-CN': 'zh' };

const NUMBER_SYSTEMS = ['latn', 'arab', 'arabext', 'beng', 'deva', 'thai', 'hanidec', 'fullwide'];

// ---- Scripts

const SHARED = {
  '@formatjs/bigdecimal': ['Decimal', 'default'],
  '@formatjs/fast-memoize': ['memoize', 'strategies'],
  '@formatjs/intl-localematcher': ['LookupSupportedLocales', 'ResolveLocale'],
};
const exportsOf = (names) => names.map((name) => (name === 'default' ? 'export default shared.Decimal;' : `export const ${name} = shared.${name};`));
const shared = {
  name: 'shared',
  setup(plugin) {
    plugin.onResolve({ filter: /^@formatjs\/(bigdecimal|fast-memoize|intl-localematcher)$/ }, ({ path: name, importer }) =>
      importer.endsWith('shared.mjs') ? undefined : { path: name, namespace: 'shared' });
    plugin.onLoad({ filter: /.*/, namespace: 'shared' }, ({ path: name }) => ({
      contents: ['const { shared } = $glovebox.intl;', ...exportsOf(SHARED[name])].join('\n'),
    }));
    plugin.onLoad({ filter: /intl-datetimeformat.index\.js$/ }, ({ path: file }) => ({ contents: patched(fs.readFileSync(file, 'utf8')) }));
  },
};

const replaceOnce = (text, from, to) => {
  const parts = text.split(from);
  if (parts.length !== 2) throw new Error(`${JSON.stringify(from)} occurs ${parts.length - 1} times`);
  return parts.join(to);
};

// FormatJS searches all combinations of a date and a time format for the best one. CLDR's specification selects a date
// format and a time format separately, and joins them with a connector that depends on the width of the month:
// https://unicode.org/reports/tr35/tr35-dates.html#Missing_Skeleton_Fields
// This takes a tenth of the data and of the time. `joining.mjs` contains the function.
const patched = (text) => {
  const joining = fs.readFileSync(path.join(HERE, 'joining.mjs'), 'utf8');
  let code = replaceOnce(text, 'function BestFitFormatMatcher(options, formats) {', `${joining}\nfunction bestFitOf(options, formats) {`);
  code = replaceOnce(code, 'return parsed ??= Object.keys(formats[calendar])', 'return parsed ??= joinedBy(processedData.dateTimeFormat, Object.keys(formats[calendar])');
  code = replaceOnce(code, 'calendarIntervals.intervalFormatFallback));\n\t\t\t\t}', 'calendarIntervals.intervalFormatFallback)));\n\t\t\t\t}');
  // The connector of a style differs from the connector of fields: English has "at".
  code = replaceOnce(code, 'const connector = dataLocaleData.dateTimeFormat[dateStyle];', 'const connector = dataLocaleData.styleConnector[dateStyle];');
  // Only the long forms pad the hours of an offset, and print the offset of UTC.
  code = replaceOnce(code, 'if (style === "long") offsetStr', 'if (style === "long" || style === "longOffset") offsetStr');
  return code;
};

const SCRIPTS = {
  shared: `import { Decimal } from '@formatjs/bigdecimal';
    import { memoize, strategies } from '@formatjs/fast-memoize';
    Object.assign($glovebox.intl.shared, { Decimal, memoize, strategies });`,
  numbers: `import { NumberFormat } from '@formatjs/intl-numberformat';
    $glovebox.intl.provide({ NumberFormat });`,
  plurals: `import { PluralRules } from '@formatjs/intl-pluralrules';
    $glovebox.intl.provide({ PluralRules });`,
  dates: `import { DateTimeFormat } from '@formatjs/intl-datetimeformat';
    $glovebox.intl.provide({ DateTimeFormat });`,
  lists: `import ListFormat from '@formatjs/intl-listformat';
    $glovebox.intl.provide({ ListFormat });`,
  relative: `import RelativeTimeFormat from '@formatjs/intl-relativetimeformat';
    $glovebox.intl.provide({ RelativeTimeFormat });`,
  segments: `import { Segmenter } from '@formatjs/intl-segmenter';
    $glovebox.intl.provide({ Segmenter });`,
  locale: `import { Locale } from '@formatjs/intl-locale';
    import { getCanonicalLocales } from '@formatjs/intl-getcanonicallocales';
    $glovebox.intl.provide({ Locale, getCanonicalLocales });`,
};

const bundle = async (name, contents) => {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: HERE, sourcefile: `${name}.mjs` },
    bundle: true, minify: true, format: 'iife', define: { Intl: '$glovebox.intl.Intl' }, target: 'es2022', charset: 'utf8', legalComments: 'none', write: false, plugins: [shared],
  });
  // A `for … in` loop over data would also visit properties that a script has added to `Object.prototype`.
  return outputFiles[0].text.replace(/for\((let|var|const) (\w+) in ([^()]+)\)/g, 'for($1 $2 of Object.keys($3??{}))');
};

// ---- Locales

const TYPES = {
  numbers: ['intl-numberformat', 'NumberFormat'],
  dates: ['intl-datetimeformat', 'DateTimeFormat'],
  lists: ['intl-listformat', 'ListFormat'],
  relative: ['intl-relativetimeformat', 'RelativeTimeFormat'],
};

const captured = (library, type, locale) => {
  const file = path.join(MODULES, library, 'locale-data', `${locale}.js`);
  if (!fs.existsSync(file)) return undefined;
  let data;
  const Type = class {
    static __addLocaleData(entry) {
      ({ data } = entry);
    }
  };
  const context = { Intl: { [type]: Type } };
  context.globalThis = context;
  vm.runInNewContext(fs.readFileSync(file, 'utf8'), context);
  return data;
};
const plain = (value) => JSON.parse(JSON.stringify(value));
const only = (object, keep) => Object.fromEntries(Object.entries(object).filter(([key, value]) => keep(key, value)));

const SHRUNK = {
  numbers(data) {
    const systems = NUMBER_SYSTEMS.filter((system) => data.nu.includes(system));
    const native = data.nu[0];
    const known = (system) => systems.includes(system) || system === native;
    const { aliases, nu, ...numbers } = data.numbers;
    for (const kind of ['currency', 'decimal', 'percent', 'symbols']) numbers[kind] = only(numbers[kind] ?? {}, known);
    // Omits historical currencies: their names in CLDR end with the years of their use.
    const current = new Set(Intl.supportedValuesOf('currency'));
    const used = (code, { displayName }) => current.has(code) && !/[12]\d{3}/.test(displayName.other);
    return {
      currencies: only(data.currencies, used),
      nu: [native, ...systems.filter((system) => system !== native)],
      numbers: { ...numbers, nu: [native, ...systems.filter((system) => system !== native)], aliases: only(aliases, known) },
      units: data.units,
    };
  },
  dates(data, locale) {
    // Returns `true` for a skeleton with a date and a time. `joining.mjs` joins these formats at run time.
    const isJoined = (skeleton) => {
      const fields = skeleton.replace(/'[^']*'/g, '');
      return /[^A-Za-z]/.test(skeleton) && /[hHkKjBms]/.test(fields) && /[GyMLEdcQ]/.test(fields);
    };
    const { timeZoneName, ...rest } = data;
    rest.formats = { gregory: only(data.formats.gregory, (skeleton) => !isJoined(skeleton)) };
    rest.intervalFormats = only(data.intervalFormats, (skeleton) => !isJoined(skeleton));
    rest.nu = [data.nu[0], ...NUMBER_SYSTEMS.filter((system) => system !== data.nu[0] && data.nu.includes(system))];
    rest.ca = ['gregory'];
    const of = { zh: 'zh-CN', 'zh-Hant': 'zh-TW', 'zh-Hant-HK': 'zh-HK' }[locale] ?? locale;
    rest.styleConnector = connectors(data, of, (dateStyle) => [{ dateStyle }, { timeStyle: 'short' }]);
    rest.dateTimeFormat = connectors(data, of, (style) => [FIELDS[style], { hour: '2-digit', minute: '2-digit' }]);
    for (const style of Object.keys(FIELDS)) rest.dateTimeFormat[style] = rest.dateTimeFormat[style].replace(/[^{}01]*\p{L}[^{}01]*/gu, "'$&'");
    rest.hourCycle = new Intl.DateTimeFormat(of, { hour: 'numeric' }).resolvedOptions().hourCycle;
    rest.zones = timeZoneName;
    // Replaces narrow no-break spaces with spaces, like V8: https://crbug.com/1414292
    return JSON.parse(JSON.stringify(rest).replaceAll('\u202f', ' '));
  },
};

// The date formats from which `connectors` extracts the text that this Node.js puts between a date and a time.
const FIELDS = {
  full: { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' },
  long: { year: 'numeric', month: 'long', day: 'numeric' },
  medium: { year: 'numeric', month: 'short', day: 'numeric' },
  short: { year: 'numeric', month: 'numeric', day: 'numeric' },
};
const connectors = (data, locale, optionsOf) => {
  const formatted = (options) => new Intl.DateTimeFormat(locale, { ...options, timeZone: 'UTC', calendar: 'gregory' }).format(0);
  const made = {};
  for (const style of Object.keys(FIELDS)) {
    const [date, time] = optionsOf(style);
    const [dateText, timeText, both] = [date, time, { ...date, ...time }].map(formatted);
    made[style] = both.includes(dateText) && both.includes(timeText) ? both.replace(dateText, '{1}').replace(timeText, '{0}') : data.dateTimeFormat[style];
  }
  return made;
};

const dataOf = (locale) => {
  const data = {};
  for (const [kind, [library, type]] of Object.entries(TYPES)) {
    const found = captured(library, type, locale);
    if (found !== undefined) data[kind] = SHRUNK[kind]?.(plain(found), locale) ?? plain(found);
    if (kind !== 'numbers' && kind !== 'dates' && data[kind]?.nu) data[kind].nu = data[kind].nu.filter((system, i) => i === 0 || NUMBER_SYSTEMS.includes(system));
  }
  return data;
};

// Returns the entries of `value` that differ from `base`, and `null` for entries that only `base` has.
const difference = (base, value) => {
  const isObject = (it) => typeof it === 'object' && it !== null && !Array.isArray(it);
  const changed = {};
  for (const key of new Set([...Object.keys(base), ...Object.keys(value)])) {
    if (JSON.stringify(base[key]) === JSON.stringify(value[key])) continue;
    changed[key] = isObject(base[key]) && isObject(value[key]) ? difference(base[key], value[key]) : (value[key] ?? null);
  }
  return changed;
};

// ---- Time zones

// Returns a line for each rule: `ZONES|OFFSETS|TRANSITIONS`. An offset is in minutes, with `!` for daylight saving
// time. A transition since 1970 is the number of minutes since the previous one, and the letter of the offset. Numbers
// have base 36.
const EARLIEST = 0;
const zoneData = () => {
  let packed;
  const context = { Intl: { DateTimeFormat: { __addTZData: (data) => (packed = data) } } };
  vm.runInNewContext(fs.readFileSync(path.join(MODULES, 'intl-datetimeformat', 'add-all-tz.js'), 'utf8'), context);
  const offsets = packed.offsets.split('|').map((offset) => parseInt(offset, 36));
  const minutes = (seconds) => Math.round(seconds / 60).toString(36);
  const rules = new Map();
  for (const zone of packed.zones) {
    const [name, ...transitions] = zone.split('|');
    let kept = [];
    for (const transition of transitions) {
      const [at, , offset, isDst] = transition.split(',');
      const seconds = at === '' ? -Infinity : parseInt(at, 36);
      if (Number.isNaN(seconds)) continue;
      const rule = minutes(offsets[+offset]) + (+isDst ? '!' : '');
      if (seconds <= EARLIEST) kept = [[-Infinity, rule]];
      else if (kept.at(-1)?.[1] !== rule) kept.push([seconds, rule]);
    }
    const used = [...new Set(kept.map(([, rule]) => rule))];
    let before = 0;
    const text = kept.map(([seconds, rule]) => {
      const since = seconds === -Infinity ? '' : minutes(seconds - before);
      if (seconds !== -Infinity) before = Math.round(seconds / 60) * 60;
      return since + String.fromCharCode(65 + used.indexOf(rule));
    });
    const key = `${used.join(' ')}|${text.join('')}`;
    rules.set(key, [...(rules.get(key) ?? []), name]);
  }
  return [...rules].map(([text, names]) => `${names.join(' ')}|${text}`);
};

// ---- Plural rules. They are functions, so their file is a script.
const pluralScript = () => {
  const entries = LOCALES.concat(Object.keys(VARIANTS)).flatMap((locale) => {
    const data = captured('intl-pluralrules', 'PluralRules', locale);
    return data === undefined ? [] : [`${JSON.stringify(locale)}:{categories:${JSON.stringify(data.categories)},pluralRanges:${JSON.stringify(data.pluralRanges ?? {})},fn:${data.fn}}`];
  });
  return `$glovebox.intl.plurals = {\n${entries.join(',\n')}\n};`;
};

fs.rmSync(path.join(OUT, 'locales'), { recursive: true, force: true });
fs.mkdirSync(path.join(OUT, 'locales'));
const write = (name, text) => {
  if (/\0/.test(text)) throw new Error(`${name} contains a zero byte`);
  fs.writeFileSync(path.join(OUT, name), text.endsWith('\n') ? text : `${text}\n`);
};
for (const [name, contents] of Object.entries(SCRIPTS)) write(`${name}.js`, await bundle(name === 'shared' ? 'shared' : name, contents));
write('rules.js', await bundle('rules', pluralScript()));
const all = Object.fromEntries([...LOCALES, ...Object.keys(VARIANTS)].map((locale) => [locale, dataOf(locale)]));

// In every locale, most zones share their names with other zones, so names are stored once for each group.
const groups = new Map();
for (const zone of new Set(Object.values(all).flatMap(({ dates }) => Object.keys(dates.zones)))) {
  const names = JSON.stringify(Object.values(all).map(({ dates }) => dates.zones[zone]));
  groups.set(names, [...(groups.get(names) ?? []), zone]);
}
const zoneGroups = [...groups.values()];
for (const { dates } of Object.values(all)) {
  dates.zones = only(Object.fromEntries(zoneGroups.map(([zone], i) => [i, dates.zones[zone]])), (_, names) => names !== undefined);
}
for (const locale of LOCALES) write(`locales/${locale}.json`, JSON.stringify(all[locale]));
for (const [locale, parent] of Object.entries(VARIANTS)) write(`locales/${locale}.json`, JSON.stringify(difference(all[parent], all[locale])));
write('zones.json', JSON.stringify(zoneData()));
write('collation.json', JSON.stringify(collation(LOCALES)));
write('index.json', JSON.stringify({
  locales: LOCALES, parents: VARIANTS, same: SAME, aliases: ALIASES, zoneGroups: zoneGroups.map((zones) => zones.join(' ')),
  supported: { calendar: ['gregory'], collation: [], currency: Intl.supportedValuesOf('currency'), numberingSystem: NUMBER_SYSTEMS.toSorted(), unit: Intl.supportedValuesOf('unit') },
}));
// The notices of a release include this file.
const licences = new Map();
for (const name of fs.readdirSync(MODULES).sort()) {
  const { version, license } = JSON.parse(fs.readFileSync(path.join(MODULES, name, 'package.json'), 'utf8'));
  const text = fs.readFileSync(path.join(MODULES, name, 'LICENSE.md'), 'utf8').trim();
  licences.set(text, [...(licences.get(text) ?? []), `@formatjs/${name} ${version} (${license})`]);
}
const parts = [...licences].map(([text, packages]) => `${packages.join('\n')}\n\n${text}\n`);
const data = 'Their data, and the order of text, are derived from the Unicode CLDR, Copyright (c) 1991-2026 Unicode, Inc.,\nunder the Unicode License V3 (SPDX: Unicode-3.0), whose text is elsewhere in this file.\n';
write('licences.txt', `Intl contains:\n\n${parts.join('\n')}\n${data}`);
for (const file of fs.readdirSync(OUT, { recursive: true })) {
  if (!file.startsWith('source') && fs.statSync(path.join(OUT, file)).isFile()) console.log(String(fs.statSync(path.join(OUT, file)).size).padStart(8), file);
}
