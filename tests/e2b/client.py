"""Tests `glovebox serve --e2b` with the client of E2B's code interpreter, unchanged from PyPI."""

import base64
import contextlib
import io
import os
import re
import signal
import subprocess
import time

GLOVEBOX = os.environ["GLOVEBOX"]
TOKEN = "a token for the client of E2B"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="


@contextlib.contextmanager
def serving():
    """Runs a server on a free port, and points the client at it."""
    command = [GLOVEBOX, "serve", "--e2b", "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "GLOVEBOX_TOKEN": TOKEN}
    server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        url = None
        for line in server.stderr:
            if found := re.search(r"listening on (http://\S+)", line):
                url = found[1]
                break
        assert url, "the server did not start"
        os.environ.update(E2B_API_KEY=TOKEN, E2B_API_URL=url, E2B_SANDBOX_URL=url)
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        server.stderr.read()
        assert server.wait(60) == 0


def raises(kind, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        return str(error)
    raise AssertionError(f"{call} did not raise {kind}")


def run_code(Sandbox):
    with Sandbox.create(metadata={"of": "tests"}, envs={"FROM": "create"}) as sandbox:
        out, err, results, errors = [], [], [], []
        execution = sandbox.run_code(
            "import sys\nprint('one')\nprint('two', file=sys.stderr)\nx = 41\nx + 1",
            on_stdout=out.append, on_stderr=err.append, on_result=results.append, on_error=errors.append,
        )
        assert execution.error is None and execution.text == "42" and execution.execution_count == 1, execution
        assert "".join(execution.logs.stdout) == "one\n" and "".join(execution.logs.stderr) == "two\n", execution.logs
        assert out[0].line.startswith("one") and out[0].timestamp > 1e18 and err[0].error and not errors, (out, err)
        assert results[0].is_main_result and results[0].text == "42", results
        # The state persists between runs.
        assert sandbox.run_code("x").text == "41"
        assert sandbox.run_code("'text'").text == "text"
        assert sandbox.run_code("None").results == []
        # An exception is part of the execution's result.
        failed = sandbox.run_code("def f():\n    raise ValueError('why')\nf()", on_error=errors.append)
        assert (failed.error.name, failed.error.value) == ("ValueError", "why"), failed.error
        assert "line 2" in failed.error.traceback and errors == [failed.error]
        # Tests environment variables of the sandbox, and of a single run.
        names = "import os\n(os.environ.get('FROM'), os.environ.get('ONCE'))"
        assert sandbox.run_code(names, envs={"ONCE": "a 'b' \"c\"\n\u2028"}).text.startswith("('create', 'a \\'b\\' \"c\"\\n")
        assert sandbox.run_code(names).text == "('create', None)"
        # Tests displays with several media types.
        shown = sandbox.run_code(
            f"import base64\nclass P:\n    def _repr_png_(self): return base64.b64decode('{PNG}')\n"
            "class H:\n    def _repr_html_(self): return '<b>h</b>'\n    def __repr__(self): return 'h'\n"
            "    def _repr_mimebundle_(self, **_): return {'application/json': {'a': [1]}, 'text/markdown': '*m*', 'text/x-own': 'own'}\n"
            "display(P())\nH()"
        )
        picture, main = shown.results
        assert base64.b64decode(picture.png) == base64.b64decode(PNG) and not picture.is_main_result, shown.results
        assert main.is_main_result and main.json == {"a": [1]} and main.markdown == "*m*", main.formats()
        assert "text/x-own" in (main.extra or {}), main.extra
        # Tests JavaScript.
        javascript = sandbox.run_code("const y = [1, 2].map((n) => n * 2); console.log(process.env.FROM); y", language="javascript")
        assert "".join(javascript.logs.stdout) == "create\n" and "2" in javascript.text, javascript
        typed = sandbox.run_code("const z: number = 7; z", language="typescript")
        assert typed.error is None and typed.text == "7", typed
        assert "501" in raises(Exception, sandbox.run_code, "1", language="r")
        # A limit ends the execution, but the sandbox continues to work.
        endless = sandbox.run_code("while True: pass")
        assert endless.error and sandbox.run_code("x").text == "41", endless


def matplotlib(Sandbox):
    with Sandbox.create() as sandbox:
        shown = sandbox.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()")
        if shown.error:
            assert shown.error.name in ("ModuleNotFoundError", "ImportError"), shown.error
            return print("(no matplotlib in this runtime)")
        assert any(result.png or result.svg for result in shown.results), shown.results


def contexts(Sandbox):
    with Sandbox.create() as sandbox:
        sandbox.run_code("a = 1")
        other = sandbox.create_code_context()
        assert sandbox.run_code("'a' in globals()", context=other).text == "False"
        sandbox.run_code("b = 2", context=other)
        assert sandbox.run_code("b", context=other).text == "2"
        below = sandbox.create_code_context(cwd="/home/user/work")
        assert sandbox.run_code("import os; os.getcwd()", context=below).text == "/app/work"
        script = sandbox.create_code_context(language="javascript")
        assert sandbox.run_code("1 + 1", context=script).text == "2"
        listed = {context.id: context.language for context in sandbox.list_code_contexts()}
        assert listed[other.id] == "python" and listed[script.id] == "javascript" and len(listed) == 4, listed
        # Files belong to the sandbox: each context sees the files of all contexts.
        sandbox.run_code("open('note', 'w').write('from python')", context=other)
        assert sandbox.run_code("require('fs').readFileSync('note', 'utf8')", context=script).text == "from python"
        sandbox.run_code("require('fs').unlinkSync('note')", context=script)
        assert sandbox.run_code("os.path.exists('note')", context=below).text == "False"
        sandbox.run_code("open('note', 'w').write('stays')", context=other)
        sandbox.restart_code_context(other)
        assert sandbox.run_code("'b' in globals(), open('note').read()", context=other).text == "(False, 'stays')"
        sandbox.remove_code_context(other)
        assert sandbox.files.read("note") == "stays"
        assert other.id not in {context.id for context in sandbox.list_code_contexts()}
        assert "no context" in raises(Exception, sandbox.run_code, "1", context=other)


def files(Sandbox, errors):
    with Sandbox.create() as sandbox:
        written = sandbox.files.write("/home/user/in/a.csv", "x,y\n1,2\n")
        assert (written.name, written.path, written.type.value) == ("a.csv", "/app/in/a.csv", "file"), written
        assert sandbox.run_code("open('in/a.csv').read()").text.startswith("x,y")
        sandbox.run_code("open('out.bin', 'wb').write(bytes(range(256)))")
        assert bytes(sandbox.files.read("out.bin", format="bytes")) == bytes(range(256))
        many = sandbox.files.write_files([{"path": "m/1", "data": "one"}, {"path": "m/2", "data": io.BytesIO(b"\x00two")}])
        assert [file.path for file in many] == ["/app/m/1", "/app/m/2"], many
        many = sandbox.files.write_files([{"path": "m/3", "data": "three"}, {"path": "m/é", "data": "four"}])
        assert [file.path for file in many] == ["/app/m/3", "/app/m/é"], many
        assert b"".join(sandbox.files.read("m/2", format="stream")) == b"\x00two"
        entries = {entry.path: entry for entry in sandbox.files.list("/home/user")}
        assert set(entries) == {"/app/in", "/app/m", "/app/out.bin"}, entries
        assert entries["/app/in"].type.value == "dir" and entries["/app/out.bin"].size == 256
        assert {entry.name for entry in sandbox.files.list("m")} == {"1", "2", "3", "é"}
        assert {entry.path for entry in sandbox.files.list(".", depth=2)} >= {"/app/m/1", "/app/in/a.csv"}
        assert sandbox.files.exists("m/1") and not sandbox.files.exists("m/9")
        info = sandbox.files.get_info("m/1")
        assert (info.name, info.size, info.type.value) == ("1", 3, "file"), info
        assert sandbox.files.make_dir("d/e") and not sandbox.files.make_dir("d/e")
        assert sandbox.files.rename("m/1", "d/e/one").path == "/app/d/e/one"
        assert sandbox.files.read("d/e/one") == "one"
        sandbox.files.remove("m")
        assert not sandbox.files.exists("m")
        raises(errors.FileNotFoundException, sandbox.files.read, "m/1")
        raises(errors.FileNotFoundException, sandbox.files.list, "m")
        raises(errors.InvalidArgumentException, sandbox.files.read, "/etc/passwd")
        raises(errors.InvalidArgumentException, sandbox.files.read, "../x")
        # Unsupported features raise an error that names them.
        assert "not supported" in raises(Exception, sandbox.commands.run, "ls")
        raises(Exception, sandbox.files.watch_dir, ".")
        raises(Exception, sandbox.get_metrics)


def life(Sandbox, errors):
    sandbox = Sandbox.create(timeout=60, metadata={"of": "life"})
    sandbox.run_code("x = [1, 2]")
    sandbox.files.write("f", "text")
    assert sandbox.is_running() and sandbox.get_info().state.value == "running"
    assert sandbox.pause() and not sandbox.pause()
    assert not sandbox.is_running() and sandbox.get_info().state.value == "paused"
    raises(errors.TimeoutException, sandbox.run_code, "1")
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.run_code("x").text == "[1, 2]" and again.files.read("f") == "text"
    listed = Sandbox.list(query=query(metadata={"of": "life"})).next_items()
    assert [info.sandbox_id for info in listed] == [sandbox.sandbox_id], listed
    again.set_timeout(1)
    deadline = time.time() + 20
    while again.is_running():
        assert time.time() < deadline, "its time is over"
        time.sleep(0.2)
    raises(errors.NotFoundException, Sandbox.connect, sandbox.sandbox_id)
    killed = Sandbox.create()
    assert killed.kill() and not killed.kill()
    raises(Exception, killed.run_code, "1")
    # The sandbox pauses when it times out, instead of ending.
    pausing = Sandbox.create(timeout=1, lifecycle={"on_timeout": "pause"})
    pausing.run_code("x = 'there'")
    while pausing.is_running():
        assert time.time() < deadline + 20
        time.sleep(0.2)
    assert Sandbox.connect(pausing.sandbox_id).run_code("x").text == "there"
    return Sandbox.connect(pausing.sandbox_id)


def query(**wanted):
    from e2b import SandboxQuery

    return SandboxQuery(**wanted)


def tokens(Sandbox, errors):
    raises(errors.AuthenticationException, Sandbox.create, api_key="another token, which is unknown")
    one = Sandbox.create()
    stolen = Sandbox.connect(one.sandbox_id)
    # A sandbox's ID alone does not grant access to it.
    stolen._SandboxBase__envd_access_token = stolen._SandboxBase__traffic_access_token = "0" * 32
    raises(Exception, stolen.run_code, "1")
    one.kill()


def page(_):
    """Runs the example in `docs/e2b.md`."""
    with open(os.path.join(os.path.dirname(__file__), "example.py")) as example:
        exec(compile(example.read(), "example.py", "exec"), {})


def main():
    with serving():
        import e2b.exceptions as errors
        from e2b_code_interpreter import Sandbox

        for test in (page, run_code, matplotlib, contexts):
            test(Sandbox)
            print(f"ok {test.__name__}", flush=True)
        for test in (files, tokens):
            test(Sandbox, errors)
            print(f"ok {test.__name__}", flush=True)
        left = life(Sandbox, errors)
        print("ok life", flush=True)
    # The sandbox outlives the server, and is paused when the next server starts.
    with serving() as url:
        os.environ.update(E2B_API_URL=url, E2B_SANDBOX_URL=url)
        listed = {info.sandbox_id: info.state.value for info in Sandbox.list().next_items()}
        assert listed.get(left.sandbox_id) == "paused", listed
        again = Sandbox.connect(left.sandbox_id)
        assert again.run_code("x").text == "there"
        assert again.kill() and not Sandbox.list().next_items()
        print("ok restart", flush=True)


main()
