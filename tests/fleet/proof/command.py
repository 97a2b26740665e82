"""Tests a fleet under faults, and reports violations, latencies and takeover times."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

import aiohttp

from proof import broken, doctored, faults, replicas
from proof.checks import LINEARIZABLE, check
from proof.client import Client
from proof.faults import NODES, SERVERS, Injector
from proof.fleet import Fleet, Programs
from proof.late import close_comes_late
from proof.load import Load
from proof.process import put_first
from proof.report import Report, text
from proof.suspended import suspension_repeats_no_effect
from proof.takeover import Takeover, takeover

# Pause between two faults when takeovers are measured.
SETTLE_S = 5.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/fleet/run", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="inject each fault once and measure each takeover once, instead of 150 s of faults and three takeovers each"
    )
    parser.add_argument("--sessions", type=int, default=200, help="sessions under load, with two clients each (default: 200)")
    parser.add_argument("--pause", type=float, default=4.0, help="mean pause of a client between two operations, in seconds (default: 4)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the random numbers (default: random)")
    parser.add_argument("--keep", action="store_true", help="keep logs and data even if the run passes")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    # The first process in a namespace ignores signals that it has no handler for. When it exits, all other processes in
    # the namespace are killed.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    put_first(os.getpid())
    work = Path("target/fleet").resolve()
    checker = Path(os.environ["FLEET_CHECKER"])
    noticed = doctored.doctored(checker)
    programs = Programs(Path(os.environ["GLOVEBOX"]), Path(os.environ["FLEET_RESTATE"]), Path(os.environ["FLEET_WEED"]))
    directory = Path(tempfile.mkdtemp(prefix="run.", dir=work))
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"logs: {directory}; seed: {seed}", flush=True)
    report = asyncio.run(prove(options, programs, checker, directory, seed))
    report.self_test = noticed | report.self_test
    as_json = report.as_json()
    (work / "report.json").write_text(json.dumps(as_json, indent=2) + "\n")
    (work / "report.txt").write_text(text(as_json) + "\n")
    print(text(as_json))
    if report.passed() and not options.keep:
        shutil.rmtree(directory)
    return 0 if report.passed() else 1


async def prove(options: argparse.Namespace, programs: Programs, checker: Path, directory: Path, seed: int) -> Report:
    rounds, storm_s, calm_s = (1, 0.0, 10.0) if options.quick else (3, 150.0, 20.0)
    fleet = Fleet(programs, directory, seed)
    begun = time.monotonic()
    try:
        await fleet.start()
        say(begun, "the fleet runs")
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as http:
            load = Load(Client(http, fleet.ingresses, fleet.callback, seed), "s", options.sessions, options.pause, seed)
            injector = Injector(fleet, random.Random(seed))
            supervisor = asyncio.create_task(fleet.supervise())
            load.start()
            # All sessions are opened during this time.
            await asyncio.sleep(2 * options.pause)
            since = time.monotonic()
            await asyncio.sleep(calm_s)
            calm = [each for each in load.history.operations if each.begun >= since and each.ended is not None]
            say(begun, f"{len(load.history.operations)} operations without a fault")
            takeovers = await measured(injector, load, rounds, begun)
            await injector.storm(storm_s)
            say(begun, f"the storm is over: {len(injector.log)} faults, {load.under_way()} operations under way")
            await load.stop()
            say(begun, "every session has been read")
            record = broken.record_of(load, fleet.tools)
            late = await close_comes_late(Client(http, fleet.ingresses, fleet.callback, seed), fleet)
            suspended = await suspension_repeats_no_effect(http, fleet)
            noticed = await broken.live(http, fleet, checker, seed)
            supervisor.cancel()
        load.history.save(directory / "history.jsonl")
        violations = check(record, checker)
        violations[LINEARIZABLE] = replicas.explained(violations[LINEARIZABLE], directory, [host.name for host in fleet.servers])
        violations["a close that comes late leaves the new session alone"] = late
        violations["a suspended execution is resumed on other nodes, and repeats no effect"] = suspended
        violations["the checks notice each broken variant"] = [name for name, checks in noticed.items() if not any(checks.values())]
        violations["each kind of fault was injected and met something"] = missed(injector)
        return Report(
            sessions=options.sessions,
            seconds=time.monotonic() - begun,
            seed=seed,
            injected=injector.log,
            operations=load.history.operations,
            calm=calm,
            takeovers=takeovers,
            tools=fleet.tools,
            restarted=fleet.restarted,
            violations=violations,
            self_test=noticed,
        )
    finally:
        fleet.stop()


async def measured(injector: Injector, load: Load, rounds: int, begun: float) -> list[Takeover]:
    """Kills and freezes nodes and servers, one at a time, and measures how long their sessions wait."""
    fleet = injector.fleet
    found = []
    for _ in range(rounds):
        for kinds, victims, located in ((NODES[:3], fleet.nodes, True), (SERVERS[:2], fleet.servers, False)):
            for fault in kinds:
                places = fleet.balancer.places() if located else None
                injected = await injector.once(fault, injector.random.choice(victims))
                await asyncio.sleep(SETTLE_S)
                found.append(takeover(injected, places, load.history.operations))
    say(begun, f"{len(found)} takeovers measured")
    return found


def missed(injector: Injector) -> list[str]:
    """Returns the kinds of faults that were not injected, or that hit no packet, connection or answer."""
    found = []
    for kind in (fault.kind for fault in faults.ALL):
        injected = [each for each in injector.log if each.kind == kind]
        if not injected:
            found.append(f"{kind}: not injected")
        elif all(each.met == 0 for each in injected):
            found.append(f"{kind}: no packet, connection or answer was hit")
    return found


def say(begun: float, what: str) -> None:
    print(f"{time.monotonic() - begun:6.1f} s  {what}", flush=True)
