const data = Uint8Array.from({ length: 256 }, (_, i) => i);
let f = std.open("bytes.bin", "wb");
f.write(data.buffer, 0, 256);
f.close();
const back = new Uint8Array(300);
f = std.open("bytes.bin", "rb");
const n = f.read(back.buffer, 0, 300);
console.log(n, back[255], data.every((v, i) => v === back[i]));
