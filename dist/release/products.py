"""The products of a release, and their construction from the compiled parts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from . import archives, inventory, notices, sbom, tools
from .compiling import run
from .places import NOTICES, ROOT, TARGET, Release, ReleaseError

RUNTIMES = ("python-3.12", "javascript", "typescript")
"""The interpreters in the products, independent of the contents of the cache. With them, Python, JavaScript and
TypeScript run without a network."""
PROVIDERS = tuple(f"glovebox{language}{kind}" for language in ("", "-python", "-javascript") for kind in ("", "-closed"))

COMMAND_README = """\
# Glovebox {version}

`glovebox` runs untrusted Python and JavaScript inside WebAssembly. It needs Linux on {machine} with glibc {glibc} or later.

    ./glovebox --bundle interpreters.zip run -e 'print(sum(range(10)))'
    ./glovebox --bundle interpreters.zip run --language javascript -e 'console.log([1, 2, 3].map(x => x * x))'

`interpreters.zip` contains CPython 3.12, QuickJS-NG and the TypeScript stripper. With `--bundle FILE`, or the variable GLOVEBOX_BUNDLE, nothing
is downloaded. Without it `glovebox` runs Python on 3.15 with numpy and pandas, which it fetches with `pip` the first time.

`./glovebox --help` has the rest. `service` has what runs it as a server: a unit of systemd, a configuration to begin with, a file to build
a container from. LICENSE is Glovebox's licence. {notices} lists the licences of third-party code.
"""
PROVIDERS_README = """\
# Provider components of Glovebox {version}

Each `.wasm` is a WebAssembly component that contains interpreters and exports the sandbox interface in `wit/`. Those whose names
end in `-closed` have no imports; the others import tools and the WASI clocks.

LICENSE is Glovebox's licence. {notices} lists the licences of third-party code.
"""


def prepare(release: Release) -> None:
    """Makes the shared contents of several products: the interpreters, the bill of materials and the notices."""
    run([release.built / "glovebox", "runtimes", "bundle", release.bundle, *RUNTIMES])
    parts = inventory.everything(release.triple, release.bundle)
    release.notices.write_text(notices.notices(parts, release.version))
    bill(release).write_text(sbom.sbom(parts, release.version, release.epoch))


def bill(release: Release) -> Path:
    """Returns the path of the bill of materials before it becomes a product."""
    return release.work / release.sbom.name


def legal(release: Release) -> dict[str, Path | bytes]:
    """Returns the files in every archive."""
    return {"LICENSE": ROOT / "LICENSE", NOTICES: release.notices}


def make_wheel(release: Release) -> list[Path]:
    """Makes the Python package for this platform, with the tag that auditwheel finds, and the package for all other
    platforms."""
    script = ROOT / "bindings" / "python" / "wheel.py"
    module = release.built / "libglovebox_python.so"
    settings = os.environ | {"SOURCE_DATE_EPOCH": str(release.epoch)}

    def wheel(directory: Path, *more: str | Path) -> Path:
        # Cargo has already stripped release builds.
        stripped: list[str | Path] = [] if release.is_dev else ["--no-strip"]
        inside: list[str | Path] = [*stripped, "--bundle", release.bundle, "--notices", release.notices, "--sbom", bill(release)]
        return Path(run([sys.executable, script, directory, module, *inside, *more], settings).strip())

    for old in release.out.glob("glovebox_sandbox-*-abi3-*.whl"):
        old.unlink()
    # The pure wheel has no engine. It runs provider components on platforms that have no wheel of their own.
    pure = Path(run([sys.executable, script, release.out], settings).strip())
    return [wheel(release.out, "--tag", platform_tag(wheel(release.work))), pure]


def platform_tag(wheel: Path) -> str:
    """Returns the tag of the oldest Linux on which a wheel runs."""
    auditwheel = tools.tool("auditwheel")
    arguments: list[str | Path] = [sys.executable, "-m", "auditwheel", "show", "--json", wheel]
    done = subprocess.run(arguments, env=os.environ | {"PYTHONPATH": str(auditwheel)}, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"auditwheel cannot read {wheel.name}: {done.stderr.strip()}")
    shown = json.loads(done.stdout)
    tag: str = shown["overall_tag"]
    if not tag.startswith(("manylinux", "musllinux")) or shown["external_libs"]:
        raise ReleaseError(f"{wheel.name} runs on no Linux but this one, says auditwheel: {tag}, {shown['external_libs']}")
    return tag


def glibc(program: Path) -> str:
    """Returns the minimum version of the C library for a program."""
    tools.load("auditwheel")
    from elftools.elf.elffile import ELFFile

    with program.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu.version_r")
        names = [each.name for _, versions in section.iter_versions() for each in versions] if section else []
    numbers = [name.removeprefix("GLIBC_").split(".") for name in names if name.startswith("GLIBC_")]
    return ".".join(max(numbers, key=lambda number: [int(each) for each in number], default=["2", "0"]))


def make_command(release: Release) -> list[Path]:
    """Packs the command with its interpreters in an archive."""
    program = release.work / "glovebox"
    shutil.copy(release.built / "glovebox", program)
    if release.is_dev:
        # Release builds have already been stripped by Cargo.
        run(["strip", program])
    machine = release.triple.partition("-")[0]
    needed = glibc(program)
    readme = COMMAND_README.format(version=release.version, machine=machine, glibc=needed, notices=NOTICES)
    name = f"glovebox-{release.version}-{machine}-linux-glibc{needed}"
    files = legal(release) | {"glovebox": program, "interpreters.zip": release.bundle, "README.md": readme.encode()}
    files |= {f"service/{each.name}": each for each in (ROOT / "dist" / "service").iterdir()}
    for old in release.out.glob(f"glovebox-*-{machine}-linux-*.tar.gz"):
        old.unlink()
    return [archives.tar_gz(release.out / f"{name}.tar.gz", name, files, release.epoch, frozenset({"glovebox"}))]


def make_providers(release: Release) -> list[Path]:
    """Packs the provider components and their contract in an archive."""
    weaver = release.built / "glovebox"
    run([ROOT / "guest-shims" / "component" / "build", *PROVIDERS], os.environ | {"GLOVEBOX_WEAVER": str(weaver)})
    name = f"glovebox-{release.version}-providers"
    files = legal(release) | {"README.md": PROVIDERS_README.format(version=release.version, notices=NOTICES).encode()}
    files |= {f"{each}.wasm": TARGET / "providers" / f"{each}.wasm" for each in PROVIDERS}
    wit = ROOT / "wit"
    files |= {f"wit/{each.relative_to(wit)}": each for each in wit.rglob("*.wit") if "history" not in each.parts}
    return [archives.tar_gz(release.out / f"{name}.tar.gz", name, files, release.epoch)]


def make_npm(release: Release) -> list[Path]:
    """Makes the npm packages with bindings/js/build, from the providers in target/providers."""
    script = ROOT / "bindings" / "js" / "build"
    settings = os.environ | {
        "GLOVEBOX_BUILT": str(release.built),
        "GLOVEBOX_NOTICES": str(release.notices),
        "SOURCE_DATE_EPOCH": str(release.epoch),
    }
    printed = run([script, *(["--dev"] if release.is_dev else [])], settings).split()
    return [Path(shutil.copy(each, release.out)) for each in printed]


def make_sbom(release: Release) -> list[Path]:
    """Makes the bill of materials."""
    return [Path(shutil.copy(bill(release), release.sbom))]


PRODUCTS: dict[str, tuple[str, Callable[[Release], list[Path]]]] = {
    "wheel": ("the Python package, with engine, interpreters and command", make_wheel),
    "command": ("the command and its interpreters, as a .tar.gz", make_command),
    "providers": ("the provider components and the contract, as a .tar.gz", make_providers),
    "npm": ("the npm packages, as bindings/js/build makes them", make_npm),
    "sbom": ("the bill of materials of all, CycloneDX 1.6 in JSON", make_sbom),
}
