globalThis.Buffer = 5;
structuredClone = 6;
console.log(Buffer, structuredClone, typeof require('buffer').Buffer, Buffer);
console.log(Object.keys(globalThis).includes('Buffer'), typeof URL, typeof TextEncoder);
