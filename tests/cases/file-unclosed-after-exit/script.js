globalThis.kept = std.open('/app/left.txt', 'w');
kept.puts("written before");
std.exit(3);
