"""Boots the interpreter. Runs once inside CPython, at preparation; the resulting memory is the image.

A command is started as `python -c LOADER BOOT`, and a reactor runs BOOT through an export (see boot.rs). BOOT is the
concatenation of the files in this folder. They run in a separate module, not in `__main__`. settle.py prints the
driver's addresses, and park.py parks a command. From then on, the host calls the driver's functions (`run`, `run_with`,
`validate`, `flush`, `close`, `grow` and others) directly, through the vectorcall slot of their type. The host passes
scripts in the bytearray `buffer` by writing its header and bytes in place, without allocating, opening or parsing
anything. A driver function returns `None` or a `bytes` object with its report.

Driver functions must not raise, because the host cannot read the exception. Each statement in `run` adds to the fuel of
every execution.
"""

import _imp
import importlib.machinery as machinery
import sys
import zipimport

VERSION = "python3.%d" % sys.version_info.minor
ARCHIVE = VERSION.replace(".", "") + ".zip"
LIBRARY = next(path for path in sys.path if path.endswith("/" + ARCHIVE))
_module_code, _exec_module = zipimport._get_module_code, zipimport.zipimporter.exec_module
_get_data = zipimport.zipimporter.get_data
SOURCES = LIBRARY.replace(ARCHIVE, VERSION)  # the directory in the file names of the library's code
early = {}  # from library module name to a function that changes the module's code before it runs
late = {}  # from library module name to a function that changes the loaded module


def module_code(self, fullname):
    # The library's bytecode contains file names of the build machine, which this function replaces.
    code, is_package, path = _module_code(self, fullname)
    if code is not None and self.archive == LIBRARY:
        if fullname in early:
            code = early[fullname](code)
        _imp._fix_co_filename(code, path.replace(ARCHIVE, VERSION).removesuffix("c"))
    return code, is_package, path


def exec_module(self, module):
    # Sets `__file__` to the code's `co_filename`. Packages compare the two to distinguish their own frames from a
    # script's. Data files that packages open relative to `__file__` exist at this path: the host mounts them.
    if self.archive == LIBRARY:
        module.__file__ = module.__file__.replace(ARCHIVE, VERSION).removesuffix("c")
    if module.__name__ == "matplotlib.pyplot" and self.archive == LIBRARY:
        make_figures()
    _exec_module(self, module)
    if module.__name__ in late and self.archive == LIBRARY:
        late[module.__name__](module)


def get_data(self, pathname):
    # Accepts the file names that `exec_module` sets.
    if self.archive == LIBRARY and pathname.startswith(SOURCES + "/"):
        pathname = LIBRARY + pathname[len(SOURCES) :]
    return _get_data(self, pathname)


# Must precede all other imports, which need these functions.
zipimport._get_module_code, zipimport.zipimporter.exec_module = module_code, exec_module
zipimport.zipimporter.get_data = get_data

import _thread
import ast
import asyncio.selector_events
import asyncio.unix_events
import atexit
import base64
import builtins
import collections
import datetime
import difflib
import errno
import functools
import gc
import hashlib
import importlib
import inspect
import io
import itertools
import json
import keyword
import linecache
import logging
import marshal
import math
import mimetypes
import os
import queue
import random
import re
import selectors
import shutil
import signal
import threading
import time
import traceback
import types
import uuid
import warnings
import weakref
import zoneinfo

# Preloads the modules that scripts import most often, so that importing them costs scripts almost no fuel.
for _name in """
    abc argparse array ast asyncio base64 bisect builtins cProfile calendar cmath collections.abc colorsys
    concurrent.futures configparser contextlib contextvars copy csv dataclasses datetime decimal difflib doctest
    email.message email.mime.multipart email.mime.text email.parser email.policy email.utils encodings.ascii
    encodings.cp1252 encodings.idna encodings.latin_1 encodings.utf_16 encodings.utf_8_sig enum errno filecmp fileinput
    fnmatch fractions functools getopt getpass glob graphlib gzip hashlib heapq hmac html html.parser http.client
    importlib.metadata importlib.resources importlib.util inspect io ipaddress itertools json keyword locale logging.handlers
    math mimetypes numbers operator optparse pathlib pickle pkgutil platform plistlib pprint pstats pydoc queue random re reprlib
    sched secrets shelve shlex shutil socket sqlite3 stat statistics string struct subprocess tarfile tempfile textwrap
    threading timeit tokenize tomllib traceback types typing unicodedata unittest unittest.mock urllib.parse urllib.request
    uuid warnings weakref xml.dom.minidom xml.etree.ElementTree zipfile zlib zoneinfo
""".split():
    __import__(_name)

DEFAULT_NAME = "<sandbox>"
DRIVER_NAME = "<glovebox>"
WORKSPACE = "/app"
BUFFER_BYTES = 64 * 1024
RESERVE_BYTES = 512 * 1024
NAME_CHARS = 1024  # limit for the name of an exception's class
MESSAGE_CHARS = 64 * 1024  # limit for an exception's message in the report; standard error gets all of it
TRACEBACK_CHARS = 256 * 1024

main = sys.modules["__main__"]
namespace = main.__dict__
buffer = bytearray(BUFFER_BYTES)  # the host writes here; the capacity grows on demand and never shrinks
reserve = bytearray(RESERVE_BYTES)  # freed to report a MemoryError
answer = b""  # the last reply, kept alive while the host reads it
source = ""  # the source of the running script, for tracebacks
cached_name = DEFAULT_NAME  # the name under which linecache has the running script's lines
dirty_stdin = False  # whether the reader of standard input may buffer bytes of an earlier script
script_env = {}  # the running script's environment variables, in addition to the image's own
replaced_env = {}  # the image's values of the variables that `script_env` overrides


def replace(owner, name, function):
    """Replaces a standard library function. The replacement gets its name, documentation and signature."""
    setattr(owner, name, functools.update_wrapper(function, getattr(owner, name)))


# Corrects the file names of modules that are already loaded, including frozen ones.
for _module in list(sys.modules.values()):
    _file = getattr(_module, "__file__", None) or ""
    if _file.startswith(LIBRARY + "/"):
        _module.__file__ = _file.replace(ARCHIVE, VERSION).removesuffix("c")
        for _code in [each.__code__ for each in vars(_module).values() if isinstance(each, types.FunctionType)]:
            if _code.co_filename == _file.removesuffix("c"):
                _imp._fix_co_filename(_code, _module.__file__)

functools.update_wrapper(module_code, _module_code)
functools.update_wrapper(exec_module, _exec_module)
# With this file name, warnings skip the function's frame and tracebacks omit it, as for `importlib` itself.
exec_module.__code__ = exec_module.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")
functools.update_wrapper(get_data, _get_data)
