"""The faults of the fleet. Each fault has victims, is injected, lasts for a while, and is healed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from proof.fleet import Fleet
from proof.network import Host


@dataclass
class Injected:
    """An injected fault. Times are seconds of the monotonic clock."""

    kind: str
    victim: str
    begun: float
    healed: float | None = None
    # Number of hits, such as dropped packets or reset connections; `None` for faults without a counter.
    met: int | None = None


@dataclass
class Fault:
    kind: str
    hold_s: tuple[float, float]
    # Injects the fault. Returns a function that heals it and returns the number of hits.
    inject: Callable[[Fleet, Host], Callable[[], int | None]]


def kill(fleet: Fleet, victim: Host) -> Callable[[], int | None]:
    process = fleet.process(victim)
    process.kill()
    return process.start


def stop(fleet: Fleet, victim: Host) -> Callable[[], int | None]:
    """Stops a process gracefully. The fleet's supervisor then restarts it."""
    fleet.process(victim).stop()
    return lambda: None


def freeze(fleet: Fleet, victim: Host) -> Callable[[], int | None]:
    process = fleet.process(victim)
    process.freeze()
    return process.thaw


def cut_from(choose: Callable[[Fleet, Host], list[Host]], *, outgoing: bool = True) -> Callable[[Fleet, Host], Callable[[], int | None]]:
    """Cuts the victim off from these hosts. Without `outgoing`, its own packets still arrive."""

    def inject(fleet: Fleet, victim: Host) -> Callable[[], int | None]:
        victim.cut(choose(fleet, victim), outgoing=outgoing)
        return victim.heal

    return inject


def slow_store(fleet: Fleet, _: Host) -> Callable[[], int | None]:
    fleet.throttle.slow(0.5)
    return fleet.throttle.pass_all


def refuse_store(fleet: Fleet, _: Host) -> Callable[[], int | None]:
    fleet.throttle.refuse()
    return fleet.throttle.pass_all


NODES = [
    Fault("kill a node", (1, 4), kill),
    Fault("freeze a node", (3, 8), freeze),
    Fault("stop a node", (1, 4), stop),
    Fault("cut a node off from all", (3, 8), cut_from(Fleet.others)),
    # The node keeps running, and writes outdated results.
    Fault("cut a node off from the balancer", (3, 8), cut_from(lambda fleet, _: [fleet.balancer.host])),
    Fault("cut a node off from the store", (2, 5), cut_from(lambda fleet, _: [fleet.objects])),
    Fault("cut a node off from the tools", (2, 5), cut_from(lambda fleet, _: [fleet.tools_host])),
]
SERVERS = [
    Fault("kill a server", (1, 4), kill),
    Fault("freeze a server", (3, 8), freeze),
    Fault("cut a server off from all", (3, 8), cut_from(Fleet.others)),
    Fault("cut a server off from the other servers", (3, 8), cut_from(Fleet.peers)),
    Fault("leave a server deaf to the other servers", (3, 8), cut_from(Fleet.peers, outgoing=False)),
    Fault("cut a server off from the nodes", (3, 8), cut_from(lambda fleet, _: [fleet.balancer.host])),
]
STORE = [
    Fault("slow the store down", (3, 6), slow_store),
    Fault("refuse the store", (1, 4), refuse_store),
]
BALANCER = [Fault("kill the balancer", (0.5, 1), kill)]
ALL = [*NODES, *SERVERS, *STORE, *BALANCER]


@dataclass
class Injector:
    """Injects faults, and records them."""

    fleet: Fleet
    random: random.Random
    log: list[Injected] = field(default_factory=list)

    async def once(self, fault: Fault, victim: Host) -> Injected:
        injected = Injected(fault.kind, victim.name, time.monotonic())
        self.log.append(injected)
        heal = fault.inject(self.fleet, victim)
        await asyncio.sleep(self.random.uniform(*fault.hold_s))
        injected.met = heal()
        injected.healed = time.monotonic()
        return injected

    async def storm(self, seconds: float) -> None:
        """Injects faults of nodes, servers, store and balancer concurrently for `seconds`, and until each kind has
        occurred at least once. Faults of the same kind of victim do not overlap, and are a few seconds apart."""
        end = time.monotonic() + seconds
        fleet = self.fleet
        await asyncio.gather(
            self._track(NODES, fleet.nodes, 2, end),
            # Waits until the previous server is back, because the cluster needs two of its three servers.
            self._track(SERVERS, fleet.servers, 5, end),
            self._track(STORE, [fleet.objects], 4, end),
            self._track(BALANCER, [fleet.balancer.host], 40, end),
        )

    async def _track(self, faults: list[Fault], victims: list[Host], rest_s: float, end: float) -> None:
        is_first = True
        while is_first or time.monotonic() < end:
            # Injects each fault once per round, in a random order.
            for fault in self.random.sample(faults, len(faults)):
                await asyncio.sleep(self.random.uniform(rest_s / 2, rest_s))
                if not is_first and time.monotonic() > end:
                    return
                await self.once(fault, self.random.choice(victims))
            is_first = False
