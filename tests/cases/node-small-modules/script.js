const tty = require('tty');
console.log(tty.isatty(0), typeof require('node:tty').WriteStream, Boolean(process.stdout.isTTY));
console.log(require('sys').format === require('util').format, require('util').formatWithOptions({}, '%s %j', 'a', [1]));
const { performance } = require('perf_hooks');
const mark = performance.mark('begin', { startTime: 2, detail: 'x' });
performance.mark('end', { startTime: 5 });
const { name, entryType, startTime, duration } = performance.measure('all', 'begin', 'end');
console.log(mark.name, mark.detail, [name, entryType, startTime, duration]);
console.log(performance.getEntriesByType('mark').map((entry) => entry.name), performance.getEntriesByName('all').length);
performance.clearMarks('begin');
console.log(performance.getEntries().map((entry) => entry.name));
try {
  performance.measure('none', 'nowhere');
} catch (error) {
  console.log(error.name, error.message);
}
performance.clearMarks();
performance.clearMeasures();
console.log(performance.getEntries().length, performance.timerify((a) => a + 1)(1));
