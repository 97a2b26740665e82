import os

from sandbox_utils import cat, cp, echo, ls, mkdir, mv, rm, touch

mkdir("data/inner")
echo("x", "data/x.txt")
with open("binary", "wb") as file:
    file.write(b"ab\xff")
for call in [
    'rm("/app", recursive=True)',
    'rm("/", recursive=True, force=True)',
    'rm("../app", recursive=True)',
    'rm(".", recursive=True)',
    'rm("data/inner/../..", recursive=True)',
    'rm("data")',
    'rm("missing.txt")',
    'rm("")',
    'rm(["a", "b"])',
    'cp("data", "copy")',
    'cp("data", "data/inner", recursive=True)',
    'cp("data/x.txt", "data/x.txt")',
    'cp("missing", "copy")',
    'mv("data", "data/inner")',
    'mv("missing", "copy")',
    'mv("/app", "/elsewhere")',
    'mkdir("data/x.txt")',
    'mkdir("a/b", parents=False)',
    'touch("a/b")',
    'echo("x", "/etc/passwd")',
    'cat("/etc/passwd")',
    'cat("binary")',
    "cat()",
    'ls("missing")',
    'cat(b"binary")',
]:
    try:
        print(eval(call), call)
    except (OSError, TypeError, ValueError) as error:
        print(f"{call}: {type(error).__name__}: {error}")
os.symlink(".", "link")
rm("link", recursive=True)
os.chdir("data")
rm("/app/data/inner", recursive=True)
print(ls("."))
rm("/app/data", recursive=True)
print(os.path.exists("/app/data"), os.path.exists("/app/binary"))
