import os

got = []
for fd in [*range(3, 40), 0x40000000, 0x3FFFFFFF, 0x40000001]:
    for call in (lambda: os.read(fd, 10), lambda: os.write(fd, b"x"), lambda: os.dup(fd)):
        try:
            call()
            got.append(fd)
        except (OSError, AttributeError, OverflowError):
            pass
for fd in (0x40000000, 0x3FFFFFFF):
    try:
        os.close(fd)
    except OSError:
        pass
print([fd for fd in got if fd != 0x40000000])
