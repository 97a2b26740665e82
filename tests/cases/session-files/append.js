{ const f = std.open("log.txt", "a"); f.puts("two\n"); f.close(); std.out.puts(std.loadFile("log.txt")); }
