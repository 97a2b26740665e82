const device = os.open('/dev/glovebox/displays', os.O_RDWR);
const send = (text) => os.write(device, Uint8Array.from(text, (c) => c.charCodeAt(0)).buffer, 0, text.length);
send('D\x0a\x00\x00\x00text/plain\x01\x00\x00\x00x');
send('D\xff\xff\xff\xff');
send('no display');
send('D\x04\x00\x00\x00../a\x01\x00\x00\x00x');
console.log(os.read(device, new ArrayBuffer(10), 0, 10));
