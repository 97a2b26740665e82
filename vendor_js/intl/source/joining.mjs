const DATE_FIELDS = ['weekday', 'era', 'year', 'month', 'day'];
const TIME_FIELDS = ['dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits'];
const connectorsOf = /* @__PURE__ */ new WeakMap();
function joinedBy(connectors, formats) {
  connectorsOf.set(formats, connectors);
  return formats;
}
function connectorFor(connectors, { month, weekday }) {
  if (month === 'long') return weekday === undefined ? connectors.long : connectors.full;
  return month === 'short' ? connectors.medium : connectors.short;
}
// A minute or a second alone is not padded.
function lone(field, formats) {
  const pattern = `{${field}}`;
  const { default: fallback } = formats[0].rangePatterns;
  return { __proto__: null, [field]: 'numeric', pattern, pattern12: pattern, rangePatterns: { __proto__: null, default: fallback }, rangePatterns12: { __proto__: null, default: fallback } };
}
function BestFitFormatMatcher(options, formats) {
  const has = (fields) => fields.some((field) => options[field] !== undefined);
  const connectors = connectorsOf.get(formats);
  const hasDate = has(DATE_FIELDS);
  const hasTime = has(TIME_FIELDS);
  if (connectors === undefined) return bestFitOf(options, formats);
  const times = TIME_FIELDS.filter((field) => options[field] !== undefined);
  if (!hasDate && times.length === 1 && (times[0] === 'minute' || times[0] === 'second')) return lone(times[0], formats);
  const hasZoneOnly = hasDate && !hasTime && options.timeZoneName !== undefined;
  if (!hasZoneOnly && !(hasDate && hasTime)) return bestFitOf(options, formats);
  const whole = bestFitOf(options, formats);
  if ([...DATE_FIELDS, ...TIME_FIELDS, 'timeZoneName'].every((field) => (options[field] === undefined) === (whole[field] === undefined))) return whole;
  const without = (fields) => Object.fromEntries(Object.entries(options).filter(([field]) => !fields.includes(field)));
  const zone = { __proto__: null, timeZoneName: options.timeZoneName, pattern: '{timeZoneName}', pattern12: '{timeZoneName}' };
  const time = hasZoneOnly ? zone : bestFitOf(without(DATE_FIELDS), formats);
  const date = bestFitOf(without([...TIME_FIELDS, 'timeZoneName', 'hour12']), formats);
  const connector = connectorFor(connectors, options);
  const join = (pattern) => connector.replace('{0}', () => time[pattern]).replace('{1}', () => date.pattern);
  const joined = Object.assign(Object.create(null), date, time, { pattern: join('pattern'), pattern12: join('pattern12') });
  joined.rangePatterns = { __proto__: null, default: date.rangePatterns.default };
  joined.rangePatterns12 = { __proto__: null, default: date.rangePatterns12.default };
  return joined;
}
