import importlib, os, pkgutil, runpy, sys, zipfile

with zipfile.ZipFile("lib.zip", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("mine.py", "x = 1")
    z.writestr("other.py", "x = 2")
    z.writestr("package/__init__.py", "from .part import x")
    z.writestr("package/part.py", "x = 3")
    z.writestr("package/data.txt", "text in the archive")
with zipfile.ZipFile("main.zip", "w") as z:
    z.writestr("__main__.py", "import sys; print(sys.argv[0], 'runs its main')")
os.mkdir("program")
with open("program/__main__.py", "w") as f:
    f.write("import sys; print(sys.argv[0], 'runs its main')")
with open("task.py", "w") as f:
    f.write("print(__name__, 'run a script', __file__)")

sys.path.insert(0, "/app/lib.zip")
import mine

print(mine.x, mine.__file__)
sys.path[0] = "lib.zip"
import other

print(other.x, other.__file__)
import package

print("in a package", package.x)
print(pkgutil.get_data("package", "data.txt").decode())
del sys.path[0]

runpy.run_path("/app/task.py", run_name="__main__")
runpy.run_path("main.zip", run_name="__main__")
runpy.run_path("/app/program", run_name="__main__")

places = ["/app/task.py", "/app/missing", "/app/lib.zip", "/app/program"]
print([place for place in places if pkgutil.get_importer(place)])

sys.path.insert(0, "/app/made")
try:
    import later
except ImportError as error:
    print(type(error).__name__)
os.mkdir("made")
with open("made/later.py", "w") as f:
    f.write("x = 4")
importlib.invalidate_caches()
import later

print(later.x)
