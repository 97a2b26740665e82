"""LangChain's standard tests for sandboxes, with the adapter for Deep Agents. The tests use the directory `/app`."""

from collections.abc import Iterator

import pytest
from glovebox_sandbox.integrations.deepagents import GloveboxBackend
from langchain_tests.integration_tests import SandboxIntegrationTests


class TestSandbox(SandboxIntegrationTests):  # type: ignore[misc]
    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[GloveboxBackend]:
        backend = GloveboxBackend()
        yield backend
        backend.close()

    @property
    def sandbox_root_dir(self) -> str:
        return "/app"
