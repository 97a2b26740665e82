console.log('first');
process.stdout.write('second');
for (;;) {}
