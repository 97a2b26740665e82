import tabulate

try:
    tabulate.tabulate(1)
except TypeError:
    import traceback

    lines = traceback.format_exc().splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith('  File "/app/site-packages/tabulate/__init__.py", line '))
    print(lines[at + 1].strip() != "")
import inspect

print(inspect.getsource(tabulate.tabulate).splitlines()[0])
