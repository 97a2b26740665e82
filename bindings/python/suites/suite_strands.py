"""Strands' tests for sandboxes that run commands in a shell or a container, with the adapter as the sandbox."""

import inspect
from typing import Any

import pytest
from glovebox_sandbox.integrations.strands import GloveboxSandbox
from tests.strands.sandbox import test_posix_shell
from tests_integ.sandbox import test_docker


def create(*arguments: Any, **options: Any) -> GloveboxSandbox:
    return GloveboxSandbox()


# The tests of the first module get their sandboxes from its fixture `sandbox`, and the tests of the second from its
# class `DockerSandbox`.
test_posix_shell._ShellTestSandbox = create
test_docker.DockerSandbox = create
sandbox = test_posix_shell.sandbox


@pytest.fixture
def container() -> str:
    return "glovebox"


# The other tests of these modules use no sandbox.
for module in (test_posix_shell, test_docker):
    for name, value in vars(module).items():
        if name.startswith("test_") and {"sandbox", "container"} & inspect.signature(value).parameters.keys():
            globals()[name] = value
