const f = std.open('/app/input.txt', 'r+');
f.puts('FIRST');
f.close();
