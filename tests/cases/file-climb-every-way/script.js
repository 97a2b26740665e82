const got = [];
for (const p of ["../etc/passwd", "/app/../etc/passwd", "/app/./../../etc/passwd", "x/../../etc/passwd", "//etc/passwd", "/proc/self/environ", "/dev/zero", "/var/x", "/data/x"]) {
  if (std.open(p, "r") !== null) got.push("r " + p);
  if (std.open(p, "w") !== null) got.push("w " + p);
  if (os.open(p, os.O_RDONLY) >= 0) got.push("o " + p);
  if (os.mkdir(p) === 0) got.push("m " + p);
  if (os.remove(p) === 0) got.push("d " + p);
  if (os.stat(p)[1] === 0) got.push("s " + p);
}
console.log(got.length ? JSON.stringify(got) : "all refused");
