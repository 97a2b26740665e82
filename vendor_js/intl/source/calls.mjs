// Writes `tests/goldens/intl.json`: 500 calls with pseudo-random locales and options, and their results in
// this Node.js.
import fs from 'node:fs';
import path from 'node:path';

const LOCALES = [
  'ar', 'bn', 'cs', 'da', 'de', 'de-AT', 'de-CH', 'el', 'en', 'en-AU', 'en-CA', 'en-GB', 'en-IN', 'en-US', 'es', 'es-MX', 'fa', 'fi', 'fr', 'fr-CA', 'he', 'hi', 'hu', 'id', 'it', 'ja', 'ko', 'nb', 'nl',
  'pl', 'pt', 'pt-PT', 'ro', 'ru', 'sk', 'sv', 'th', 'tr', 'uk', 'vi', 'zh', 'zh-TW', 'tlh',
];
let state = 1;
const below = (count) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * count);
};
const pick = (list) => list[below(list.length)];
const maybe = (value) => (below(3) === 0 ? value : {});

const NUMBERS = [0, 1, -1, 5, 0.5, 99.999, 1234.5, -1234567.891, 1500, 2500000, 123456789012, 0.256, 3.14159];
const CURRENCIES = ['USD', 'EUR', 'GBP', 'JPY', 'INR', 'CHF', 'CNY', 'BRL'];
const UNITS = ['kilometer', 'liter', 'celsius', 'kilometer-per-hour', 'megabyte', 'day', 'hour'];
const numberOptions = () => pick([
  () => ({}),
  () => ({ ...maybe({ minimumFractionDigits: 2 }), maximumFractionDigits: 2 }),
  () => ({ maximumSignificantDigits: 1 + below(5) }),
  () => ({ style: 'percent', ...maybe({ maximumFractionDigits: 1 }) }),
  () => ({ style: 'currency', currency: pick(CURRENCIES), ...maybe({ currencyDisplay: pick(['narrowSymbol', 'code', 'name']) }) }),
  () => ({ style: 'currency', currency: pick(CURRENCIES), ...maybe({ currencySign: 'accounting' }), ...maybe({ maximumFractionDigits: 0 }) }),
  () => ({ style: 'unit', unit: pick(UNITS), unitDisplay: pick(['short', 'long', 'narrow']) }),
  () => ({ notation: 'compact', ...maybe({ compactDisplay: 'long' }) }),
  () => ({ useGrouping: false }),
  () => ({ signDisplay: pick(['always', 'exceptZero', 'never']) }),
  () => ({ minimumIntegerDigits: 1 + below(4) }),
])();

const DATES = [0, 951782400000, 1700000000000, 1718445600000, 1735689599999, 1740798245678];
const ZONES = ['America/New_York', 'Europe/Berlin', 'Asia/Tokyo', 'Asia/Kolkata', 'Australia/Sydney', 'America/Sao_Paulo'];
const dateOptions = () => ({
  ...pick([
    () => ({}),
    () => ({ dateStyle: pick(['full', 'long', 'medium', 'short']) }),
    () => ({ timeStyle: pick(['long', 'medium', 'short']) }),
    () => ({ dateStyle: pick(['full', 'long', 'medium', 'short']), timeStyle: pick(['medium', 'short']) }),
    () => ({ year: 'numeric', month: pick(['long', 'short', 'numeric', '2-digit']), day: pick(['numeric', '2-digit']), ...maybe({ weekday: pick(['long', 'short']) }) }),
    () => ({ month: pick(['long', 'short']), day: 'numeric' }),
    () => ({ year: 'numeric', month: pick(['long', 'short']) }),
    () => ({ timeZoneName: pick(['short', 'longOffset']) }),
    () => ({ [pick(['minute', 'second'])]: '2-digit' }),
    () => ({ hour: '2-digit', minute: '2-digit', ...maybe({ second: '2-digit' }), ...maybe({ hour12: pick([true, false]) }) }),
    () => ({ year: 'numeric', month: pick(['short', 'numeric']), day: 'numeric', hour: '2-digit', minute: '2-digit' }),
  ])(),
  timeZone: below(2) === 0 ? 'UTC' : pick(ZONES),
});

const WORDS = ['zebra', 'Äpfel', 'apfel', 'Zoo', 'éclair', 'eclair', 'Éclair', 'ñandú', 'nube', 'øl', 'oslo', 'ß', 'ss', 'item 10', 'item 9', 'co-op', 'coop', 'ö', 'o', 'A', 'a'];
const KINDS = [
  ['NumberFormat', 'format', () => [numberOptions(), [pick(NUMBERS)]], 4],
  ['DateTimeFormat', 'format', () => [dateOptions(), [pick(DATES)]], 3],
  ['PluralRules', 'select', () => [maybe({ type: 'ordinal' }), [pick([0, 1, 2, 3, 5, 11, 21, 22, 100, 1.5])]], 1],
  ['ListFormat', 'format', () => [{ type: pick(['conjunction', 'disjunction']), style: pick(['long', 'short']) }, [['a', 'b', 'c', 'd'].slice(0, 1 + below(4))]], 0.5],
  ['RelativeTimeFormat', 'format', () => [{ numeric: pick(['auto', 'always']) }, [pick([-1, 0, 1, 2, -5, 10]), pick(['second', 'minute', 'hour', 'day', 'week', 'month', 'year'])]], 0.5],
  ['Collator', 'compare', () => [pick([{}, { sensitivity: 'base' }, { sensitivity: 'accent' }, { numeric: true }, { caseFirst: 'upper' }]), [pick(WORDS), pick(WORDS)]], 1],
];
const weighted = KINDS.flatMap((kind) => Array(kind[3] * 2).fill(kind));
const isDifferent = (locale) => ['th', 'fa'].includes(locale);

const calls = [];
while (calls.length < 500) {
  const [type, method, make] = pick(weighted);
  const locale = pick(LOCALES);
  const [options, args] = make();
  // Calendars other than the Gregorian one are unsupported, which is a documented difference.
  const calendar = type === 'DateTimeFormat' && isDifferent(locale) ? { calendar: 'gregory' } : {};
  const all = { ...options, ...calendar };
  const made = new Intl[type](locale === 'tlh' ? ['tlh', 'en-US'] : locale, all);
  calls.push({ type, method, locale, options: all, args, node: made[method](...args) });
}
const file = path.join(import.meta.dirname, '..', '..', '..', 'tests', 'goldens', 'intl.json');
const old = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : [];
const key = ({ type, locale, options, args }) => JSON.stringify([type, locale, options, args]);
const ours = new Map(old.map((call) => [key(call), call.ours]));
const lines = calls.map((call) => JSON.stringify(ours.get(key(call)) === undefined ? call : { ...call, ours: ours.get(key(call)) }));
fs.writeFileSync(file, `[\n${lines.join(',\n')}\n]\n`);
