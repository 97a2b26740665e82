import errno
import os
import shutil

with open("a.txt", "w+b") as file:
    file.write(b"abcdef")
    file.seek(2)
    try:
        copy = os.dup(file.fileno())
        print(os.read(copy, 2), os.read(copy, 2))
        os.dup(99)
    except OSError as error:
        print("no second descriptor" if error.errno == errno.ENOTSUP else error.errno == errno.EBADF)
with open("/dev/stdout", "w") as out:
    out.write("to the stream\n")
with open("/dev/stdin") as lines:
    print(lines.readline().strip())
usage, space = shutil.disk_usage("."), os.statvfs("a.txt")
print(usage.total == usage.used + usage.free, space.f_bavail > 0, space.f_favail > 0)
