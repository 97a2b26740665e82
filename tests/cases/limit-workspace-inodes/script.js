let made = 0;
for (; made < 200; made++) {
  const f = std.open(`f${made}`, "w");
  if (f === null) break;
  f.close();
}
console.log(40 < made && made < 51 ? "full below 51" : made);
for (let i = 0; i < made; i++) os.remove(`f${i}`);
std.open("again", "w").close();
console.log("room again");
