const piece = "x".repeat(65536);
const f = std.open("big", "wb");
for (let i = 0; i < 128; i++) f.puts(piece);
f.close();
console.log(os.stat("big")[0].size);
