console.log(process.argv.length, process.argv[1], process.cwd(), process.platform, typeof process.version);
process.stdout.write('no line break');
process.stdout.write('\n');
console.log(process.env.HOME, process.uptime() >= 0, typeof process.hrtime.bigint(), process.exitCode);
process.nextTick(() => console.log('later'));
console.log('now', require('process') === process);
