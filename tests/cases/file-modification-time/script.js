std.open("f", "w").close();
console.log(Math.floor(os.stat("f")[0].mtime / 1000));
