console.log("before");
std.exit(0);
console.log("after");
