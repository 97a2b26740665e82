"""The tests of Strands for sandboxes, with the adapter as the sandbox."""

from glovebox_sandbox.integrations.strands import GloveboxSandbox
from tests.strands.sandbox import test_posix_shell

# The module's fixture creates this class, and its tests use no other sandbox.
test_posix_shell._ShellTestSandbox = lambda working_dir: GloveboxSandbox()

from tests.strands.sandbox.test_posix_shell import *  # noqa: E402, F403
from tests.strands.sandbox.test_posix_shell import sandbox  # noqa: E402, F401
