"""Type checks of Python scripts, with the package's own command: `glovebox validate --types`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ._backend import Input
from ._remote import positions
from .errors import UnavailableError
from .tools import Tool

_TIMEOUT_S = 600
"""Timeout of the command, which downloads the type checker at the first use. The check itself ends after 20 s."""

_FINISHED = (0, 1)
"""The exit codes of the command without and with diagnostics."""

_RUN = """
import json, runpy, sys
sys.path[:] = json.loads(sys.argv.pop(1))
runpy.run_module("glovebox_sandbox", run_name="__main__", alter_sys=True)
"""
"""Runs the command with the module path of this process. A new process could have a different one."""


@runtime_checkable
class TypeCheckingBackend(Protocol):
    """A sandbox of a backend that checks types itself."""

    def type_errors(self, input: Input) -> list[tuple[int, int, str]]: ...


@runtime_checkable
class ValidatingSession(Protocol):
    """A session whose backend validates scripts."""

    def diagnostics(self, input: Input, types: bool) -> list[tuple[int, int, str]]: ...


@runtime_checkable
class DescribingSession(Protocol):
    """A session of a backend that describes the session's variables for the package's own command."""

    def described_variables(self) -> str | None:
        """Returns the variables as JSON text, or `None` if they cannot be determined."""


def described(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Describes tools, in the format of requests and of the command."""
    return [{"name": tool.name, "description": tool.description, "schema": tool.schema} for tool in tools]


def find_with_command(
    runtime: str, tools: Sequence[Tool], source: str, variables: str | None = None
) -> list[tuple[int, int, str]]:
    """Returns the type errors of a script that has no syntax errors. Runs the command in another process. `variables`
    describes a session's variables as JSON text: `null` if they are unknown."""
    if not sys.executable:
        raise UnavailableError("types: cannot find a Python executable to run the type checker; set sys.executable")
    path = json.dumps([each for each in sys.path if each])
    command = [sys.executable, "-I", "-c", _RUN, path, "validate", "--types", "--json", "--runtime", runtime]
    with tempfile.TemporaryDirectory(prefix="glovebox-") as directory:
        for option, name, text in (
            ("--definitions", "tools.json", json.dumps(described(tools)) if tools else None),
            ("--variables", "variables.json", variables),
        ):
            if text is not None:
                written = os.path.join(directory, name)
                with open(written, "w", encoding="utf-8") as file:
                    file.write(text)
                command += [option, written]
        try:
            ran = subprocess.run(
                [*command, "-"], input=source.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"types: cannot run the type checker: {error}") from error
    if ran.returncode not in _FINISHED:
        reason = ran.stderr.decode(errors="replace").strip()
        raise UnavailableError(f"types: the type checker failed: {reason}")
    return positions(json.loads(ran.stdout)["diagnostics"])
