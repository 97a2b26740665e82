"""What scripts may reach of the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _check


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of the host's, for which scripts have a placeholder."""

    env: str
    """The environment variable of this process that has it, read when the sandbox is made."""
    host: str
    """The one host that it is sent to, in the headers of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What scripts may reach of the network, and how much of it. What is left out has the engine's default.

    >>> network = Network(allow=["https://api.example.com/v1/*"], secrets={"API_KEY": Secret("REAL_KEY", "api.example.com")})
    """

    allow: Sequence[str]
    """Where requests may go: `SCHEME://HOST[:PORT][/PATH]`."""
    allow_private: Sequence[str] = ()
    """Ranges of addresses that are not public and may be reached all the same."""
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    """Secrets, by the environment variables in which scripts find their placeholders."""
    methods: Sequence[str] | None = None
    """The methods of requests."""
    request_count: int | None = None
    """Requests of one execution."""
    request_bytes: int | None = None
    """Bytes of a request's body."""
    response_bytes: int | None = None
    """Bytes of a response's body."""
    timeout_ms: int | None = None
    """Milliseconds that a request may take."""
    redirects: int | None = None
    """Redirects that the host follows for one request."""


def record(network: Any) -> dict[str, Any] | None:
    """As the engine's policy files have it, checked for types."""
    if network is None:
        return None
    given = _check.of("network", Network, network)
    made: dict[str, Any] = {}
    for name in ("allow", "allow_private", "methods"):
        if (texts := getattr(given, name)) is not None:
            made[name] = _check.sequence(f"network.{name}", texts, lambda at, text: _check.of(at, str, text))
    for name in ("request_count", "request_bytes", "response_bytes", "timeout_ms", "redirects"):
        if (number := _check.optional(f"network.{name}", int, getattr(given, name))) is not None:
            made[name] = number
    made["secrets"] = _check.mapping("network.secrets", given.secrets, _secret)
    return made


def _secret(name: str, secret: Any) -> dict[str, str]:
    of = _check.of(name, Secret, secret)
    return {"env": _check.of(f"{name}.env", str, of.env), "host": _check.of(f"{name}.host", str, of.host)}
