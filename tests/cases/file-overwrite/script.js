const f = std.open('input.txt', 'w');
f.puts('new');
f.close();
