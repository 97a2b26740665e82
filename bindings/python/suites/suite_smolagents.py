"""smolagents' tests for executors, with the adapter as the executor."""

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from glovebox_sandbox.integrations.smolagents import GloveboxExecutor

# The archive contains `tests/test_*.py`, but not the helper module that they import.
helpers = types.ModuleType("tests.utils")
helpers.markers = types.ModuleType("tests.utils.markers")  # type: ignore[attr-defined]
helpers.markers.require_run_all = pytest.mark.skip(reason="needs a service")
sys.modules.update({"tests.utils": helpers, "tests.utils.markers": helpers.markers})

from tests import test_local_python_executor, test_remote_executors  # noqa: E402


def executor(additional_authorized_imports: list[str], **options: Any) -> GloveboxExecutor:
    return GloveboxExecutor()


test_local_python_executor.LocalPythonExecutor = executor


class TestLocalPythonExecutor(test_local_python_executor.TestLocalPythonExecutor):  # type: ignore[misc]
    pass


class TestRemoteExecutor(test_remote_executors.CommonDockerExecutorIntegration):  # type: ignore[misc]
    @pytest.fixture
    def custom_executor(self) -> Iterator[GloveboxExecutor]:
        executor = GloveboxExecutor()
        yield executor
        executor.cleanup()
