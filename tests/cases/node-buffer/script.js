const text = 'héllo €';
for (const encoding of ['utf8', 'hex', 'base64', 'base64url', 'latin1', 'utf16le']) {
  const shown = Buffer.from(text).toString(encoding);
  console.log(encoding, shown, Buffer.from(text, 'utf8').equals(Buffer.from(text)));
}
console.log(Buffer.from('aGk=', 'base64').toString(), Buffer.from('6869', 'hex').toString(), Buffer.byteLength(text));
console.log(Buffer.concat([Buffer.from('a'), Buffer.from('b')]), Buffer.alloc(3, 'xy'), Buffer.from([1, 2, 300]));
console.log(JSON.stringify(Buffer.from('hi')), Buffer.isBuffer(new Uint8Array(1)), require('buffer').Buffer === Buffer);
