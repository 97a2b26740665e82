{ const f = std.open("log.txt", "w"); f.puts("one\n"); f.close(); }
