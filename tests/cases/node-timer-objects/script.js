const late = setTimeout(() => console.log('never'), 60_000);
console.log(typeof late, late.hasRef(), late.refresh() === late, late.unref() === late, late.hasRef(), typeof late[Symbol.toPrimitive]());
clearTimeout(+late);
const beat = setInterval(() => {
  console.log('beat');
  if (++beat.count === 2) clearInterval(beat);
}, 5);
beat.count = 0;
clearImmediate(setImmediate(() => console.log('never')));
setTimeout((a, b) => console.log(a + b), 1, 2, 3);
setTimeout(() => console.log('never'), 2).close();
setTimeout(() => console.log('never'), 60_000).unref();
let rounds = 0;
const again = setTimeout(() => {
  if (++rounds < 3) again.refresh();
  else console.log('rounds', rounds);
}, 10);
clearTimeout(undefined);
clearTimeout('nothing');
setTimeout(() => setImmediate(() => console.log('soon')).unref().ref(), 60);
process.on('exit', () => console.log('exit'));
