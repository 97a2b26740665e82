import os

paths = ["../etc/passwd", "/app/../etc/passwd", "/app/./../../etc/passwd", "x/../../etc/passwd", "//etc/passwd", "/proc/self/environ", "/dev/zero", "/app/..", "..", "/", "/var", "/data"]
calls = [lambda p: open(p), lambda p: open(p, "w"), os.listdir, os.stat, os.mkdir, os.rmdir, os.unlink, os.chdir, lambda p: os.symlink("x", p), lambda p: os.rename("/app", p), lambda p: os.link("/app", p)]
got = []
for p in paths:
    for i, call in enumerate(calls):
        if i in (2, 3, 7) and p in ("/app/..", "..", "/"):
            continue  # some libcs answer these from the list of preopens
        try:
            call(p)
            got.append((i, p))
        except OSError:
            pass
print(got or "all refused")
