"""An operation of a client: attempts with one key, at one ingress after another, until an answer arrives."""

from __future__ import annotations

import asyncio
import random
import time

import aiohttp

from proof import contract
from proof.history import Operation

# Timeout of one attempt. The client then retries on another address, while the engine continues the running execution.
ATTEMPT_S = 8.0
# Timeout of a client that does not retry.
IMPATIENT_S = 1.0
PAUSE_S = 0.2
# Timeout of an operation, longer than all faults together.
TIMEOUT_S = 180.0


class Again(Exception):
    """No answer arrived, so the outcome is unknown."""


class Client:
    def __init__(self, http: aiohttp.ClientSession, ingresses: list[str], callback: str, seed: int, timeout_s: float = TIMEOUT_S) -> None:
        self._http = http
        self._ingresses = ingresses
        self._callback = callback
        self._random = random.Random(seed)
        self._timeout_s = timeout_s

    async def carry_out(self, operation: Operation, *, patient: bool = True, doubled: bool = False) -> None:
        """Carries out an operation and records its outcome. With `doubled`, sends two concurrent requests with
        the same key, which must get the same answer."""
        try:
            if doubled:
                answers = await asyncio.gather(self._insist(operation), self._insist(operation))
                if answers[0] != answers[1]:
                    raise ValueError(f"two requests with the same key have different answers: {answers[0]!r} and {answers[1]!r}")
                answer = answers[0]
            elif patient:
                answer = await self._insist(operation)
            else:
                answer = await self._attempt(operation, self._random.choice(self._ingresses), IMPATIENT_S)
            contract.read(operation, *answer)
            operation.outcome = "ok"
        except Again as failure:
            operation.errors.append(str(failure))
        except (ValueError, KeyError, TypeError) as failure:
            operation.errors.append(repr(failure))
            operation.outcome = "failed"
        finally:
            operation.ended = time.monotonic()

    async def _insist(self, operation: Operation) -> tuple[int, bytes]:
        last = None
        while True:
            ingress = self._random.choice([each for each in self._ingresses if each != last])
            try:
                return await self._attempt(operation, ingress, ATTEMPT_S)
            except Again as failure:
                operation.errors.append(str(failure))
                if time.monotonic() > operation.begun + self._timeout_s:
                    raise
                last = ingress
                await asyncio.sleep(PAUSE_S)

    def headers(self, operation: Operation) -> dict[str, str]:
        return {} if operation.kind == "info" else {"content-type": "application/json", "idempotency-key": operation.id}

    async def _attempt(self, operation: Operation, ingress: str, timeout_s: float) -> tuple[int, bytes]:
        """Returns the status and body of an answer from the service."""
        operation.attempts += 1
        try:
            async with self._http.post(
                ingress + contract.path(operation),
                data=contract.body(operation, self._callback),
                headers=self.headers(operation),
                # Requests without a body must not have a content type.
                skip_auto_headers=["content-type"],
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=1.0),
            ) as answer:
                status, text = answer.status, await answer.read()
        except (TimeoutError, OSError, aiohttp.ClientError) as failure:
            raise Again(f"{ingress}: {failure!r}") from failure
        if contract.is_engine_error(status, text):
            raise Again(f"{ingress}: status {status}: {text[:200]!r}")
        return status, text
