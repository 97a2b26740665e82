const { stdin } = process;
stdin.setEncoding('utf8');
stdin.pause();
stdin.on('data', (chunk) => console.log(typeof chunk, JSON.stringify(chunk)));
stdin.on('end', () => console.log('end'));
console.log(stdin.isPaused());
setTimeout(() => {
  console.log('resumed');
  stdin.resume();
}, 5);
