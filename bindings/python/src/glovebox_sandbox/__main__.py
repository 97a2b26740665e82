"""The `glovebox` command."""

from __future__ import annotations

import os
import sys
import sysconfig

from . import _native_backend


def main() -> int:
    """Runs the `glovebox` command with the interpreters from the installed packages."""
    if not _native_backend.is_here():
        print("glovebox: the command requires a native module; this package has none for this platform", file=sys.stderr)
        return 125
    from ._native import command

    for variable, files in (("GLOVEBOX_BUNDLE", _native_backend.bundles()), ("GLOVEBOX_PREPARED", _native_backend.prepared())):
        if files:
            os.environ[variable] = os.pathsep.join(files)
    program = os.path.abspath(sys.argv[0])
    if not os.access(program, os.X_OK):
        # `python -m glovebox_sandbox` has no executable, so `program` becomes the installed script.
        program = os.path.join(sysconfig.get_path("scripts"), "glovebox")
    command(["glovebox", *sys.argv[1:]], program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
