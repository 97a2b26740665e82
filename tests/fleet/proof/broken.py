"""Tests the proof itself on the real fleet: the checks must detect broken clients and a broken store."""

from __future__ import annotations

import asyncio
import copy
import xml.etree.ElementTree as Xml
from pathlib import Path

import aiohttp

from proof.checks import Record, check
from proof.client import ATTEMPT_S, Client
from proof.fleet import Fleet
from proof.history import Operation
from proof.load import Load
from proof.tools import Tools

SESSIONS = 20
SECONDS = 6.0
PAUSE_S = 0.3
# Timeout for requests that cannot succeed. Longer than one attempt: the checks accept an operation that remains
# unanswered after a single attempt.
TIMEOUT_S = 1.5 * ATTEMPT_S


class WithoutKeys(Client):
    """A proxy between client and engine that drops the idempotency key, and repeats every tenth request."""

    def headers(self, operation: Operation) -> dict[str, str]:
        return {name: value for name, value in super().headers(operation).items() if name != "idempotency-key"}

    async def carry_out(self, operation: Operation, *, patient: bool = True, doubled: bool = False) -> None:
        if self._random.random() < 0.1 and operation.kind != "info":
            await super().carry_out(copy.deepcopy(operation))
        await super().carry_out(operation, patient=patient)


async def live(http: aiohttp.ClientSession, fleet: Fleet, checker: Path, seed: int) -> dict[str, dict[str, list[str]]]:
    """Returns the violations in each broken variant. Injects no faults."""
    return {
        "requests repeated without their key": check(await without_keys(http, fleet, seed), checker),
        "a store that has lost the states": check(await without_states(http, fleet, seed), checker),
    }


async def without_keys(http: aiohttp.ClientSession, fleet: Fleet, seed: int) -> Record:
    load = Load(WithoutKeys(http, fleet.ingresses, fleet.callback, seed), "broken", SESSIONS, PAUSE_S, seed)
    load.start()
    await asyncio.sleep(SECONDS)
    await load.stop()
    return record_of(load, fleet.tools)


async def without_states(http: aiohttp.ClientSession, fleet: Fleet, seed: int) -> Record:
    """Makes the store lose all sessions while no node has a session in memory."""
    load = Load(Client(http, fleet.ingresses, fleet.callback, seed, TIMEOUT_S), "lost", SESSIONS, PAUSE_S, seed)
    load.start()
    await asyncio.sleep(SECONDS)
    nodes = [fleet.process(host) for host in fleet.nodes]
    for node in nodes:
        node.kill()
    await empty(http, fleet.bucket)
    for node in nodes:
        node.start()
    await asyncio.sleep(SECONDS)
    await load.stop()
    return record_of(load, fleet.tools)


async def empty(http: aiohttp.ClientSession, bucket: str) -> None:
    """Removes every object of a bucket."""
    while True:
        async with http.get(bucket, params={"list-type": "2"}) as answer:
            listing = Xml.fromstring(await answer.text())
        keys = [key.text for key in listing.iter() if key.tag.endswith("}Key")]
        if not keys:
            return
        for key in keys:
            async with http.delete(f"{bucket}/{key}") as answer:
                answer.raise_for_status()


def record_of(load: Load, tools: Tools) -> Record:
    """Returns the record of a load, with the effects of its own sessions."""
    own = set(load.sessions)
    return Record(load.history.by_session(), load.finals(), [each for each in tools.effects if each.session in own], list(tools.refused))
