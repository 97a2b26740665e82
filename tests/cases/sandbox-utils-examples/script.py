import doctest
import sandbox_utils
from sandbox_utils import *

functions = {name: getattr(sandbox_utils, name) for name in sandbox_utils.__all__}
texts = {file: cat(file) for file in map(str, walk())}
report = []
run = doctest.DocTestRunner()
for name, function in functions.items():
    for path in ls():
        if path != "site-packages":
            rm(path, recursive=True)
    for file, text in texts.items():
        mkdir(file.rpartition("/")[0])
        echo(text[:-1], file)
    tests = doctest.DocTestFinder(recurse=False).find(function, name, globs=dict(functions))
    if not any(test.examples for test in tests):
        report.append(f"{name} has no example\n")
    for test in tests:
        run.run(test, out=report.append)
print(*report, sep="", end="")
print(run.failures, "failures in the examples of", len(functions), "functions")
