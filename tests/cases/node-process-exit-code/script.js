process.exitCode = 4;
process.on('exit', (code) => console.log('leaving with', code));
setTimeout(() => console.log('still runs'), 1);
