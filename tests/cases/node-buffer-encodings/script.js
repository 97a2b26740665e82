const bytes = Buffer.from('héllo wörld €😀');
for (const encoding of ['utf8', 'hex', 'base64', 'base64url', 'latin1', 'ascii', 'utf16le']) console.log(encoding, JSON.stringify(bytes.toString(encoding)));
console.log([bytes.toString('utf8', 1, 4), bytes.toString('utf8', 5, 2), bytes.toString(undefined, 0, 3)]);
console.log(Buffer.from('zz', 'hex'), Buffer.from('abc', 'hex'), Buffer.from('a-_b', 'base64'), Buffer.from('a GVs\nbG8=', 'base64'));
console.log(Buffer.from([1, 256, -1, 3.7]), Buffer.from(new Uint16Array([1, 300])), Buffer.from({ length: 2, 0: 5, 1: 6 }));
console.log(Buffer.byteLength('€'), Buffer.byteLength('aGk=', 'base64'), Buffer.isEncoding('UTF8'), Buffer.isEncoding('x'));
console.log(JSON.stringify(bytes.subarray(0, 3)), `${Buffer.from('q')}`, Buffer.alloc(60));
