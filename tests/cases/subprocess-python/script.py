import os


def attempt(call):
    try:
        result = call()
        print("refused" if result not in (0, None) else "ran")
    except (OSError, AttributeError, ImportError, NotImplementedError):
        print("refused")


def run():
    import subprocess

    return subprocess.run(["ls"], check=True).returncode


attempt(run)
attempt(lambda: os.system("ls"))
attempt(lambda: os.fork())
attempt(lambda: os.execv("/bin/ls", ["ls"]))
