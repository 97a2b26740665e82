import errno
import os

os.chdir("/app")
ATTEMPTS = [
    lambda: open("/app/site-packages/six.py", "w"),
    lambda: open("/app/site-packages/new.py", "w"),
    lambda: open("site-packages/six.py", "a"),
    lambda: os.mkdir("/app/site-packages/new"),
    lambda: os.remove("/app/site-packages/six.py"),
    lambda: os.rename("/app/site-packages/six.py", "/app/site-packages/seven.py"),
    lambda: os.rename("/app/site-packages/six.py", "/app/six.py"),
    lambda: os.symlink("six.py", "/app/site-packages/link"),
    lambda: os.truncate("/app/site-packages/six.py", 0),
    lambda: os.utime("/app/site-packages/six.py", (1, 1)),
]
for attempt in ATTEMPTS:
    try:
        attempt()
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno], end=" ")
print(os.path.getsize("/app/site-packages/six.py") > 1000)
