import os

os.mkdir("dir")
open("dir/f", "w").close()


def attempt(call):
    try:
        call()
        print("worked")
    except Exception as error:
        print(type(error).__name__)


attempt(lambda: open("missing"))
attempt(lambda: os.mkdir("dir"))
attempt(lambda: open("dir", "w"))
attempt(lambda: open("dir/f/x"))
attempt(lambda: os.rmdir("dir"))
attempt(lambda: os.remove("missing"))
attempt(lambda: open("nul\0byte"))
