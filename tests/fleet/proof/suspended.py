"""An execution that waits for its caller. Its node is killed while it is suspended, and the nodes that resume it are killed
while it calls a tool."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp

from proof import contract
from proof.fleet import Fleet
from proof.history import service

SESSION = "suspended-000"
# The number of calls after the suspension.
CALLS = 12
SCRIPT = f"""\
n = globals().get('n', 0) + 1
tools.record(operation='before', count=n)
answer = tools.approve(euros=20)
for call in range({CALLS}):
    tools.record(operation=f'after {{call}}', count=n)
print(n, answer)
"""
# The call that is not answered until the nodes are killed. The kill therefore follows the call's effect, while the
# script runs.
HELD = "after 1"
OPERATIONS = ["before", *(f"after {call}" for call in range(CALLS))]
ATTEMPT_S = 8.0
PAUSE_S = 0.2
TIMEOUT_S = 120.0


async def suspension_repeats_no_effect(http: aiohttp.ClientSession, fleet: Fleet) -> list[str]:
    """Returns the problems that were found, or an empty list."""
    tools = [{"name": "record", "schema": contract.SCHEMA, "callback": fleet.callback}, {"name": "approve"}]

    async def ask(handler: str, body: dict[str, Any] | None = None, key: str | None = None) -> tuple[int, Any]:
        return await insist(http, fleet, handler, body, key)

    status, started = await ask("execute", {"source": SCRIPT, "open": {}, "tools": tools}, "start")
    waiting = started.get("waiting")
    if status != 200 or not waiting or [(call["id"], call["name"]) for call in waiting["calls"]] != [(1, "approve")]:
        return [f"the execution does not wait for its caller: {status}: {str(started)[:300]}"]
    wrong = []
    status, info = await ask("info")
    if status != 200 or info["is_running"] or info["executions"] != 0:
        wrong.append(f"the suspended execution still uses its session: {status}: {info}")
    place = fleet.balancer.places()[service(SESSION)]
    victim = next(host for host in fleet.nodes if host.name == place)
    fleet.process(victim).kill()
    resumption = {"suspended_base64": waiting["suspended_base64"], "answers": [{"id": 1, "answer": {"Ok": '"approved"'}}]}
    expected = {"created_at": started["created_at"], "generation": started["generation"]}
    body = {"tools": tools, "resumption": resumption, "expected": expected}
    release = fleet.tools.hold(HELD)
    resuming = asyncio.create_task(ask("execute", body, "resume"))
    while not resuming.done() and recorded(fleet)[HELD] == 0:
        await asyncio.sleep(0.01)
    if resuming.done():
        wrong.append("the resumed execution ended before its nodes were killed")
    others = [fleet.process(host) for host in fleet.nodes if host is not victim]
    for other in others:
        other.kill()
    release.set()
    fleet.process(victim).start()
    status, done = await resuming
    for other in others:
        other.start()
    if status != 200 or done["execution"]["stdout"] != "1 approved\n":
        wrong.append(f"the resumed execution failed: {status}: {str(done)[:300]}")
    status, again = await ask("execute", body, "resume again")
    if status != 412:
        wrong.append(f"the changed session was replaced: {status}: {str(again)[:300]}")
    wrong += [f"`{operation}` was recorded {recorded(fleet)[operation]} times" for operation in OPERATIONS if recorded(fleet)[operation] != 1]
    return wrong


def recorded(fleet: Fleet) -> Counter[str]:
    """Returns the number of effects of each operation."""
    return Counter(effect.operation for effect in fleet.tools.effects if effect.session == SESSION)


async def insist(http: aiohttp.ClientSession, fleet: Fleet, handler: str, body: dict[str, Any] | None, key: str | None) -> tuple[int, Any]:
    """Sends a request to one ingress after another, until the service answers. Returns the status and the answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {} if key is None else {"content-type": "application/json", "idempotency-key": key}
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            for ingress in fleet.ingresses:
                try:
                    async with http.post(
                        f"{ingress}/{service(SESSION)}/{SESSION}/{handler}",
                        data=data,
                        headers=headers,
                        # Requests without a body must not have a content type.
                        skip_auto_headers=["content-type"],
                        timeout=aiohttp.ClientTimeout(total=ATTEMPT_S, sock_connect=1.0),
                    ) as answer:
                        status, text = answer.status, await answer.read()
                except (TimeoutError, OSError, aiohttp.ClientError):
                    continue
                if not contract.is_engine_error(status, text):
                    return status, json.loads(text)
            await asyncio.sleep(PAUSE_S)
