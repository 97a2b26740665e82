"""The code executor for Google's Agent Development Kit."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import mimetypes
import threading
from collections import OrderedDict
from typing import Any

from .. import _check
from ..errors import GloveboxError
from ..run import Run
from ..types import Limits
from ._common import DEFAULT_LIMITS, Interpreter, failure, not_installed

try:
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.code_executors.base_code_executor import BaseCodeExecutor
    from google.adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult, File
    from pydantic import PrivateAttr
except ImportError as error:
    raise not_installed("google-adk", error) from error

_MAX_SESSIONS = 100
"""Maximum number of sessions at once. A new conversation evicts the least recently used session."""


class GloveboxCodeExecutor(BaseCodeExecutor):
    """An executor of an `LlmAgent`'s code: `LlmAgent(…, code_executor=GloveboxCodeExecutor(stateful=True))`.

    With `stateful=True`, each conversation has its own session, whose variables and files persist. By default, every
    script starts in a new interpreter. A script finds its input files in the working directory. The files that it
    writes are its output files.
    """

    _sandbox_options: dict[str, Any] = PrivateAttr(default_factory=dict)
    _interpreters: OrderedDict[tuple[str, str, str], Interpreter] = PrivateAttr(default_factory=OrderedDict)
    _fresh: Interpreter = PrivateAttr()
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def __init__(
        self,
        *,
        stateful: bool = False,
        optimize_data_file: bool = False,
        error_retry_attempts: int = 2,
        timeout_seconds: int | None = None,
        limits: Limits | None = None,
        **options: Any,
    ) -> None:
        """`limits` and the options that the base class does not have are those of `Sandbox`. `timeout_seconds`
        overrides `limits.timeout_ms`. By default, the timeout of a script is 60 seconds.
        """
        own = {key: options.pop(key) for key in ("code_block_delimiters", "execution_result_delimiters") if key in options}
        super().__init__(
            stateful=stateful,
            optimize_data_file=optimize_data_file,
            error_retry_attempts=error_retry_attempts,
            timeout_seconds=timeout_seconds,
            **own,
        )
        limits = DEFAULT_LIMITS if limits is None else _check.of("limits", Limits, limits)
        if timeout_seconds is not None:
            limits = dataclasses.replace(limits, timeout_ms=_check.of("timeout_seconds", int, timeout_seconds) * 1000)
        self._sandbox_options = {"limits": limits, **options}
        self._fresh = Interpreter(keep=False, **self._sandbox_options)
        self._interpreters = OrderedDict()
        self._lock = threading.Lock()

    def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """Runs code. Always returns a result: a failed script has a non-zero exit code and an explanation in `stderr`.
        """
        interpreter = self._interpreter(invocation_context, code_execution_input.execution_id)
        try:
            files = {file.name: _contents(file) for file in code_execution_input.input_files}
            run = interpreter.run(code_execution_input.code, files=files)
        except GloveboxError as error:
            return CodeExecutionResult(stderr=str(error), exit_code=1)
        return _result(run, files)

    def _interpreter(self, invocation_context: InvocationContext, execution_id: str | None) -> Interpreter:
        if not self.stateful or execution_id is None:
            return self._fresh
        # Two users can choose the same conversation ID.
        key = (invocation_context.app_name, invocation_context.user_id, execution_id)
        with self._lock:
            interpreter = self._interpreters.pop(key, None) or Interpreter(**self._sandbox_options)
            self._interpreters[key] = interpreter
            while len(self._interpreters) > _MAX_SESSIONS:
                self._interpreters.popitem(last=False)
            return interpreter

    def close(self) -> None:
        """Ends all sessions."""
        with self._lock:
            for interpreter in self._interpreters.values():
                interpreter.close()
            self._interpreters.clear()


def _contents(file: File) -> bytes:
    """Returns the contents of a file as bytes. The kit stores them as bytes, base64 or plain text."""
    content: str | bytes = file.content
    if isinstance(content, bytes):
        return content
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        return content.encode()


def _result(run: Run, given: dict[str, bytes]) -> CodeExecutionResult:
    names = [name for name in (*run.files_created, *run.files_modified) if name not in given or run.files[name] != given[name]]
    outputs = [
        File(name=name, content=run.files[name], mime_type=mimetypes.guess_type(name)[0] or "application/octet-stream")
        for name in sorted(set(names))
    ]
    # The kit treats any text on standard error as a failure.
    stderr = "" if run.ok else failure(run)
    return CodeExecutionResult(
        stdout=run.stdout, stderr=stderr, output_files=outputs, exit_code=run.outcome.exit_code
    )
