std.out.puts(std.loadFile("log.txt"));
