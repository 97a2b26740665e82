process.on('exit', (code) => console.log('leaving with', code));
setTimeout(() => console.log('never'), 1000);
console.log('begin');
process.exit(3);
