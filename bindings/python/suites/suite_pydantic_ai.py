"""Pydantic AI's conformance tests for workspaces, with the adapter."""

from collections.abc import Callable, Iterator

import pytest
from glovebox_sandbox.integrations.pydantic_ai import GloveboxWorkspace
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite


class TestWorkspace(WorkspaceBackendSuite):  # type: ignore[misc]
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    def backend(self) -> GloveboxWorkspace:
        return GloveboxWorkspace()

    @pytest.fixture
    def fresh_backend(self) -> Callable[[], GloveboxWorkspace]:
        return GloveboxWorkspace
