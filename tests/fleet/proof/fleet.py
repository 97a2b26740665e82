"""The fleet: three servers, three nodes, and the processes in front of and behind them, each on its own host."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from proof import engine, objects
from proof.balancer import NODES, Balancer
from proof.network import Host, Network, sh
from proof.process import Process
from proof.throttle import Throttle
from proof.tools import PORT as TOOLS
from proof.tools import Tools

# Timeout for starting each process of the fleet on a busy machine.
START_S = 90.0
# Time limit of scripts, which includes waiting for the engine and for the processor. It is longer than any client waits, so
# that neither a slow machine nor a fault ends a script.
SCRIPT_S = 600.0
# The bucket that sessions are stored in.
BUCKET = "sessions"


@dataclass(frozen=True)
class Programs:
    glovebox: Path
    restate: Path
    weed: Path


class Fleet:
    def __init__(self, programs: Programs, directory: Path, seed: int) -> None:
        network = Network()
        # The data is in memory, so that a busy disk does not affect the test. It is removed with this process. Logs are
        # on disk.
        self._data = data = directory / "data"
        data.mkdir()
        sh("mount", "-t", "tmpfs", "tmpfs", str(data))
        self.clients = network.here("clients", 1)
        self.tools_host = network.here("tools", 2)
        # The throttle in front of the store. The nodes connect to it as if it were the store.
        self.objects = network.here("objects", 3)
        self.servers = [network.host(f"server{number}", 10 + number) for number in (1, 2, 3)]
        self.nodes = [network.host(f"node{number}", 20 + number) for number in (1, 2, 3)]
        balancer = network.host("balancer", 30)
        store = network.host("store", 31)

        self.store = objects.store(programs.weed, store, directory, data)
        self.throttle = Throttle((store.address, objects.PORT))
        self.tools = Tools(directory / "effects.jsonl", seed)
        self.balancer = Balancer(balancer, self.nodes, self.servers, directory)
        self._engine = engine.servers(programs.restate, self.servers, url(store.address, objects.PORT), directory, data)
        self._nodes = [self._node(programs.glovebox, host, directory) for host in self.nodes]
        self.restarted: Counter[str] = Counter()
        # The bucket's URL at the store itself, which bypasses the throttle.
        self.bucket = url(store.address, objects.PORT) + f"/{BUCKET}"
        self.callback = url(self.tools_host.address, TOOLS) + "/record"
        self.ingresses = [url(host.address, engine.INGRESS) for host in (balancer, *self.servers)]

    def _node(self, program: Path, host: Host, directory: Path) -> Process:
        balancer = self.balancer.host.address
        command = [str(program), "fleet", "node"]
        command += ["--engine", f"restate://{balancer}:{engine.INGRESS}?admin={engine.ADMIN}", "--store", f"s3://{BUCKET}/fleet"]
        command += ["--listen", f"{host.address}:{NODES}", "--advertise", url(balancer, NODES)]
        # The secret only signs requests; the tool server accepts any signature.
        secret = directory / "callback-secret"
        secret.write_text("whsec_" + base64.b64encode(bytes(32)).decode())
        command += ["--timeout-ms", str(round(SCRIPT_S * 1e3))]
        command += ["--runtime", "python", "--callback", url(self.tools_host.address, TOOLS) + "/*", "--callback-secret-file", str(secret)]
        environment = {
            "AWS_ENDPOINT_URL": url(self.objects.address, objects.PORT),
            "AWS_ACCESS_KEY_ID": objects.KEY,
            "AWS_SECRET_ACCESS_KEY": objects.KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        return Process(host.name, host, command, directory / f"{host.name}.log", environment, comes_first=False)

    async def start(self) -> None:
        """Starts everything in dependency order, and returns when all nodes are registered."""
        await self.tools.listen(self.tools_host.address)
        await self.throttle.listen(self.objects.address, objects.PORT)
        self.store.start()
        async with aiohttp.ClientSession() as http:
            for bucket in (self.bucket, url(self.store.host.address, objects.PORT) + "/snapshots"):
                await self._until(http, "PUT", bucket)
            for process in self._engine:
                process.start()
            for host in self.servers:
                await self._until(http, "GET", url(host.address, engine.ADMIN) + "/health")
                await self._until(http, "GET", url(host.address, engine.INGRESS) + "/restate/health")
            self.balancer.start()
            for process in self._nodes:
                process.start()
            admin = url(self.balancer.host.address, engine.ADMIN)
            await self._until(http, "GET", f"{admin}/services/glovebox-sessions-ff")

    async def _until(self, http: aiohttp.ClientSession, method: str, address: str) -> None:
        async with asyncio.timeout(START_S):
            while True:
                self.must_run()
                try:
                    async with http.request(method, address, timeout=aiohttp.ClientTimeout(total=5)) as answer:
                        if answer.ok:
                            return
                except (TimeoutError, OSError, aiohttp.ClientError):
                    pass
                await asyncio.sleep(0.2)

    def must_run(self) -> None:
        """Raises if a program has ended without being killed."""
        for process in self._processes():
            process.must_run()

    async def supervise(self) -> None:
        """Restarts ended programs, as a service manager does, and counts those that ended by themselves."""
        while True:
            await asyncio.sleep(0.5)
            for process in self._processes():
                if process.has_ended():
                    if not process.was_stopped():
                        self.restarted[process.name] += 1
                    process.start()

    def process(self, host: Host) -> Process:
        return next(each for each in self._processes() if each.host is host)

    def others(self, victim: Host) -> list[Host]:
        """Returns all hosts except the victim."""
        here = [self.clients, self.tools_host, self.objects]
        return here + [each.host for each in self._processes() if each.host is not victim]

    def peers(self, victim: Host) -> list[Host]:
        """Returns all servers except the victim."""
        return [each for each in self.servers if each is not victim]

    def _processes(self) -> list[Process]:
        return [self.store, *self._engine, self.balancer, *self._nodes]

    def stop(self) -> None:
        for process in reversed(self._processes()):
            process.thaw()
            process.kill()
        sh("umount", "--lazy", str(self._data))


def url(address: str, port: int) -> str:
    return f"http://{address}:{port}"
