"""Warms the interpreter and the driver, and cleans up before the snapshot."""

# Each sample takes a path through the interpreter and the driver whose first use is expensive: caches fill, code
# specialises, modules load. The host discards the output.
SAMPLES = (
    "print(1)",
    "print('warm', 2.5, [1, 'a'], {'b': None}); x = 1; x += 1\ndef f(a, *b, c=2, **d): return f'{a:>5}{c!r}'\nf(1, z=3)",
    "class A:\n  def __init__(self): self.x = 1\nclass B(A): pass\nB()\n[i * i for i in range(9) if i % 2]\nprint(*map(str, range(3)), sep=',')",
    "1 / 0",
    "def f(n):\n  return f(n - 1) if n else {}['missing']\nf(9)",
    "def f(): f()\nf()",
    "try:\n  int('x')\nexcept ValueError as e:\n  raise RuntimeError('again') from e",
    "raise ExceptionGroup('several', [ValueError(1), TypeError(2)])",
    "import nosuchmodule",
    "x = (1,\n",
    "import sys; sys.exit()",
    "import sys; sys.exit(3)",
    "import sys; sys.exit('bye')",
    "input()",
    "import json, re; print(json.dumps(json.loads('{\"a\": [1, 2.5, null, \"\\u00e9\"]}'), indent=1), re.sub('[a-c]+(x|y)?', '-', 'abcd'))",
    "import asyncio\nasync def g(n): await asyncio.sleep(0); return n\nasync def m(): return await asyncio.gather(g(1), asyncio.wait_for(g(2), 1))\nprint(asyncio.run(m()))",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int = 1\nprint(P(2))",
    "import datetime, decimal, collections; print(datetime.datetime(2020, 1, 2).isoformat(), decimal.Decimal('1.1') + 1, collections.Counter('aab'))",
    "import csv, io, base64, hashlib, random; csv.reader(io.StringIO('a,b')).__next__(); base64.b64encode(b'a'); hashlib.sha256(b'a').hexdigest(); random.random()",
    "import traceback, warnings\ntry: {}['a']\nexcept KeyError: traceback.print_exc()\nwarnings.warn('w')",
    "import inspect\ndef f(): return inspect.stack()\nf(); inspect.getsource(f); inspect.signature(f)",
    "pritn(1)",
    "import signal; signal.raise_signal(signal.SIGINT)",
    "x = 1; x",
    "context = ['ab']; chunk_text('abc', 2, 1), search_context('[a-c]+'), tools, hasattr(tools, 'warm')",
    "'text'",
    "x = {'a': [1, 2.5, None]}\nx",
    "x = [\n  1]\nx[int(0)] = 2",
    "print(\"\"\"\na\n\"\"\")",
    "def f():\n  pass\n",
    "import logging; logging.getLogger('warm').warning('w')",
    "import os; os.getcwd(); os.listdir('.'); os.path.exists('x')\nwith open('.warm', 'w') as f: f.write('x')\nwith open('.warm') as f: f.read()\nos.remove('.warm')",
)

VARIABLES = (("a", "1"), ("b", '"text"'), ("c", '{"a": [1, 2.5, null, true]}'), ("not a name", "1"), ("d", "{"))


def settle():
    """Runs the samples, then undoes their effects. The host calls this once, after parking and after `setup`.
    Reports the location of numpy's generator, and the addresses of the objects that become immortal."""
    global kept, source, answer
    kept = dict(namespace)
    # With names of their own, the samples' tasks do not count: the first task of a script is `Task-1`.
    counted = asyncio.tasks.Task
    asyncio.tasks.Task = lambda *args, **named: counted(*args, **{**named, "name": "warm"})
    for repeat in range(4):
        for sample in SAMPLES:
            for last in False, True:
                buffer[:] = sample.encode()
                run(last, False)
                forget()
                buffer[:] = sample.encode()
                run(last, True)
                forget()
            buffer[:] = frame("", "script.py", sample, "1", "argument", "NAME", "value")
            run_with(True, repeat % 2 == 0)
            forget()
            buffer[:] = frame("script.py", sample)
            validate()
        for name, text in VARIABLES:
            buffer[:] = frame(name, text)
            set_variable()
            buffer[:] = name.encode()
            get_variable()
            forget()
        buffer[:] = frame("1000", '{"_state": {"a": [1]}, "b": null, "c": "text"}')
        restore_globals()
        while next_global() is not None:
            pass
        forget()
        rearm()
    preload()  # reuses the memory that the samples freed
    gc.collect()  # empties CPython's free lists; the last samples refill them
    if shelf:
        # Runs the samples in fresh memory, for which the first script that raises an exception would otherwise pay.
        for sample in SAMPLES:
            buffer[:] = sample.encode()
            run(False, False)
            forget()
    asyncio.tasks.Task = counted
    set_environment({})
    os.unsetenv("PYTHONINSPECT")
    logging.root.manager.loggerDict.pop("warm")
    linecache.clearcache()
    linecache.cache[DEFAULT_NAME] = (0, None, quoted, DEFAULT_NAME)
    tempfile = sys.modules["tempfile"]
    tempfile._name_sequence = tempfile.tempdir = None
    warnings.onceregistry.clear()
    for repeat in range(40):
        buffer[:] = SAMPLES[0].encode()
        run(repeat % 2 == 0, repeat % 4 > 1)
    source, quoted.text, quoted.split = "", None, []
    scripts.clear()
    sweep()
    buffer[:] = bytes(BUFFER_BYTES)
    random._inst.gauss_next = None
    addresses = {id(each) for each in shared_objects() if sys.getrefcount(each) < IMMORTAL_LEAST}
    answer = frame(numpy_generator(), " ".join(map(str, sorted(addresses))))
    del addresses
    forget_generators()
    gc.collect()  # empties the free lists again; the host then fills the holes in memory
    gc.freeze()  # collections then skip the image's objects, and do not copy their pages
    return answer


def numpy_generator():
    """Returns the address of the generator of `numpy.random`'s functions, and the first words of its state. Returns
    an empty string without numpy."""
    mtrand = sys.modules.get("numpy.random.mtrand")
    generator = mtrand and mtrand._rand._bit_generator
    if type(generator).__name__ != "MT19937":
        return ""
    kind, words, index, *_ = mtrand._rand.get_state()
    mtrand._rand.set_state((kind, words, index, 0, 0.0))
    return " ".join(map(str, (id(generator), *words[:8])))


IMMORTAL_LEAST = 1 << 28  # the reference counts of immortal objects are higher


def shared_objects():
    """Returns the objects that the driver uses in every execution. Each execution would otherwise change their
    reference counts, and copy the pages that contain them. Only objects that exist as long as the interpreter can
    become immortal, so `reserve` and the contents of `scripts` cannot."""
    functions = types.FunctionType, types.BuiltinFunctionType
    found = [each for each in globals().values() if isinstance(each, (*functions, types.ModuleType, dict, list))]
    found += [each.__code__ for each in found if type(each) is types.FunctionType]
    found += [each for each in __builtins__.values() if isinstance(each, functions)]
    for stream in out, err:
        for part in stream, stream.buffer, stream.buffer.raw:
            found += [part, part.__dict__, *vars(type(part)).values()]
    for kind in bytearray, bytes, dict, int, list, object, str:
        found += vars(kind).values()
    found += [DEFAULT_NAME, atexit._run_exitfuncs, logging._handlerList, sys.modules, threading._threading_atexits]
    return found


def setup():
    """Runs the setup code of a custom image, which defines names for all scripts. Called before `settle`."""
    try:
        exec(compile(buffer.decode(), "<setup>", "exec", 0, True), namespace)
    except BaseException as error:
        return failed(error, "<setup>", True)
    # The exit handlers of the setup code would otherwise run at the end of the first script.
    atexit._clear()
    threading._threading_atexits.clear()
    # The files of the setup code do not exist in a sandbox.
    sys.path_importer_cache.clear()
    os.chdir(WORKSPACE)
    return None


def forget():
    namespace.clear()
    namespace.update(kept)


for _key in [key for key in namespace if not key.startswith("__")]:
    del namespace[_key]
sys.argv, sys.orig_argv = [""], ["python"]
sys.path[0] = WORKSPACE
sys.path.insert(sys.path.index(LIBRARY) if LIBRARY_HAS_PACKAGES else len(sys.path), SITE)
usual_path[:] = sys.path
sys.path_hooks.insert(0, workspace_hook)
sys.path_importer_cache.clear()
os.chdir(WORKSPACE)
atexit.unregister(logging.shutdown)
threading._threading_atexits.clear()  # would join the threads of concurrent.futures, which do not exist
for _name in """
    run run_with validate get_variable set_variable restore_globals next_global complain rearm flush flush_streams close grow
    withdraw_packages renew setup settle
""".split():
    print(_name, id(globals()[_name]))
print("interrupted", id(interrupted))
print("interrupt_main", id(_thread.interrupt_main))
print("reason", id(reason))
print("generator_flags", id(generator_flags))
print("no_arguments", id(()))
print("buffer", id(buffer))
print("none", id(None))
print("true", id(True))
print("false", id(False))
print("file_type", id(io.FileIO))
print("generator", id(random._inst))
print("state", *random.getstate()[1][:8])
out.flush()
