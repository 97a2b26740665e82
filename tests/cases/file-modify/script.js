const f = std.open('/app/input.txt', 'a');
f.puts('more');
f.close();
