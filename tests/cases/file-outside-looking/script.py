import os
from pathlib import Path

open("own", "w").close()
paths = ["/etc/passwd", "/var", "../x", "/app/../etc/passwd", "/var/deep/er"]
looks = {
    "exists": lambda p: Path(p).exists(),
    "is_file": lambda p: Path(p).is_file(),
    "is_dir": lambda p: Path(p).is_dir(),
    "is_symlink": lambda p: Path(p).is_symlink(),
    "os.path.exists": os.path.exists,
    "os.access": lambda p: os.access(p, os.R_OK),
}
print(*looks, ":", *{look(p) for look in looks.values() for p in paths})
calls = {
    "stat": os.stat,
    "lstat": os.lstat,
    "readlink": os.readlink,
    "listdir": os.listdir,
    "scandir": os.scandir,
    "chdir": os.chdir,
    "open": open,
    "write": lambda p: open(p, "w"),
    "append": lambda p: open(p, "ab"),
    "mkdir": os.mkdir,
    "rmdir": os.rmdir,
    "unlink": os.unlink,
    "rename": lambda p: os.rename(p, "x"),
    "rename to": lambda p: os.rename("own", p),
    "link": lambda p: os.link("own", p),
    "symlink": lambda p: os.symlink("own", p),
    "utime": lambda p: os.utime(p, (0, 0)),
    "truncate": lambda p: os.truncate(p, 0),
}
for name, call in calls.items():
    seen = set()
    for path in paths:
        try:
            seen.add(f"no error for {path}: {call(path)}")
        except OSError as error:
            seen.add(type(error).__name__)
    print(name, *seen)
os.unlink("own")
for call in open, os.stat:
    try:
        call("/etc/passwd")
    except OSError as error:
        print(error)
