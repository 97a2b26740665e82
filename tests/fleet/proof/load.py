"""The load: two clients for each session, each with one operation at a time."""

from __future__ import annotations

import asyncio
import random
import time

from proof.client import Client
from proof.history import History, Kind, Operation

COUNTERS: dict[Kind, int] = {"execute": 50, "record": 30, "info": 20}
# The mix of operations for every fourth session. It also includes undoing and closing.
REOPENED: dict[Kind, int] = {"execute": 40, "record": 20, "info": 20, "undo": 12, "close": 8}
# Per hundred operations: the number whose client does not retry, and the number sent twice simultaneously.
IMPATIENT = 4
DOUBLED = 5


class Load:
    def __init__(self, client: Client, prefix: str, sessions: int, pause_s: float, seed: int) -> None:
        self.history = History()
        self.sessions = [f"{prefix}-{number:03}" for number in range(sessions)]
        self._client = client
        self._pause_s = pause_s
        self._random = random.Random(seed)
        self._stopped = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._numbers = iter(range(1 << 62))

    def start(self) -> None:
        for number, session in enumerate(self.sessions):
            kinds = REOPENED if number % 4 == 3 else COUNTERS
            self._tasks += [asyncio.create_task(self._work(session, kinds)) for _ in range(2)]

    async def stop(self) -> None:
        """Begins no new operations, waits for the current ones, and then reads each session's count."""
        self._stopped.set()
        await asyncio.gather(*self._tasks)
        await asyncio.gather(*(self._client.carry_out(self._begin(session, "info")) for session in self.sessions))

    def finals(self) -> dict[str, int]:
        """Returns the final count of each session."""
        return {session: operations[-1].count or 0 for session, operations in self.history.by_session().items()}

    def under_way(self) -> int:
        return sum(operation.ended is None for operation in self.history.operations)

    def _begin(self, session: str, kind: Kind) -> Operation:
        operation = Operation(f"{session}.{next(self._numbers)}", session, kind, time.monotonic())
        self.history.operations.append(operation)
        return operation

    async def _work(self, session: str, kinds: dict[Kind, int]) -> None:
        while not await self._pause():
            kind = self._random.choices(list(kinds), list(kinds.values()))[0]
            draw = self._random.randrange(100) if kind != "info" else 100
            await self._client.carry_out(self._begin(session, kind), patient=draw >= IMPATIENT, doubled=IMPATIENT <= draw < IMPATIENT + DOUBLED)

    async def _pause(self) -> bool:
        """Returns `True` when the load is over."""
        try:
            async with asyncio.timeout(self._random.expovariate(1 / self._pause_s)):
                await self._stopped.wait()
        except TimeoutError:
            pass
        return self._stopped.is_set()
