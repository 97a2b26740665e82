"""The checks before a release is built, which take seconds. Building a release and finding such a problem at its end
takes an hour."""

from __future__ import annotations

import datetime
import json
import platform
import re
import shutil
import subprocess
import tarfile
import tomllib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import archives, bundles, crates, inventory, libraries, provenance, statement
from .places import ROOT, SUMS, Release, ReleaseError

UNRELEASED = "No version has been released yet."
"""The sentence in docs/install.md, the only page that says so."""
INSTALL = Path("docs/install.md")
VERSION = r"\d+\.\d+\.\d+"
NAMED = re.compile(rf'\bglovebox(?:[-_:]| = ")(?P<version>{VERSION})')
"""Our version in the names of files, in the name of the container image, and in a manifest."""


@dataclass(frozen=True)
class Problem:
    """Something that prevents the release, and how to remove it."""

    check: str
    what: str
    remedy: str


Found = Iterator[tuple[str, str]]
"""Problems without the name of their check."""


def tag(release: Release) -> Found:
    """The commit has the version's tag."""
    name = f"v{release.version}"
    if name in statement.git("tag", "--points-at", "HEAD").split():
        return
    if statement.git("tag", "--list", name):
        at = statement.git("rev-list", "--max-count", "1", name)
        yield f"the tag `{name}` is at {at[:12]}, not at this commit", f"run `git checkout {name}`, or increase the version"
    else:
        yield f"this commit has no tag `{name}`", f"when no other problem is left, run `git tag {name}`"


def tree(_: Release) -> Found:
    """No files differ from the commit."""
    # Cargo also packs files that are not tracked.
    changed = [line[2:].strip() for line in statement.git("status", "--porcelain").splitlines()]
    if changed:
        names = ", ".join(f"`{each}`" for each in changed[:5]) + (", …" if len(changed) > 5 else "")
        yield f"{len(changed)} files differ from the commit: {names}", "commit them, or run `git stash --include-untracked`"


def versions(release: Release, root: Path = ROOT) -> Found:
    """All manifests, lock files and pages name one version."""
    found: list[tuple[str, str]] = []
    manifest = tomllib.loads((root / "Cargo.toml").read_text())
    for name, entry in manifest["workspace"]["dependencies"].items():
        if isinstance(entry, dict) and "path" in entry and "version" in entry:
            found.append((f"Cargo.toml, `{name}`", entry["version"].removeprefix("=")))
    lock = tomllib.loads((root / "Cargo.lock").read_text())
    found += [(f"Cargo.lock, `{each['name']}`", each["version"]) for each in lock["package"] if "source" not in each]
    python = root / "bindings" / "python"
    found.append(("bindings/python/pyproject.toml", tomllib.loads((python / "pyproject.toml").read_text())["project"]["version"]))
    module = "src/glovebox_sandbox/__init__.py"
    match = re.search(rf'^__version__ = "({VERSION})"$', (python / module).read_text(), re.MULTILINE)
    found.append((f"bindings/python/{module}", match[1] if match else "missing"))
    for directory in ("js", "web"):
        for name in ("package.json", "package-lock.json"):
            path = root / "bindings" / directory / name
            found.append((f"bindings/{directory}/{name}", json.loads(path.read_text())["version"]))
    for page in (INSTALL, INSTALL.with_name("embed.md")):
        found += [(str(page), each["version"]) for each in NAMED.finditer((root / page).read_text())]
    for where, version in dict.fromkeys(found):
        if version != release.version:
            yield f"{where} has the version `{version}`, but Cargo.toml has `{release.version}`", "set the same version everywhere"


def changelog(release: Release, root: Path = ROOT) -> Found:
    """The version's section in the changelog has a date."""
    heading = re.search(rf"^## {re.escape(release.version)} - (.*)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if heading is None:
        yield f"CHANGELOG.md has no section `## {release.version} - DATE`", "add the section, with the changes for users"
        return
    try:
        # `fromisoformat` also accepts `20260105` and `2026-W02-1`.
        is_date = datetime.date.fromisoformat(heading[1]).isoformat() == heading[1]
    except ValueError:
        is_date = False
    if not is_date:
        remedy = "replace it with the date of the release, as YYYY-MM-DD"
        yield f"the section {release.version} in CHANGELOG.md has the date `{heading[1]}`", remedy


def pages(_: Release, root: Path = ROOT) -> Found:
    """The pages do not say that nothing is released."""
    if UNRELEASED in (root / INSTALL).read_text():
        yield f"{INSTALL} says `{UNRELEASED}`", "delete the paragraph that contains this sentence"


def contract(_: Release, root: Path = ROOT) -> Found:
    """`wit/history` contains the contract, and no released copy has changed."""
    wit = root / "wit"
    declared = re.search(rf"^package glovebox:sandbox@({VERSION});$", (wit / "types.wit").read_text(), re.MULTILINE)
    if declared is None:
        yield "wit/types.wit declares no version of `glovebox:sandbox`", "add the line `package glovebox:sandbox@VERSION;`"
        return
    frozen = wit / "history" / declared[1]
    current = {each.name: each.read_bytes() for each in wit.glob("*.wit")}
    if current != {each.name: each.read_bytes() for each in frozen.glob("*.wit")}:
        place = f"wit/history/{declared[1]}"
        remedy = f"if {declared[1]} has no tag yet, run `rm -rf {place}; mkdir {place}; cp wit/*.wit {place}/`; otherwise increase its version"
        yield f"{place} differs from the contract in wit/", remedy
    for earlier in statement.git("tag", "--list", "v*", "--merged", "HEAD").split():
        for name in statement.git("diff", "--name-only", "--no-renames", "--diff-filter=DMT", earlier, "HEAD", "--", "wit/history").split():
            yield f"{name} has changed since {earlier}, which contains it", f"run `git checkout {earlier} -- {name}`"


def vulnerabilities(release: Release) -> Found:
    """The review of known vulnerabilities is recent."""
    reviewed, _ = provenance.read()
    if problem := provenance.review_problem(reviewed, datetime.datetime.fromtimestamp(release.epoch, datetime.UTC).date()):
        yield problem, f"follow docs/provenance.md, and set `reviewed` in {provenance.RECORD}"


def licences(release: Release) -> Found:
    """All licence texts that are known before the build exist."""
    for each in inventory.missing_licences(release.triple):
        yield each, "see dist/licences"


def published_crates(release: Release) -> Found:
    """The crates can be published, with all files that they include."""
    packages = crates.workspace()
    packed = crates.pack(crates.in_order(packages), packages, release.work / "crates")
    for each in crates.problems(packages, packed):
        yield each, "see dist/release/crates.py"


def machine(_: Release) -> Found:
    """This machine can build the release."""
    if missing := bundles.missing_features(platform.machine(), Path("/proc/cpuinfo").read_text()):
        yield f"the processor does not support {', '.join(sorted(missing))}", "build on a processor with x86-64-v3"
    for program, purpose in {"cargo": "the crates", "cc": "build scripts", "npm": "the npm packages", "dpkg-query": "the container image"}.items():
        if not shutil.which(program):
            yield f"`{program}` is not installed; it is needed for {purpose}", f"install `{program}`, or build on another machine"
    if (version := libraries.machine_glibc()) < libraries.MIN_GLIBC:
        remedy = f"build the container image on a machine with glibc {libraries.dotted(libraries.MIN_GLIBC)} or later"
        yield f"the C library is {libraries.dotted(version) or 'not glibc'}", remedy


def built_files(release: Release) -> Found:
    """Files of an earlier build, if they exist, are unchanged and belong to this commit."""
    if not (release.out / SUMS).is_file():
        return
    remedy = "run `dist/build` again"
    for each in archives.wrong_sums(release.out):
        yield each, remedy
    if not release.statement.is_file():
        yield f"`{release.out}` contains another version", remedy
        return
    stated = json.loads(release.statement.read_text())
    source = stated["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    commit, head = source["digest"]["gitCommit"], statement.git("rev-parse", "HEAD")
    if commit != head:
        yield f"`{release.out}` was built from {commit[:12]}, not from this commit", remedy
    elif source["annotations"]["modified"] or source["annotations"]["tag"] is None:
        yield f"`{release.out}` was built before the tag or with changed files, as its provenance statement says", remedy


def npm_packages(release: Release) -> Found:
    """The main npm package, if it is built, names only platforms whose packages are built too."""
    main = release.out / f"glovebox-sandbox-{release.version}.tgz"
    if not main.is_file():
        return
    with tarfile.open(main) as archive:
        file = archive.extractfile("package/package.json")
        needs = json.load(file).get("optionalDependencies", {}) if file else {}
    for name in needs:
        tarball = f"{name.removeprefix('@').replace('/', '-')}-{release.version}.tgz"
        if not (release.out / tarball).is_file():
            remedy = "build it on its platform, or remove the platform in bindings/js/package.mjs"
            yield f"the npm package names `{name}`, but `{tarball}` does not exist", remedy


CHECKS: dict[str, Callable[[Release], Found]] = {
    "tag": tag,
    "tree": tree,
    "versions": versions,
    "changelog": changelog,
    "pages": pages,
    "contract": contract,
    "vulnerabilities": vulnerabilities,
    "licences": licences,
    "crates": published_crates,
    "machine": machine,
    "built files": built_files,
    "npm packages": npm_packages,
}


def check(release: Release, name: str) -> list[Problem]:
    """Runs one check. A check that fails to run is a problem too, so that the others still run."""
    try:
        return [Problem(name, what, remedy) for what, remedy in CHECKS[name](release)]
    except (ReleaseError, OSError, KeyError, ValueError, EOFError, subprocess.SubprocessError, tarfile.TarError, zlib.error) as error:
        return [Problem(name, f"the check failed: {error}", "repair the file or tool that it names")]
