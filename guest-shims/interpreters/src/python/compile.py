"""Compiles the packages, so that the interpreter that becomes the image need not: compiling leaves holes in its memory.

Each file of bytecode is written as its path, its length and its bytes, one after another."""

import importlib._bootstrap_external as external
import importlib.util
import os
import sys

site, written = sys.argv[1:]
with open(written, "wb") as out:
    for directory, names, files in os.walk(site):
        names.sort()
        for file in sorted(files):
            path = f"{directory}/{file}"
            if not file.endswith(".py"):
                continue
            with open(path, "rb") as source:
                text = source.read()
            try:
                code = compile(text, path, "exec", 0, True)
            except SyntaxError:
                continue  # for another version of Python
            # Valid whatever the time of the source.
            bytecode = external._code_to_hash_pyc(code, importlib.util.source_hash(text), False)
            name = importlib.util.cache_from_source(path)[len(site) + 1 :].encode()
            for part in name, bytecode:
                out.write(len(part).to_bytes(4, "little") + part)
