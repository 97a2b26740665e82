const f = std.open("grüße 😀.txt", "w");
f.puts("ü");
f.close();
std.open("with space", "w").close();
console.log(os.readdir("/app")[0].filter((n) => n.includes("ü") || n.includes(" ")).length);
