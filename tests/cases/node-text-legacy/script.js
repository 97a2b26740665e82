const decode = (label, ...bytes) => new TextDecoder(label).decode(Uint8Array.of(...bytes));
console.log(decode('koi8-r', 0xf2, 0xd5, 0xd3), decode('windows-1251', 0xc0, 0xe1), decode('latin2', 0xb1, 0xe6), decode('iso-8859-15', 0xa4));
console.log(decode('utf-16be', 0, 0x41, 0, 0xe9), decode('utf-16be', 0xfe, 0xff, 0x26, 0x3a), new TextDecoder('CP1250').encoding, new TextDecoder('latin5').encoding);
try {
  new TextDecoder('windows-1253', { fatal: true }).decode(Uint8Array.of(0xd2));
} catch (error) {
  console.log(error.name, error.code);
}
try {
  new TextDecoder('no-such');
} catch (error) {
  console.log(error.name, error.code);
}
