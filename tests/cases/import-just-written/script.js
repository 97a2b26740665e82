const f = std.open("fresh.js", "w");
f.puts("export const VALUE = 7;\nexport function bad() { throw new TypeError(); }\n");
f.close();
const fresh = await import("./fresh.js");
console.log(fresh.VALUE);
try {
  fresh.bad();
} catch (e) {
  console.log(/fresh\.js/.exec(e.stack)[0]);
}
