"""The asynchronous API of both backends."""

from __future__ import annotations

import asyncio
import threading
import time
import unittest
from typing import TYPE_CHECKING, Any

from glovebox_sandbox import AsyncSandbox, Limits, SessionError
from scripts import Where

if TYPE_CHECKING:
    Case = unittest.IsolatedAsyncioTestCase
else:
    Case = object


class Suite(Where, Case):
    def asynchronous(self, **options: Any) -> AsyncSandbox:
        return AsyncSandbox(self.language, **self.options(**options))

    async def test_scripts_do_not_block_the_event_loop(self) -> None:
        async with self.asynchronous(limits=Limits(timeout_ms=300)) as box:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.01)

            ticking = asyncio.create_task(tick())
            run = await box.execute(self.script("endless"))
            ticking.cancel()
            self.assertEqual((run.outcome.resource, ticks > 5), ("time", True))
            runs = await asyncio.gather(*(box.execute(self.script("answer")) for _ in range(8)))
            self.assertEqual({run.stdout for run in runs}, {"42\n"})
            self.assertEqual(len(await box.validate(self.script("syntax"))), 1)

    async def test_session_keeps_variables_and_files(self) -> None:
        async with self.asynchronous() as box:
            async with box.session(context={"city": "Oslo"}) as session:
                self.assertEqual((await session.execute(self.script("context"))).stdout, "Oslo\n")
                await session.execute(self.script("let"))
                fork = await session.fork()
                await session.set_variable("x", 5)
                self.assertEqual((await session.get_variable("x"), await fork.get_variable("x")), (5, 1))
                self.assertEqual(await session.get_variable("absent", 7), 7)
                mark = await session.checkpoint()
                self.assertIn(mark, [each.id for each in await session.checkpoints()])
                await session.write_file("a.txt", "text")
                self.assertEqual([entry.path for entry in await session.list_files()], ["a.txt"])
                self.assertEqual(await session.read_file("a.txt"), b"text")
                await session.delete_file("a.txt")
                self.assertEqual(await session.undo(mark), mark)
                self.assertEqual((await session.info()).id, session.id)
                state = await session.hibernate()
            with self.assertRaises(SessionError):
                await session.execute(self.script("let"))
            async with box.resume(state) as resumed:
                self.assertEqual(await resumed.get_variable("x"), 5)
        with self.assertRaises(SessionError):
            await box.execute("1")

    async def test_async_tools_run_on_the_callers_loop(self) -> None:
        loops: list[object] = []

        async def slow(text: str) -> str:
            loops.append(asyncio.get_running_loop())
            await asyncio.sleep(0.01)
            return text.upper()

        def add(a: int, b: int) -> int:
            return a + b

        async with self.asynchronous(tools=[slow, add]) as box:
            self.assertEqual((await box.execute(self.script("slow_tool"))).stdout, "LATER\n")
            self.assertEqual((await box.execute(self.script("tool"))).stdout, "42\n")
        self.assertEqual(loops, [asyncio.get_running_loop()])

    async def test_cancelling_a_task_cancels_its_execution(self) -> None:
        async with self.asynchronous(limits=Limits(timeout_ms=3000)) as box:
            task = asyncio.create_task(box.execute(self.script("endless")))
            await asyncio.sleep(0.2)
            begun = time.monotonic()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual((await box.execute(self.script("answer"))).stdout, "42\n")
            if self.backend == "native":
                # The grace period, plus time for a busy machine.
                self.assertLess(time.monotonic() - begun, 2)


class NativePython(Suite, unittest.IsolatedAsyncioTestCase):
    async def test_executions_run_at_once(self) -> None:
        together = threading.Barrier(4, timeout=20)

        def meet() -> None:
            together.wait()

        async with self.asynchronous(tools=[meet]) as box:
            runs = await asyncio.gather(*(box.execute("tools.meet()") for _ in range(4)))
            self.assertEqual({run.outcome.kind for run in runs}, {"completed"})

    async def test_abandoned_tool_is_cancelled(self) -> None:
        ended = asyncio.Event()

        async def forever() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

        async with self.asynchronous(tools=[forever]) as box:
            run = await box.execute("tools.forever()", timeout_ms=200)
            self.assertEqual(run.outcome.kind, "cancelled")
            await asyncio.wait_for(ended.wait(), 10)


class DaemonJavaScript(Suite, unittest.IsolatedAsyncioTestCase):
    backend = "daemon"
    language = "javascript"

    async def test_a_cancelled_task_cancels_its_execution(self) -> None:
        async with self.asynchronous(limits=Limits(timeout_ms=60_000)) as box:
            begun = time.monotonic()
            task = asyncio.create_task(box.execute(self.script("endless")))
            await asyncio.sleep(0.3)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertLess(time.monotonic() - begun, 10)
            self.assertEqual((await box.execute(self.script("answer"))).stdout, "42\n")


class ComponentJavaScript(Suite, unittest.IsolatedAsyncioTestCase):
    backend = "component"
    language = "javascript"


if __name__ == "__main__":
    unittest.main()
