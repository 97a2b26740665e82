std.open('/app/output.txt', 'w').puts('data');
globalThis.kept = std.open('/app/left.txt', 'w');
kept.puts("held open");
