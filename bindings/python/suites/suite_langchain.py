"""LangChain's standard tests for tools, with the adapter's tool that runs code."""

from typing import Any

from glovebox_sandbox.integrations.langchain import run_code_tool
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests


class RunCode:
    @property
    def tool_constructor(self) -> BaseTool:
        return run_code_tool()

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"code": "6 * 7"}


class TestUnit(RunCode, ToolsUnitTests):  # type: ignore[misc]
    pass


class TestIntegration(RunCode, ToolsIntegrationTests):  # type: ignore[misc]
    pass
