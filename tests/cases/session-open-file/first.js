var f = std.open("f", "w");
f.puts("one");
