"""Compiles the command and the native modules together."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from . import tools
from .places import ROOT, Release, ReleaseError


def command(release: Release) -> list[str | Path]:
    """Returns the command that compiles the whole workspace. If crates were compiled separately, their different features
    would cause another build of Wasmtime."""
    if release.is_dev:
        return ["cargo", "build", "--workspace", "--locked", "--quiet"]
    target = f"{release.triple}.{tools.pins()['linux']['glibc']}"
    return ["cargo-zigbuild", "zigbuild", "--release", "--workspace", "--locked", "--target", target]


def environment(release: Release) -> dict[str, str]:
    """Returns the environment for the compilation. The code of a release does not contain paths of this machine."""
    settings = dict(os.environ)
    if release.is_dev:
        return settings
    zig = tools.tool("zigbuild")
    home = settings.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
    sysroot = subprocess.check_output(["rustc", "--print", "sysroot"], text=True, cwd=ROOT).strip()
    moved = {str(ROOT): "/glovebox", home: "/cargo", sysroot: "/rust"}
    settings |= {
        "PATH": f"{zig / 'bin'}:{settings['PATH']}",
        "PYTHONPATH": str(zig),
        "RUSTFLAGS": " ".join(f"--remap-path-prefix={path}={name}" for path, name in moved.items()),
        "CFLAGS": " ".join(f"-ffile-prefix-map={path}={name}" for path, name in list(moved.items())[:2]),
        # Disable incremental compilation, because a second build could produce different code.
        "CARGO_INCREMENTAL": "0",
    }
    return settings


def compile_all(release: Release) -> None:
    """Compiles the workspace. Later builds reuse the results. The first build takes about 20 minutes on two cores, because
    Wasmtime is large."""
    run(command(release), environment(release))
    for name in ("glovebox", "libglovebox_python.so"):
        if not (release.built / name).is_file():
            raise ReleaseError(f"`{' '.join(map(str, command(release)))}` did not create `{release.built / name}`")


def run(arguments: list[str | Path], settings: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Runs a program, shows its standard error, and returns its standard output."""
    done = subprocess.run(arguments, env=settings, cwd=cwd, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise ReleaseError(f"`{' '.join(map(str, arguments))}` failed with exit code {done.returncode}")
    return done.stdout
