"""The published crates: their order, their packed files, and the reasons why the other crates are not published."""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import archives
from .places import ROOT, ReleaseError

PUBLIC = ("glovebox", "glovebox-component-host", "glovebox-guest", "glovebox-network", "glovebox-object-stores", "glovebox-sessions")
"""The crates for users. The other published crates exist only because these need them."""
PRIVATE = {
    "glovebox-bench": "measures this checkout",
    "glovebox-cli": "the packages of the command also contain prepared interpreters",
    "glovebox-component": "part of the provider components, which are woven after they are compiled",
    "glovebox-component-runner": "used only by the command",
    "glovebox-fleet": "used only by the command",
    "glovebox-http": "part of components, which are composed after they are compiled",
    "glovebox-node": "part of the npm packages",
    "glovebox-python": "part of the Python packages",
    "glovebox-requests": "used only by the command",
    "glovebox-server": "used only by the command",
    "glovebox-tests": "tests this checkout",
}
"""The reasons why crates are not published."""
MAX_BYTES = 10 << 20
"""The maximum size of a packed crate. Crate registries refuse larger uploads."""

DOCTESTS = re.compile(r"^#\[cfg\(doctest\)\]\nmod \w+ \{$.*?^\}$", re.MULTILINE | re.DOTALL)
INCLUDED = re.compile(r'\binclude(?:_str|_bytes)?!\(\s*(concat!\()?\s*"([^"]+)"|#\[path = "([^"]+)"\]')
BINDINGS = re.compile(r'\b(?:bindgen|generate)!\(\{\s*path:\s*("[^"]+"|\[[^\]]+\])')


@dataclass(frozen=True)
class Packed:
    """A crate as the registry receives it."""

    name: str
    version: str
    description: str
    path: Path
    files: tuple[str, ...]


def workspace() -> dict[str, dict[str, Any]]:
    """Returns the crates of the workspace from `cargo metadata`, by name."""
    arguments = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"`{' '.join(arguments)}` failed: {done.stderr.strip()}")
    return {each["name"]: each for each in json.loads(done.stdout)["packages"]}


def in_order(packages: Mapping[str, dict[str, Any]]) -> list[str]:
    """Returns the names of the published crates. Each crate follows the crates that it needs."""
    found: list[str] = []

    def add(name: str) -> None:
        for each in packages[name]["dependencies"]:
            if each["name"] in packages and each["kind"] != "dev":
                add(each["name"])
        if name not in found:
            found.append(name)

    for name in sorted(packages):
        if packages[name]["publish"] is None:
            add(name)
    return [each for each in found if packages[each]["publish"] is None]


def pack(names: Iterable[str], packages: Mapping[str, dict[str, Any]], directory: Path) -> list[Packed]:
    """Packs crates without compiling them. `cargo publish` also compiles each of them before it uploads the crate."""
    several = [argument for name in names for argument in ("--package", name)]
    arguments = ["cargo", "package", "--quiet", "--no-verify", "--allow-dirty", "--locked", "--offline", "--target-dir", str(directory)]
    done = subprocess.run([*arguments, *several], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"`cargo package` failed: {done.stderr.strip()}")
    found = []
    for name in names:
        version = packages[name]["version"]
        path = directory / "package" / f"{name}-{version}.crate"
        with tarfile.open(path) as archive:
            files = sorted(each.name.partition("/")[2] for each in archive)
        found.append(Packed(name, version, packages[name]["description"] or "", path, tuple(files)))
    return found


def manifest_problems(package: Mapping[str, Any], packages: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Returns what the manifest of a published crate lacks."""
    for key in ("description", "license"):
        if not package[key]:
            yield f"the manifest has no `{key}`"
    if package["name"] in PUBLIC and not package["readme"]:
        yield "the manifest has no `readme`, although the crate is for users"
    for each in package["dependencies"]:
        other = packages.get(each["name"])
        # Cargo removes development dependencies without a version from the packed manifest.
        if other is None or each["kind"] == "dev" and each["req"] == "*":
            continue
        if other["publish"] is not None:
            yield f"it needs `{each['name']}`, which is not published"
        if each["req"] != f"={other['version']}":
            yield f"it needs `{each['name']}` {each['req']}; require `={other['version']}` in Cargo.toml, because these crates change together"


def outside(files: Mapping[str, str], packed: Iterable[str]) -> Iterator[str]:
    """Returns the paths in Rust sources that are not packed. `files` contains the sources of the library and of its build
    script."""
    names = set(packed)

    def is_directory(path: str) -> bool:
        return any(each.startswith(f"{path.rstrip('/')}/") for each in names)

    for name, text in sorted(files.items()):
        code = DOCTESTS.sub("", text)
        for found in INCLUDED.finditer(code):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), found[2] or found[3]))
            # The end of a `concat!` is only known to the compiler.
            if not (is_directory(path) if found[1] else path in names):
                yield f"`{name}` includes `{found[2] or found[3]}`, which is not packed"
        for found in BINDINGS.finditer(code):
            for path in re.findall(r'"([^"]+)"', found[1]):
                if not is_directory(posixpath.normpath(path)):
                    yield f"`{name}` generates bindings from `{path}`, which is not packed"


def content_problems(crate: Packed) -> Iterator[str]:
    """Returns what a packed crate lacks."""
    if "LICENSE" not in crate.files:
        yield "it contains no LICENSE; link the file from the root of the checkout"
    size = crate.path.stat().st_size
    if size > MAX_BYTES:
        yield f"it has {size / 1e6:.1f} MB; registries accept {MAX_BYTES / 1e6:.1f} MB"
    with tarfile.open(crate.path) as archive:
        sources = {}
        for each in archive:
            name = each.name.partition("/")[2]
            if not each.isfile():
                yield f"`{name}` is not a regular file"
            elif name == "build.rs" or name.startswith("src/") and name.endswith(".rs"):
                data = archive.extractfile(each)
                sources[name] = data.read().decode() if data else ""
    yield from outside(sources, crate.files)


def problems(packages: Mapping[str, dict[str, Any]], packed: Iterable[Packed]) -> list[str]:
    """Returns a line for each reason why a crate cannot be published, or why the tables of this module are wrong."""
    found = []
    for crate in packed:
        several = [*manifest_problems(packages[crate.name], packages), *content_problems(crate)]
        found += [f"{crate.name}: {each}" for each in several]
    unpublished = {name for name, each in packages.items() if each["publish"] is not None}
    found += [f"{name}: is not published, and PRIVATE in dist/release/crates.py gives no reason" for name in sorted(unpublished - PRIVATE.keys())]
    found += [f"{name}: is published, missing or renamed; remove it from PRIVATE in dist/release/crates.py" for name in sorted(PRIVATE.keys() - unpublished)]
    found += [f"{name}: is in PUBLIC in dist/release/crates.py, but not published" for name in PUBLIC if name in unpublished or name not in packages]
    return found


def listing(packed: Iterable[Packed], version: str) -> str:
    """Returns the list of the published crates with their files, and of the other crates."""
    lines = [f"Crates of Glovebox {version}, in the order of publication", ""]
    for crate in packed:
        lines += [f"{crate.name} {crate.version}: {crate.description}"]
        lines += [f"  {crate.path.stat().st_size} bytes, SHA-256 {archives.sha256(crate.path)}", *(f"  {each}" for each in crate.files), ""]
    lines += ["Not published", "", *(f"{name}: {reason}" for name, reason in sorted(PRIVATE.items()))]
    return "\n".join(lines) + "\n"
