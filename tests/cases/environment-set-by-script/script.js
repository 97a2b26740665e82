console.log(std.getenv("MINE") ?? "none");
std.setenv("MINE", "set");
console.log(std.getenv("MINE"));
