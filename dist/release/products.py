"""The products of a release, and their construction from the compiled parts."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from . import archives, bundles, crates, debian, image, inventory, libraries, notices, sbom, tools
from .compiling import run
from .places import NOTICES, ROOT, TARGET, Release, ReleaseError

PROVIDERS = tuple(f"glovebox{language}{kind}" for language in ("", "-python", "-javascript") for kind in ("", "-closed"))

COMMAND_README = """\
# Glovebox {version}

`glovebox` runs untrusted Python and JavaScript inside WebAssembly. It needs Linux on {machine} with glibc {glibc} or later.

    export GLOVEBOX_BUNDLE=$PWD/interpreters.zip GLOVEBOX_PREPARED=$PWD/prepared.zip
    ./glovebox run -e 'print(sum(range(10)))'
    ./glovebox run --language javascript -e 'console.log([1, 2, 3].map(x => x * x))'

`interpreters.zip` contains CPython 3.15 with numpy, pandas and other libraries, QuickJS-NG, the TypeScript stripper and the Python packages.
With GLOVEBOX_BUNDLE, or `--bundle FILE`, Glovebox does not download them. `prepared.zip` contains their machine code and booted images. With
GLOVEBOX_PREPARED, or `--prepared FILE`, Glovebox does not compile. On x86-64, the prepared bundle needs a processor with AVX2
(x86-64-v3). On an older processor, Glovebox compiles each interpreter once.

`./glovebox --help` describes all commands. `service` contains files to run a server: a systemd unit, a configuration and a Containerfile.
LICENSE is Glovebox's licence. {notices} lists the licences of third-party code.
"""
PROVIDERS_README = """\
# Provider components of Glovebox {version}

Each `.wasm` is a WebAssembly component that contains interpreters and exports the sandbox interface in `wit/`. Components with
names that end in `-closed` import nothing; the other components import tools and the WASI clocks.

LICENSE is Glovebox's licence. {notices} lists the licences of third-party code.
"""


def prepare(release: Release, names: Iterable[str]) -> None:
    """Makes the shared contents of products: the interpreters, the bill of materials and the notices."""
    missing = bundles.missing_features(platform.machine(), Path("/proc/cpuinfo").read_text())
    if missing and not release.is_dev:
        features = ", ".join(sorted(missing))
        raise ReleaseError(f"prepared bundles must be built on a processor with x86-64-v3; this processor does not support {features}")
    wanted = set(names)
    has_command = not wanted.isdisjoint(("command", "debian", "image"))
    bundles.write(release.built / "glovebox", release.bundles, [each for each in bundles.PARTS if each != "command" or has_command])
    downloads = [release.bundles / part / "interpreters.zip" for part in ("engine", "python")]
    parts = inventory.everything(release.triple, downloads)
    if "image" in wanted:
        parts += libraries.parts(libraries.libraries(release.built / "glovebox"))
    release.notices.write_text(notices.notices(parts, release.version))
    bill(release).write_text(sbom.sbom(parts, release.version, release.epoch))


def bill(release: Release) -> Path:
    """Returns the path of the bill of materials before it becomes a product."""
    return release.work / release.sbom.name


def legal(release: Release) -> dict[str, Path | bytes]:
    """Returns the files that every archive contains."""
    return {"LICENSE": ROOT / "LICENSE", NOTICES: release.notices}


def make_wheel(release: Release) -> list[Path]:
    """Makes the Python packages: the engine for this platform with the tag that auditwheel finds, the interpreters, and
    the package for all other platforms."""
    script = ROOT / "bindings" / "python" / "wheel.py"
    module = release.built / "libglovebox_python.so"
    settings = os.environ | {"SOURCE_DATE_EPOCH": str(release.epoch)}

    def wheel(directory: Path, *arguments: str | Path) -> Path:
        return Path(run([sys.executable, script, directory, *arguments], settings).strip())

    for old in [*release.out.glob("glovebox_sandbox-*-abi3-*.whl"), *release.out.glob("glovebox_sandbox_data-*.whl")]:
        old.unlink()
    inside: list[str | Path] = ["--bundles", release.bundles, "--notices", release.notices, "--sbom", bill(release)]
    # Cargo has already stripped release builds.
    engine: list[str | Path] = [module, *inside, *([] if release.is_dev else ["--no-strip"])]
    tag = platform_tag(wheel(release.work, *engine))
    return [
        wheel(release.out, *engine, "--tag", tag),
        wheel(release.out, *inside, "--part", "python"),
        wheel(release.out, *inside, "--part", "data", "--tag", tag),
        # The pure wheel has no engine. It runs provider components on platforms without a compiled wheel.
        wheel(release.out),
    ]


def platform_tag(wheel: Path) -> str:
    """Returns the tag of the oldest Linux version on which a wheel runs."""
    auditwheel = tools.tool("auditwheel")
    arguments: list[str | Path] = [sys.executable, "-m", "auditwheel", "show", "--json", wheel]
    done = subprocess.run(arguments, env=os.environ | {"PYTHONPATH": str(auditwheel)}, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"auditwheel cannot read `{wheel.name}`: {done.stderr.strip()}")
    shown = json.loads(done.stdout)
    tag: str = shown["overall_tag"]
    if not tag.startswith(("manylinux", "musllinux")) or shown["external_libs"]:
        raise ReleaseError(f"auditwheel reports that `{wheel.name}` runs only on this Linux: {tag}, {shown['external_libs']}")
    return tag


def stripped_command(release: Release) -> Path:
    """Returns a copy of the command without symbols."""
    program = release.work / "glovebox"
    shutil.copy(release.built / "glovebox", program)
    if release.is_dev:
        # Cargo has already stripped release builds.
        run(["strip", program])
    return program


def make_command(release: Release) -> list[Path]:
    """Packs the command with its interpreters in an archive."""
    program = stripped_command(release)
    machine = release.triple.partition("-")[0]
    needed = libraries.glibc(program)
    readme = COMMAND_README.format(version=release.version, machine=machine, glibc=needed, notices=NOTICES)
    name = f"glovebox-{release.version}-{machine}-linux-glibc{needed}"
    files = legal(release) | {"glovebox": program, "README.md": readme.encode()}
    files |= {each.name: each for each in (release.bundles / "command").iterdir()}
    files |= {f"service/{each.name}": each for each in (ROOT / "dist" / "service").iterdir()}
    for old in release.out.glob(f"glovebox-*-{machine}-linux-*.tar.gz"):
        old.unlink()
    return [archives.tar_gz(release.out / f"{name}.tar.gz", name, files, release.epoch, frozenset({"glovebox"}))]


def make_debian(release: Release) -> list[Path]:
    """Packs the command, its interpreters and its service in a Debian package."""
    for old in release.out.glob(f"glovebox_*_{debian.machine(release)}.deb"):
        old.unlink()
    return [debian.package(release, stripped_command(release))]


def make_image(release: Release) -> list[Path]:
    """Packs the command, its interpreters and its libraries in a container image."""
    for old in release.out.glob(f"glovebox-*-{release.triple.partition('-')[0]}-oci.tar"):
        old.unlink()
    return [image.image(release, stripped_command(release))]


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
        "GLOVEBOX_BUNDLES": str(release.bundles),
        "GLOVEBOX_NOTICES": str(release.notices),
        "SOURCE_DATE_EPOCH": str(release.epoch),
    }
    printed = run([script, *(["--dev"] if release.is_dev else [])], settings).split()
    return [Path(shutil.copy(each, release.out)) for each in printed]


def make_sbom(release: Release) -> list[Path]:
    """Makes the bill of materials."""
    return [Path(shutil.copy(bill(release), release.sbom))]


def section(changelog: str, version: str) -> str:
    """Returns the section of a version in the changelog."""
    found = re.search(rf"^## {re.escape(version)} - .*?(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if not found:
        raise ReleaseError(f"CHANGELOG.md has no section `## {version} - DATE`; add it")
    return found[0].rstrip() + "\n"


def make_changes(release: Release) -> list[Path]:
    """Copies the changelog's section of this version, the text of the announcement."""
    release.changes.write_text(section((ROOT / "CHANGELOG.md").read_text(), release.version))
    return [release.changes]


def make_crates(release: Release) -> list[Path]:
    """Lists the published crates with their files, for comparison with the registry."""
    packages = crates.workspace()
    packed = crates.pack(crates.in_order(packages), packages, release.work / "crates")
    if wrong := crates.problems(packages, packed):
        raise ReleaseError("some crates cannot be published:\n" + "\n".join(wrong))
    release.crates.write_text(crates.listing(packed, release.version))
    return [release.crates]


PRODUCTS: dict[str, tuple[str, Callable[[Release], list[Path]]]] = {
    "wheel": ("the Python packages: engine with command, interpreters, data libraries", make_wheel),
    "command": ("the command and its interpreters, as a .tar.gz", make_command),
    "debian": ("the command, its interpreters and its service, as a Debian package", make_debian),
    "image": ("the command and its interpreters, as a container image in an OCI layout", make_image),
    "providers": ("the provider components and the contract, as a .tar.gz", make_providers),
    "npm": ("the npm packages, built by bindings/js/build", make_npm),
    "crates": ("the list of the published crates with their files and checksums", make_crates),
    "changes": ("the changelog's section of this version", make_changes),
    "sbom": ("the bill of materials of the whole release, as CycloneDX 1.6 in JSON", make_sbom),
}
