const held = [];
for (let i = 0; i < 100; i++) {
  const f = std.open("f", "w");
  if (f === null) break;
  held.push(f);
}
console.log(8 < held.length && held.length < 17 ? "refused below 17" : held.length);
for (const f of held) f.close();
std.open("f", "w").close();
console.log("usable");
