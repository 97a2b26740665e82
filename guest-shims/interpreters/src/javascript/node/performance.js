'use strict';
// `performance.mark`, `performance.measure` and the entries that they create.
{
  const $ = $glovebox;
  const { now } = $.builtins.performance;

  let entries = [];
  class PerformanceEntry {
    constructor(name, entryType, startTime, duration, detail) {
      Object.assign(this, { name, entryType, startTime, duration, detail });
    }
    toJSON() {
      return { ...this };
    }
  }
  class PerformanceMark extends PerformanceEntry {}
  class PerformanceMeasure extends PerformanceEntry {}

  const add = (entry) => {
    // Keeps entries ordered by start time, then by creation.
    const at = entries.findLastIndex((other) => other.startTime <= entry.startTime);
    entries.splice(at + 1, 0, entry);
    return entry;
  };
  const timeOf = (mark, missing) => {
    if (mark === undefined) return missing;
    if (typeof mark === 'number') return mark;
    const found = entries.findLast((entry) => entry.entryType === 'mark' && entry.name === `${mark}`);
    if (found === undefined) throw new DOMException(`The "${mark}" performance mark has not been set`, 'SyntaxError');
    return found.startTime;
  };
  const clear = (type) => (name) => {
    entries = entries.filter((entry) => entry.entryType !== type || (name !== undefined && entry.name !== `${name}`));
  };

  $.marks = {
    mark: (name, options = {}) => add(new PerformanceMark(`${name}`, 'mark', options.startTime ?? now(), 0, options.detail ?? null)),
    measure(name, start, end) {
      const options = typeof start === 'object' && start !== null ? start : { start, end };
      const hasEnd = options.end !== undefined || options.duration === undefined;
      const until = hasEnd ? timeOf(options.end, now()) : timeOf(options.start, 0) + options.duration;
      const from = options.start === undefined && options.duration !== undefined ? until - options.duration : timeOf(options.start, 0);
      return add(new PerformanceMeasure(`${name}`, 'measure', from, until - from, options.detail ?? null));
    },
    clearMarks: clear('mark'),
    clearMeasures: clear('measure'),
    getEntries: () => [...entries],
    getEntriesByName: (name, type) => entries.filter((entry) => entry.name === `${name}` && (type === undefined || entry.entryType === type)),
    getEntriesByType: (type) => entries.filter((entry) => entry.entryType === type),
    timerify(original) {
      if (typeof original !== 'function') throw $.functionError('fn', original);
      return function (...args) {
        return new.target ? Reflect.construct(original, args, new.target) : original.apply(this, args);
      };
    },
  };
}
