"""Compiles the packages in advance, because compiling them in the image's interpreter would fragment its memory.

The output contains the path and the content of each bytecode file, each preceded by its length."""

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
                continue  # a file for another version of Python
            # A hash-based pyc is valid regardless of the source's modification time.
            bytecode = external._code_to_hash_pyc(code, importlib.util.source_hash(text), False)
            name = importlib.util.cache_from_source(path)[len(site) + 1 :].encode()
            for part in name, bytecode:
                out.write(len(part).to_bytes(4, "little") + part)
