const bytes = Buffer.alloc(16);
bytes.writeUInt32BE(0xdeadbeef, 0);
bytes.writeInt16LE(-2, 4);
bytes.writeDoubleBE(1.5, 8);
console.log(bytes, bytes.readUInt32BE(0).toString(16), bytes.readInt16LE(4), bytes.readDoubleBE(8), bytes.readUIntBE(0, 3));
for (const wrong of [() => bytes.readUInt32LE(13), () => bytes.writeUInt8(256, 0), () => Buffer.from(5)]) {
  try {
    wrong();
  } catch (error) {
    console.log(error.name, error.code, error.message);
  }
}
const part = bytes.subarray(0, 2);
part[0] = 1;
console.log(bytes[0], bytes.indexOf(0xef), bytes.slice(1, 4).toString('hex'));
