console.log("text", 1, true, null, undefined, 12n, -0, Symbol("s"));
console.log();
