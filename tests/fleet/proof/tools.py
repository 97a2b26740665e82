"""The tool server: records each effect by the key of the call, in a log that is written to disk before the answer is
sent."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from aiohttp import web

from proof.history import Effect

PORT = 8000


class Tools:
    """The tool server. A call with a repeated key has no further effect, and gets the first call's answer."""

    def __init__(self, log: Path, seed: int) -> None:
        self._log = log.open("a")
        self._random = random.Random(seed)
        self.effects: list[Effect] = []
        self._by_key: dict[str, Effect] = {}
        self._held: dict[str, asyncio.Event] = {}
        # Number of repeated calls by key. A call is repeated if its node was lost before the journal recorded the call.
        self.repeated: Counter[str] = Counter()
        # Requests that a tool server should never receive.
        self.refused: list[str] = []

    async def listen(self, address: str) -> None:
        app = web.Application()
        app.router.add_post("/record", self._record)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, address, PORT).start()

    def hold(self, operation: str) -> asyncio.Event:
        """Delays the answers to this operation until the returned event is set. Effects are recorded immediately."""
        return self._held.setdefault(operation, asyncio.Event())

    async def _record(self, request: web.Request) -> web.Response:
        key = request.headers.get("idempotency-key", "")
        arguments = (await request.json())["arguments"]
        parts = key.rsplit("/", 2)
        if len(parts) != 3:
            self.refused.append(f"the key `{key}` is not <session>/<execution>/<call>")
            return web.json_response({"error": "no key"}, status=400)
        before = self._by_key.get(key)
        if before is not None:
            self.repeated[key] += 1
            if (before.operation, before.count) != (arguments["operation"], arguments["count"]):
                self.refused.append(f"the key `{key}` came with {arguments}, and before that with {asdict(before)}")
        else:
            session, execution, call = parts
            effect = Effect(key, session, execution, call, arguments["operation"], arguments["count"], time.monotonic())
            self._by_key[key] = effect
            self.effects.append(effect)
            self._log.write(json.dumps(asdict(effect)) + "\n")
            self._log.flush()
            os.fsync(self._log.fileno())
        held = self._held.get(arguments["operation"])
        if held is not None:
            await held.wait()
        # Makes some calls slow, so that at any time an execution is in the middle of a call.
        await asyncio.sleep(self._random.choice((0.0, 0.0, 0.05, 0.4)))
        return web.json_response({"recorded": arguments["count"]})
