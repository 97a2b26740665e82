const f = std.open("f", "w+b");
f.puts("0123456789");
f.seek(2, std.SEEK_SET);
f.puts("XX");
console.log(f.tell());
f.seek(0, std.SEEK_END);
console.log(f.tell());
f.close();
