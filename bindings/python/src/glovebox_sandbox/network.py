"""The network permissions of scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _check


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of the host. Scripts see only a placeholder."""

    env: str
    """The environment variable of this process that contains the secret, read when the sandbox is created."""
    host: str
    """The only host that receives the secret, in the headers of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The network permissions and limits of scripts.

    >>> network = Network(allow=["https://api.example.com/v1/*"], secrets={"API_KEY": Secret("REAL_KEY", "api.example.com")})
    """

    allow: Sequence[str]
    """The allowed targets of requests: `SCHEME://HOST[:PORT][/PATH]`."""
    allow_private: Sequence[str] = ()
    """Non-public address ranges that requests may reach, such as `127.0.0.0/8`. Default: none."""
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    """Secrets, keyed by the environment variables that contain their placeholders in scripts. Default: none."""
    methods: Sequence[str] | None = None
    """The allowed methods. Default: `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` and `OPTIONS`."""
    request_count: int | None = None
    """Maximum number of requests in one execution. Default: 50."""
    request_bytes: int | None = None
    """Maximum size of a request body, in bytes. Default: 1 MiB."""
    response_bytes: int | None = None
    """Maximum size of a response body after decompression, in bytes. Default: 4 MiB."""
    timeout_ms: int | None = None
    """Timeout of a request including its redirects and the body, in milliseconds. Default: 10,000. The timeouts of tool
    calls and of the execution also apply."""
    redirects: int | None = None
    """Maximum number of redirects that the host follows for one request, at most 5. Default: 5."""


def record(network: Any) -> dict[str, Any] | None:
    """Converts the permissions to the format of the engine's policy files, and checks their types."""
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
