const { stdin, stdout } = process;
console.log(stdin.isPaused(), stdin.readable, typeof stdin.resume, typeof stdin.setEncoding);
let size = 0;
stdin.on('data', (chunk) => {
  console.log(Buffer.isBuffer(chunk), chunk.length);
  size += chunk.length;
});
stdin.on('end', () => console.log('end', size));
stdin.pipe(stdout);
