const f = std.open("/app/made", "w");
f.puts("x");
f.close();
console.log("side effect");
for (;;) {}
