"""The OpenAI Agents SDK's tests for local sandboxes, with the adapter. Omits tests that depend on local processes."""

from glovebox_sandbox.integrations.openai_sandbox import GloveboxSandboxClient
from tests.sandbox import test_run_cwd

test_run_cwd.UnixLocalSandboxClient = GloveboxSandboxClient

from tests.sandbox.test_run_cwd import *  # noqa: E402, F403
