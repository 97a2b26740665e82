"""Tests the asynchronous API of all backends."""

from __future__ import annotations

import asyncio
import threading
import time
import unittest
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from glovebox_sandbox import AsyncSandbox, Limits, SessionError
from scripts import BackendCase

if TYPE_CHECKING:
    Case = unittest.IsolatedAsyncioTestCase
else:
    Case = object


class Suite(BackendCase, Case):
    def asynchronous(self, **options: Any) -> AsyncSandbox:
        return AsyncSandbox(self.language, **self.options(**options))

    async def test_scripts_do_not_block_the_event_loop(self) -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        # On a slow machine, few ticks happen within a short timeout, so longer timeouts follow.
        for timeout_ms in (300, 3_000, 30_000):
            async with self.asynchronous(limits=Limits(timeout_ms=timeout_ms)) as box:
                ticks = 0
                ticking = asyncio.create_task(tick())
                run = await box.execute(self.script("endless"))
                ticking.cancel()
                self.assertEqual(run.outcome.resource, "time")
                if ticks > 5:
                    break
        self.assertGreater(ticks, 5)
        async with self.asynchronous(limits=Limits(timeout_ms=100_000)) as box:
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
        # An execution in a component cannot be cancelled, and continues until its timeout.
        timeout_ms = 5_000 if self.backend == "component" else 100_000
        async with self.asynchronous(limits=Limits(timeout_ms=timeout_ms)) as box:
            task = asyncio.create_task(box.execute(self.script("endless")))
            await asyncio.sleep(0.2)
            begun = time.monotonic()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual((await box.execute(self.script("answer"))).stdout, "42\n")
            if self.backend != "component":
                self.assertLess(time.monotonic() - begun, 60)


class Forever:
    """A tool that ends only when it is cancelled."""

    def __init__(self) -> None:
        self.called, self.ended = asyncio.Event(), asyncio.Event()

    def tool(self) -> Callable[[], Awaitable[None]]:
        async def forever() -> None:
            self.called.set()
            try:
                await asyncio.sleep(300)
            finally:
                self.ended.set()

        return forever


class Cancelling(Suite):
    """Tests of backends that cancel tools."""

    def patient(self, tool: Callable[[], Awaitable[None]]) -> AsyncSandbox:
        # The daemon of the tests does not grant a longer timeout for tools.
        tool_timeout_ms = None if self.backend == "daemon" else 100_000
        return self.asynchronous(tools=[tool], limits=Limits(timeout_ms=100_000, tool_timeout_ms=tool_timeout_ms))

    async def test_abandoned_tool_is_cancelled(self) -> None:
        forever = Forever()
        async with self.patient(forever.tool()) as box:
            # On a slow machine, a short timeout ends before the tool is called, so longer timeouts follow.
            for timeout_ms in (300, 3_000, 30_000):
                run = await box.execute(self.script("endless_tool"), timeout_ms=timeout_ms)
                self.assertEqual(run.outcome.kind, "cancelled")
                if forever.called.is_set():
                    break
            await asyncio.wait_for(forever.ended.wait(), 60)

    async def test_cancelled_task_cancels_an_execution_that_waits_for_a_tool(self) -> None:
        forever = Forever()
        async with self.patient(forever.tool()) as box:
            task = asyncio.create_task(box.execute(self.script("endless_tool")))
            await asyncio.wait_for(forever.called.wait(), 60)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await asyncio.wait_for(task, 60)
            await asyncio.wait_for(forever.ended.wait(), 60)


class NativePython(Cancelling, unittest.IsolatedAsyncioTestCase):
    async def test_executions_run_at_once(self) -> None:
        together = threading.Barrier(4, timeout=60)

        def meet() -> None:
            together.wait()

        async with self.asynchronous(tools=[meet], limits=Limits(timeout_ms=100_000, tool_timeout_ms=100_000)) as box:
            runs = await asyncio.gather(*(box.execute("tools.meet()") for _ in range(4)))
            self.assertEqual({run.outcome.kind for run in runs}, {"completed"})


class DaemonJavaScript(Cancelling, unittest.IsolatedAsyncioTestCase):
    backend = "daemon"
    language = "javascript"

    async def test_tool_that_loses_a_race_is_cancelled(self) -> None:
        forever = Forever()

        async def fast() -> int:
            return 1

        async with self.asynchronous(tools=[forever.tool(), fast]) as box:
            run = await box.execute("console.log(await Promise.race([tools.forever({}), tools.fast({})]))")
            self.assertEqual((run.outcome.kind, run.stdout), ("completed", "1\n"))
            await asyncio.wait_for(forever.ended.wait(), 60)


class ComponentJavaScript(Suite, unittest.IsolatedAsyncioTestCase):
    backend = "component"
    language = "javascript"


if __name__ == "__main__":
    unittest.main()
