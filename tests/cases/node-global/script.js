global.answer = 42;
console.log(answer, global === globalThis, typeof global.process, Object.keys(globalThis).includes('global'));
