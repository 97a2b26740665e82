"""Tests Monty's unmodified client with `glovebox monty-worker` as its worker."""

from __future__ import annotations

import asyncio
import os
import sys
import unittest
from pathlib import Path
from typing import Any

from pydantic_monty import (
    AsyncMonty,
    CollectString,
    ExternalModule,
    FunctionSnapshot,
    Monty,
    MontyComplete,
    MontyRuntimeError,
    MontySyntaxError,
    MontyTypingError,
)

BINARY = os.environ.get("GLOVEBOX_BINARY", Path(sys.executable).with_name("glovebox"))


class Sessions(unittest.TestCase):
    pool: Any

    @classmethod
    def setUpClass(cls) -> None:
        cls.pool = Monty(binary_path=BINARY, max_processes=8)
        cls.pool.__enter__()
        cls.addClassCleanup(cls.pool.__exit__, None, None, None)

    def checkout(self, **options: Any) -> Any:
        session = self.pool.checkout(**options)
        session.__enter__()
        self.addCleanup(session.__exit__, None, None, None)
        return session

    def test_snippets_share_variables_and_run_in_cpython(self) -> None:
        session = self.checkout()
        session.feed_run("import collections, statistics\nclass Box:\n    size = 3\nx = 40")
        self.assertEqual(session.feed_run("x + 2"), 42)
        self.assertEqual(session.feed_run("statistics.mean([Box.size, 5])"), 4)
        self.assertIsNone(session.feed_run("x = 1"))

    def test_values_cross_unchanged(self) -> None:
        values = [None, True, -(2**63), 2**200, -(2**64), 1.5, "é\n", b"\0\xff", (1, [2]), {"k": {1, 2}}, frozenset("a")]
        session = self.checkout()
        for value in values:
            given = session.feed_run("x", inputs={"x": value})
            self.assertEqual((type(given), given), (type(value), value))
        self.assertEqual(session.feed_run("a = [1]\n[a, a]", inputs={}), [[1], [1]])

    def test_functions_of_the_host_return_and_raise(self) -> None:
        def check(value: int, *, least: int) -> int:
            if value < least:
                raise KeyError("too small")
            return value * 2

        session = self.checkout()
        functions = {"check": check, "limit": 5}
        self.assertEqual(session.feed_run("check(7, least=limit)", external_lookup=functions), 14)
        code = "try:\n    check(1, least=5)\nexcept KeyError as error:\n    found = error.args[0]\nfound"
        self.assertEqual(session.feed_run(code, external_lookup=functions), "too small")
        with self.assertRaisesRegex(MontyRuntimeError, "NameError: name 'check' is not defined"):
            session.feed_run("check(1)")

    def test_submodules_of_the_host_are_imported(self) -> None:
        mail = ExternalModule({"send": str.upper, "deep": ExternalModule({"x": 5})})
        session = self.checkout(external_modules={"kit": ExternalModule({"mail": mail})})
        self.assertEqual(session.feed_run("import kit.mail\nfrom kit.mail.deep import x\n[kit.mail.send('a'), x]"), ["A", 5])
        for code in ("import kit.none", "import kit.mail.send", "import json.none"):
            with self.assertRaisesRegex(MontyRuntimeError, "ModuleNotFoundError"):
                session.feed_run(code)

    def test_errors_have_tracebacks_and_the_session_continues(self) -> None:
        session = self.checkout()
        with self.assertRaises(MontyRuntimeError) as raised:
            session.feed_run("y = 5\ndef f(x):\n    return 1 / x\nf(0)")
        shown = raised.exception.display()
        self.assertIn('line 3, in f\n    return 1 / x\n', shown)
        self.assertTrue(shown.endswith("ZeroDivisionError: division by zero"), shown)
        with self.assertRaises(MontySyntaxError):
            session.feed_run("1 +")
        self.assertEqual(session.feed_run("y"), 5)

    def test_all_line_ends_of_cpython_are_supported(self) -> None:
        session = self.checkout()
        with self.assertRaises(MontyRuntimeError) as raised:
            session.feed_run("a = 'é'\r\nb = 2\rc = 3\n\n1 / 0")
        self.assertIn("line 5, in <module>\n    1 / 0\n", raised.exception.display())
        # The driver recognizes the source position as a call, and calls the host function directly.
        self.assertEqual(session.feed_run("x = 1\rif x:\r\n    y = check(x)\ry", external_lookup={"check": str}), "1")

    def test_deep_values_become_text(self) -> None:
        session = self.checkout()
        for level in ("[x]", "(x,)", "{0: x}"):
            value = session.feed_run(f"x = 1\nfor _ in range(300): x = {level}\nx")
            depth = 0
            while isinstance(value, (list, tuple, dict)):
                value, depth = value[0], depth + 1
            self.assertEqual((depth, value), (201, "..."))

    def test_tasks_of_a_failed_snippet_end(self) -> None:
        session = self.checkout()
        code = "import asyncio\nseen = []\nasync def late():\n    await asyncio.sleep(0)\n    await asyncio.sleep(0)\n"
        code += "    seen.append(1)\ntask = asyncio.ensure_future(late())\nawait asyncio.sleep(0)\n1 / 0"
        with self.assertRaisesRegex(MontyRuntimeError, "ZeroDivisionError"):
            session.feed_run(code)
        code = "for _ in range(9): await asyncio.sleep(0)\n[seen, task.cancelled()]"
        self.assertEqual(session.feed_run(code), [[], True])

    def test_snippets_with_type_errors_do_not_run(self) -> None:
        stubs = "def ask(question: str) -> str: ..."
        session = self.checkout(type_check=True, type_check_format="concise", type_check_stubs=stubs)
        session.feed_run("x: int = 1\ndef double(a: int): return a * 2")
        for code, part in (
            ("x += 1\ndouble('a')", "main.py:2:8: error[invalid-argument-type] Argument to function `double`"),
            ("x.upper()", "main.py:1:1: error["),
            ("s: str = x", "Object of type `int` is not assignable to `str`"),
            ("ask(1)", "Expected `str`"),
            ("y", "Name `y` used when not defined"),
        ):
            with self.assertRaises(MontyTypingError) as raised:
                session.feed_run(code)
            self.assertIn(part, str(raised.exception))
        self.assertEqual(session.feed_run("double(x)"), 2)
        self.assertEqual(session.feed_run("ask('a')", external_lookup={"ask": str.upper}), "A")
        with self.assertRaisesRegex(MontyRuntimeError, "AttributeError"):
            session.feed_run("x.upper()", skip_type_check=True)

    def test_type_errors_quote_the_snippet(self) -> None:
        session = self.checkout(type_check=True, script_name="agent.py")
        session.feed_run("def double(a: int): return a * 2")
        other = self.checkout()
        other.load_session(session.dump())
        for each in (session, other):
            with self.assertRaises(MontyTypingError) as raised:
                each.feed_run("double('a')")
            self.assertIn(" --> agent.py:1:8\n  |\n1 | double('a')\n  |        ^^^ Expected `int`", str(raised.exception))
            self.assertEqual(each.feed_run("double(21)"), 42)

    def test_stubs_of_modules_are_checked(self) -> None:
        mail = ExternalModule({"send": str.upper}, stubs="def send(text: str) -> str: ...")
        modules = {"tools": ExternalModule({"add": int.__add__, "mail": mail}, stubs="def add(a: int, b: int) -> int: ...")}
        session = self.checkout(type_check=True, type_check_format="concise", external_modules=modules)
        with self.assertRaisesRegex(MontyTypingError, r"main\.py:2:11: error\[invalid-argument-type\]"):
            session.feed_run("import tools\ntools.add('x', 2)")
        self.assertEqual(session.feed_run("import tools\n[tools.add(1, 2), tools.mail.send('a')]"), [3, "A"])
        other = self.checkout(external_modules=modules)
        other.load_session(session.dump())
        for each in (session, other):
            with self.assertRaisesRegex(MontyTypingError, "Expected `str`"):
                each.feed_run("tools.mail.send(1)")
        # A module that neither the checker nor the client has can be a package of the sandbox.
        self.assertEqual(session.feed_run("def late():\n    import missing_module\n1"), 1)
        long = {"tools": ExternalModule({}, stubs="x: int\n" * 100_000)}
        session = self.checkout(type_check=True, external_modules=long)
        with self.assertRaisesRegex(MontyRuntimeError, "exceed 524288 bytes"):
            session.feed_run("import tools")
        self.assertEqual(session.feed_run("1 + 1"), 2)

    def test_output_arrives(self) -> None:
        printed = CollectString()
        self.checkout().feed_run("for each in 'aé':\n    print(each)", print_callback=printed)
        self.assertEqual(printed.output, "a\né\n")

    def test_endless_snippet_is_stopped(self) -> None:
        session = self.checkout(limits={"max_feed_duration_secs": 0.5})
        session.feed_run("z = 1")
        with self.assertRaisesRegex(MontyRuntimeError, "TimeoutError"):
            session.feed_run("while True: pass")
        with self.assertRaisesRegex(MontyRuntimeError, "TimeoutError"):
            session.feed_run("while True:\n    try:\n        while True: pass\n    except BaseException: pass")
        self.assertEqual(session.feed_run("1 + 1"), 2)

    def test_memory_is_limited(self) -> None:
        session = self.checkout(limits={"max_memory": 32 << 20})
        with self.assertRaisesRegex(MontyRuntimeError, "MemoryError"):
            session.feed_run("x = bytearray(64 << 20)")
        self.assertEqual(session.feed_run("1 + 1"), 2)

    def test_waiting_snippet_is_dumped_and_loaded(self) -> None:
        session = self.checkout()
        session.feed_run("total = 20")
        snapshot = session.feed_start("total += 1\nf'{pay(euros=total)}!'")
        state = snapshot.dump()
        self.assertEqual(snapshot.resume({"return_value": "first"}).output, "first!")
        for answer in ("second", "third"):
            loaded = self.checkout().load_snapshot(state)
            self.assertIsInstance(loaded, FunctionSnapshot)
            self.assertEqual((loaded.function_name, loaded.kwargs), ("pay", {"euros": 21}))
            ended = loaded.resume({"return_value": answer})
            self.assertIsInstance(ended, MontyComplete)
            self.assertEqual(ended.output, f"{answer}!")

    def test_idle_session_is_dumped_and_loaded(self) -> None:
        session = self.checkout()
        session.feed_run("def double(x): return x * 2")
        other = self.checkout()
        other.load_session(session.dump())
        self.assertEqual(other.feed_run("double(21)"), 42)

    def test_damaged_dump_is_refused(self) -> None:
        for state in (b"", b"\1\xff\xff\xff\xff", self.checkout().dump()[:-1] + b"\xff" * 20):
            with self.assertRaises(Exception):
                self.checkout().load_session(state)
        self.assertEqual(self.checkout().feed_run("1 + 1"), 2)

    def test_forged_limits_of_a_dump_are_lowered(self) -> None:
        state = self.checkout().dump()
        end = 5 + int.from_bytes(state[1:5], "little")
        # Fields 2, 6 and 7 of the limits are set to 1 GiB of memory and to durations of days.
        days = b"\xff\xff\xff\xff\xff\x7f"
        config = state[5:end] + b"\x12\x14\x10\x80\x80\x80\x80\x04\x30" + days + b"\x38" + days
        forged = state[:1] + len(config).to_bytes(4, "little") + config + state[end:]
        session = self.checkout(limits={"max_feed_duration_secs": 0.5, "max_memory": 32 << 20})
        session.load_session(forged)
        with self.assertRaisesRegex(MontyRuntimeError, "MemoryError"):
            session.feed_run("x = bytearray(64 << 20)")
        with self.assertRaisesRegex(MontyRuntimeError, "TimeoutError"):
            session.feed_run("while True: pass")

    def test_hostile_events_do_not_reach_the_client(self) -> None:
        session = self.checkout()
        # The guest must not send a dump, an unknown event, or a body that is not base64.
        for kind, body in ((9, ""), (99, ""), (10, ""), (6, "?")):
            code = f"try:\n    tools.monty_turn(kind={kind}, body={body!r})\nexcept tools.ToolError:\n    refused = True\nrefused"
            self.assertTrue(session.feed_run(code))
        with self.assertRaisesRegex(MontyRuntimeError, "did not start"):
            session.feed_run("import sys\nsys.modules['_monty'].feed = print")
            session.feed_run("1")


class Async(unittest.TestCase):
    def test_calls_run_concurrently(self) -> None:
        async def fetch(number: int) -> int:
            await asyncio.sleep(0.01 * (3 - number))
            return number * 10

        async def main() -> object:
            async with AsyncMonty(binary_path=BINARY) as pool, pool.checkout() as session:
                code = "import asyncio\n[await fetch(0), *await asyncio.gather(*(fetch(n) for n in (1, 2)))]"
                first = await session.feed_run(code, external_lookup={"fetch": fetch})
                code = "async def main():\n    return await asyncio.gather(fetch(1), fetch(2))\nasyncio.run(main())"
                return [*first, *await session.feed_run(code, external_lookup={"fetch": fetch})]

        self.assertEqual(asyncio.run(main()), [0, 10, 20, 10, 20])


if __name__ == "__main__":
    unittest.main()
