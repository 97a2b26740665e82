import os

def say(label, call):
    try:
        print(label, repr(call()))
    except OSError as why:
        print(label, type(why).__name__, why.strerror)
    except Exception as why:
        print(label, type(why).__name__)


os.mkdir("kept")
open("kept.txt", "w").close()
say("exists", lambda: os.path.exists(""))
say("lexists", lambda: os.path.lexists(""))
say("isfile", lambda: os.path.isfile(""))
say("islink", lambda: os.path.islink(""))
say("access", lambda: os.access("", os.F_OK))
say("stat", lambda: os.stat("").st_size)
say("lstat", lambda: os.lstat("").st_size)
say("getsize", lambda: os.path.getsize(""))
say("listdir", lambda: os.listdir(""))
say("scandir", lambda: list(os.scandir("")))
say("chdir", lambda: os.chdir(""))
say("mkdir", lambda: os.mkdir(""))
say("makedirs", lambda: os.makedirs(""))
say("makedirs exist_ok", lambda: os.makedirs("", exist_ok=True))
say("rmdir", lambda: os.rmdir(""))
say("remove", lambda: os.remove(""))
say("rename", lambda: os.rename("", "other"))
say("rename to", lambda: os.rename("kept", ""))
say("utime", lambda: os.utime(""))
say("chmod", lambda: os.chmod("", 0o600))
say("readlink", lambda: os.readlink(""))
say("symlink", lambda: os.symlink("kept.txt", ""))
say("link", lambda: os.link("kept.txt", ""))
say("truncate", lambda: os.truncate("", 0))
say("open", lambda: os.open("", os.O_RDONLY))
say("walk", lambda: list(os.walk("")))
print(sorted(os.listdir(".")))

import pathlib
import shutil
import sqlite3

say("rmtree", lambda: shutil.rmtree(""))
say("copytree", lambda: shutil.copytree("", "copy"))
say("move", lambda: shutil.move("", "moved"))
say("built-in open", lambda: open("", "w"))
say("pathlib", lambda: (str(pathlib.Path("")), pathlib.Path("").is_dir()))
print(sqlite3.connect("").execute("select 6 * 7").fetchone())  # a database in memory, as everywhere
print(sorted(os.listdir("./")), sorted(os.listdir("/app/")))
