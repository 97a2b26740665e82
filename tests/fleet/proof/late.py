"""A node that continues late: it is lost while it closes a session, and continues after another node has closed the
session and opened it again."""

from __future__ import annotations

import asyncio
import time

from proof.client import Client
from proof.fleet import Fleet
from proof.history import Kind, Operation, service

SESSION = "late-000"
# Delay of the store's responses, so that the node is lost while it removes blobs.
SLOW_S = 1.0
# Time that the late node has to continue its work.
LATE_S = 4.0


async def close_comes_late(client: Client, fleet: Fleet) -> list[str]:
    """Returns the problems that were found in the reopened session, or an empty list."""
    numbers = iter(range(1 << 62))

    async def ask(kind: Kind) -> Operation:
        operation = Operation(f"{SESSION}.{next(numbers)}", SESSION, kind, time.monotonic())
        await client.carry_out(operation)
        return operation

    issued = [await ask("execute"), await ask("execute")]
    place = fleet.balancer.places()[service(SESSION)]
    victim = next(host for host in fleet.nodes if host.name == place)
    fleet.throttle.slow(SLOW_S)
    closing = asyncio.create_task(ask("close"))
    await asyncio.sleep(SLOW_S / 2)
    # The node does not notice that its client has disconnected.
    victim.cut([fleet.balancer.host])
    fleet.process(victim).freeze()
    met = fleet.throttle.pass_all()
    issued += [await closing, await ask("execute")]
    fleet.process(victim).thaw()
    await asyncio.sleep(LATE_S)
    victim.heal()
    # After the restart, no node has the session in memory, so the answer comes from the store.
    for host in fleet.nodes:
        fleet.process(host).kill()
        fleet.process(host).start()
    issued += [await ask("execute"), await ask("info")]
    wrong = [f"{each.id}: {each.kind} is {each.outcome}: {each.errors[-1:]}" for each in issued if each.outcome != "ok"]
    counts = [each.count for each in issued]
    if not wrong and counts != [1, 2, 1, 1, 2, 2]:
        wrong.append(f"the answers are {counts}")
    if met == 0:
        wrong.append("the store was not asked to remove anything")
    return wrong
