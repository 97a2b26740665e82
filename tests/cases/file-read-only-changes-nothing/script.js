std.out.puts(std.loadFile('input.txt'));
