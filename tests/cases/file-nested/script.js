os.mkdir("/app/subdir");
os.mkdir("/app/subdir/deeper");
const write = (path, text) => { const f = std.open(path, "w"); f.puts(text); f.close(); };
write("/app/subdir/file.txt", "a");
write("subdir/deeper/other.txt", "b");
