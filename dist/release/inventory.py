"""The contents of a release: crates, interpreters and packages."""

from __future__ import annotations

import json
import os
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import bundles, provenance
from .compiling import run
from .places import ROOT, ReleaseError

LICENCES = ROOT / "dist" / "licences"
SHIPPED = ("glovebox-cli", "glovebox-python", "glovebox-node", "glovebox-component")
"""The crates of the programs and libraries in a release."""
WOVEN = ("python-3.12", "javascript")
"""The interpreters in the provider components, as in guest-shims/component/build."""
WASM = "wasm32-unknown-unknown"
"""The platform of the provider components."""
STANDARD = "Apache-2.0"
"""Licence texts of this family have no copyright line, so one crate's text can replace the missing text of another crate."""


@dataclass(frozen=True)
class Part:
    """Our own or a third-party part of a release or of its build."""

    kind: str
    """`crate`, `interpreter`, `library` (a part of interpreters), `tool`, `python`, `npm` or `system` (in the container image)."""
    name: str
    version: str
    licence: str
    """An SPDX expression."""
    purl: str
    sha256: str | None = None
    homepage: str | None = None
    origin: str | None = None
    is_ours: bool = False
    is_inside: bool = True
    """False for build scripts and their dependencies, and for interpreters that are downloaded when they are first used."""
    texts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """The purls of the direct dependencies."""


def licence_texts(names: Iterable[str]) -> list[str]:
    """Returns the paths of licence files, recognized by their names."""
    prefixes = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT")
    code = (".rs", ".py", ".pyc")
    return sorted(each for each in names if each.rpartition("/")[2].upper().startswith(prefixes) and not each.endswith(code))


def reachable(metadata: dict[str, Any]) -> dict[str, bool]:
    """Returns the packages that the shipped crates need, by identifier. The value is false for packages that are needed
    only by build scripts."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    names = {each["id"]: each["name"] for each in metadata["packages"]}
    inside: dict[str, bool] = {}
    todo = [(each, True) for each in metadata["workspace_members"] if names[each] in SHIPPED]
    while todo:
        package, is_inside = todo.pop()
        if inside.get(package, False) or (package in inside and not is_inside):
            continue
        inside[package] = is_inside
        for dependency in nodes[package]["deps"]:
            kinds = {each["kind"] for each in dependency["dep_kinds"]}
            if kinds & {None, "build"}:
                todo.append((dependency["pkg"], is_inside and None in kinds))
    return inside


def crates(targets: Iterable[str]) -> list[Part]:
    """Returns all shipped crates for these platforms, with the features of the workspace's build."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(each["name"], each["version"]): each.get("checksum") for each in lock["package"]}
    packages: dict[str, dict[str, Any]] = {}
    inside: dict[str, bool] = {}
    needs: dict[str, set[str]] = {}
    for target in targets:
        listed = json.loads(run(["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]))
        packages |= {each["id"]: each for each in listed["packages"]}
        for identifier, is_inside in reachable(listed).items():
            inside[identifier] = inside.get(identifier, False) or is_inside
        for node in listed["resolve"]["nodes"]:
            needs.setdefault(node["id"], set()).update(each["pkg"] for each in node["deps"])

    def purl(identifier: str) -> str:
        return f"pkg:cargo/{packages[identifier]['name']}@{packages[identifier]['version']}"

    found = []
    for identifier, is_inside in inside.items():
        package = packages[identifier]
        is_ours = package["source"] is None
        name, version = package["name"], package["version"]
        directory = Path(package["manifest_path"]).parent
        names = [] if is_ours else licence_texts(each.name for each in directory.iterdir() if each.is_file())
        if not package["license"]:
            raise ReleaseError(f"the manifest of the crate `{name}` {version} declares no licence")
        found.append(
            Part(
                "crate", name, version, package["license"].replace("/", " OR "), purl(identifier),
                sha256=checksums.get((name, version)), homepage=package["repository"], is_ours=is_ours, is_inside=is_inside,
                texts=tuple((directory / each).read_text(errors="replace") for each in names),
                needs=tuple(sorted({purl(each) for each in needs[identifier] if each in inside})),
            )
        )  # fmt: skip
    return with_standard_texts(found)


def with_standard_texts(found: list[Part]) -> list[Part]:
    """Gives each crate without a licence file the text of another crate with the same licence, or the text of its
    repository in dist/licences. Fails with all missing texts."""
    standard = {each.licence: each.texts for each in found if each.texts and each.licence.startswith(STANDARD)}
    done, missing = [], []
    for part in found:
        if not (part.texts or part.is_ours or not part.is_inside):
            repository = (part.homepage or part.name).removesuffix(".git").rpartition("/")[2]
            try:
                part = replace(part, texts=standard.get(part.licence) or (text_of(repository),))
            except ReleaseError as error:
                missing.append(str(error))
        done.append(part)
    if missing:
        raise ReleaseError("\n".join(dict.fromkeys(missing)))
    return done


def text_of(name: str) -> str:
    """Returns a licence text from dist/licences, for packages that are published without a licence text."""
    path = LICENCES / f"{name}.txt"
    if not path.is_file():
        raise ReleaseError(f"the licence text of `{name}` is missing; add it as {path.relative_to(ROOT)}")
    return path.read_text()


def bundled(bundle: Path) -> list[Part]:
    """Returns the interpreters, tools and Python packages of a bundle, as listed in the manifests. Fails if a part is not
    listed."""
    manifest = tomllib.loads((ROOT / "runtimes" / "manifest.toml").read_text())
    listed = tomllib.loads((ROOT / "runtimes" / "packages.toml").read_text())
    wheels = {each["file"]: each for each in listed["package"]}
    binaries = {each["sha256"][:16]: ("interpreter", each) for each in manifest["runtime"]}
    binaries |= {each["sha256"][:16]: ("tool", each) for each in manifest["tool"]}
    libraries = {each["library"]["sha256"][:16] for each in manifest["runtime"] if "library" in each}
    found = []
    with zipfile.ZipFile(bundle) as archive:
        for name in sorted(archive.namelist()):
            digest = name.rpartition(".")[0][-16:]
            if name in wheels:
                entry = wheels[name]
                with archive.open(name) as file, zipfile.ZipFile(file) as wheel:
                    texts = [wheel.read(each).decode(errors="replace") for each in licence_texts(wheel.namelist())]
                purl = f"pkg:pypi/{entry['name'].lower().replace('_', '-')}@{entry['version']}"
                found.append(
                    Part(
                        "python", entry["name"], entry["version"], entry["licence"], purl,
                        sha256=entry["sha256"], origin=f"the wheel {name}", texts=tuple(texts or [text_of(entry["name"])]),
                    )
                )  # fmt: skip
            elif digest in binaries:
                kind, entry = binaries[digest]
                found.append(binary(kind, entry))
            elif digest not in libraries:  # a library is a part of its interpreter
                raise ReleaseError(f"`{bundle}` contains `{name}`, which neither runtimes/manifest.toml nor runtimes/packages.toml lists")
    return found


def binary(kind: str, entry: dict[str, Any], is_inside: bool = True) -> Part:
    """Returns the part for an interpreter or a tool of the manifest, with its licence texts if it is shipped."""
    source = entry["sources"][0]
    origin = f"{entry.get('origin', entry['name'])}; `{source['file']}` of {source['package']} {source['version']} ({source['kind']})"
    parts = [each.strip("() ") for each in entry["licence"].split(" AND ")]
    own = [] if entry["licence"] == STANDARD or not is_inside else [publisher_text(entry) or text_of(entry["name"])]
    return Part(
        kind, entry["name"], entry["version"], entry["licence"], f"pkg:generic/{entry['name']}@{entry['version']}",
        sha256=entry["sha256"], homepage=entry["homepage"], origin=origin, is_inside=is_inside,
        texts=(*own, *([(ROOT / "LICENSE").read_text()] if STANDARD in parts else [])),
    )  # fmt: skip


def publisher_text(entry: dict[str, Any]) -> str | None:
    """Returns the licence texts in the published wheel of an interpreter, if the provenance records them."""
    try:
        return provenance.licence_text(entry, provenance.download_wheel)
    except provenance.Unavailable as reason:
        raise ReleaseError(f"the licence texts of `{entry['name']}` are missing: {reason}") from reason


def woven() -> list[Part]:
    """Returns the interpreters in the provider components."""
    manifest = tomllib.loads((ROOT / "runtimes" / "manifest.toml").read_text())
    return [binary("interpreter", each) for each in manifest["runtime"] if each["name"] in WOVEN]


def with_runtime_parts(found: list[Part]) -> list[Part]:
    """Adds the interpreters that are not in the release, and the parts of all interpreters. A Python package that is also
    bundled as a wheel is listed once."""
    manifest = tomllib.loads((ROOT / "runtimes" / "manifest.toml").read_text())
    listed = {part.purl: part for part in found}
    users: dict[str, list[str]] = {}
    for recorded in provenance.read()[1]:
        entry = next(each for each in manifest["runtime"] if each["name"] == recorded.runtime)
        own = binary("interpreter", entry, is_inside=False)
        own = replace(listed.get(own.purl, own), needs=tuple(each.purl for each in recorded.parts))
        listed[own.purl] = own
        for each in recorded.parts:
            is_new = each.purl not in listed or each.purl in users
            users.setdefault(each.purl, []).append(recorded.runtime)
            if is_new:
                is_inside = own.is_inside or each.purl in listed and listed[each.purl].is_inside
                origin = f"part of {', '.join(users[each.purl])}"
                listed[each.purl] = Part("library", each.name, each.version, "NOASSERTION", each.purl, origin=origin, is_inside=is_inside)
    return list(listed.values())


def npm(lock: Path, licences: Path | None = None) -> list[Part]:
    """Returns the packages in an npm lock file. `licences` is a file that lists the packages in the bundle. All other
    packages are used only to build the bundle."""
    if not lock.is_file():
        return []
    text = licences.read_text() if licences else ""
    found = []
    for path, entry in sorted(json.loads(lock.read_text())["packages"].items()):
        name = path.rpartition("node_modules/")[2]
        # Skip optional packages for other platforms. They are not shipped, and would make up most of the list.
        if name and not entry.get("optional") and not entry.get("link"):
            purl = f"pkg:npm/{quote(name, safe='/')}@{entry['version']}"
            licence = entry.get("license", "NOASSERTION")
            is_inside = f"\n{name} {entry['version']} (" in text
            if not (is_inside or licences or entry.get("dev")):
                raise ReleaseError(f"`{os.fspath(lock)}` bundles the npm package `{name}`, but the notices do not contain its licence text; add it")
            found.append(Part("npm", name, entry["version"], licence, purl, is_inside=is_inside, texts=(text,) if is_inside else ()))
    return found


def npm_parts() -> Iterator[Callable[[], list[Part]]]:
    """Returns a function for each npm lock file, which reads the packages in it."""
    files = {
        ROOT / "bindings" / "js": None,
        ROOT / "bindings" / "web": ROOT / "host" / "server" / "assets" / "page" / "licences.txt",
        ROOT / "vendor_js" / "intl" / "source": ROOT / "vendor_js" / "intl" / "licences.txt",
    }
    for directory, texts in files.items():
        yield partial(npm, directory / "package-lock.json", texts)


def missing_licences(triple: str) -> list[str]:
    """Returns a line for each missing licence text of crates, npm packages and interpreters. The texts in interpreters'
    wheels and in Python packages are only known when the release is built."""
    shipped = {word for several in bundles.PARTS.values() for each in several if "--compiled" not in each for word in each.split()} | {*WOVEN}
    recorded = {each.runtime for each in provenance.read()[1] if each.licences}
    manifest = tomllib.loads((ROOT / "runtimes" / "manifest.toml").read_text())
    binaries = [each for each in (*manifest["runtime"], *manifest["tool"]) if each["name"] in shipped - recorded]
    own = [each["name"] for each in binaries if each["licence"] != STANDARD]
    steps: list[Callable[[], object]] = [partial(crates, (triple, WASM)), *npm_parts(), *(partial(text_of, each) for each in own)]
    found: list[str] = []
    for step in steps:
        try:
            step()
        except ReleaseError as error:
            found += str(error).splitlines()
    return found


def everything(triple: str, downloads: Iterable[Path]) -> list[Part]:
    """Returns all parts of a release, sorted. Prepared bundles need no parts of their own, because they contain code and
    memory of the interpreters in the bundles of downloads."""
    # List a tool that builds several npm packages only once.
    tools = {part.purl: part for read in npm_parts() for part in read()}
    found = [*crates((triple, WASM)), *with_runtime_parts([*woven(), *(each for bundle in downloads for each in bundled(bundle))]), *tools.values()]
    return sorted(found, key=lambda part: (part.kind, part.name, part.version))
