const names = (p) => os.readdir(p)[0].filter((n) => n !== "." && n !== "..").sort();
console.log(names("/app").join(" "));
console.log(names("dir").length, "file");
