const text = std.in.readAsString();
const lines = text.split("\n");
let bytes = 0;
for (const c of text) bytes += c.codePointAt(0) < 128 ? 1 : 2;
console.log(`${lines.length} lines, last ${lines.at(-1)}, ${bytes} bytes`);
