os.mkdir("dir");
std.open("dir/f", "w").close();
const e = {};
std.open("missing", "r", e);
console.log(e.errno === std.Error.ENOENT, -os.mkdir("dir") === std.Error.EEXIST, os.remove("dir") < 0, -os.remove("missing") === std.Error.ENOENT);
