"""The tests of the OpenAI Agents SDK for local sandboxes that do not depend on their processes, with the adapter."""

from glovebox_sandbox.integrations.openai_sandbox import GloveboxSandboxClient
from tests.sandbox import test_run_cwd

test_run_cwd.UnixLocalSandboxClient = GloveboxSandboxClient

from tests.sandbox.test_run_cwd import *  # noqa: E402, F403
