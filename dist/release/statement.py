"""The provenance statement of a release, which names the commit, the compiler, the pinned tools and the files. It is an
unsigned in-toto statement with SLSA's provenance 1.0."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import archives, tools
from .places import ROOT, SUMS, Release

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD = "urn:glovebox:dist-build:1"


def git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


def source(version: str) -> dict[str, Any]:
    """Returns the commit, its tag if that is the version's tag, and whether the checkout has changed files."""
    commit = git("rev-parse", "HEAD")
    tag = f"v{version}"
    return {
        "name": "source",
        "digest": {"gitCommit": commit},
        "annotations": {
            "tag": tag if tag in git("tag", "--points-at", commit).split() else None,
            "modified": bool(git("status", "--porcelain", "--untracked-files=no")),
        },
    }


def subjects(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Returns the names and digests of files."""
    return [{"name": each.name, "digest": {"sha256": archives.sha256(each)}} for each in sorted(files)]


def products(release: Release) -> list[Path]:
    """Returns all files of a release except the statement and the checksums."""
    return [each for each in release.out.iterdir() if each.is_file() and each.name not in (SUMS, release.statement.name)]


def statement(release: Release, compiler: str) -> dict[str, Any]:
    """Returns the statement about all files of a release."""
    pins = [pin for name, several in sorted(tools.pins()["tools"].items()) for pin in several if name != "uv"]
    packages = [f"pkg:pypi/{pin.partition('[')[0].partition('==')[0]}@{pin.partition('==')[2]}" for pin in pins]
    return {
        "_type": TYPE,
        "subject": subjects(products(release)),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD,
                "externalParameters": {"command": ["dist/build", *(["--dev"] if release.is_dev else [])], "epoch": release.epoch},
                "internalParameters": {"compiler": compiler, "target": release.triple},
                "resolvedDependencies": [source(release.version), *({"uri": each} for each in packages)],
            },
            "runDetails": {"builder": {"id": BUILD}},
        },
    }


def write(release: Release) -> Path:
    """Writes the statement. Call this after all other files except the checksums are written."""
    compiler = subprocess.check_output(["rustc", "--version"], cwd=ROOT, text=True).strip()
    release.statement.write_text(json.dumps(statement(release, compiler), indent=1) + "\n")
    return release.statement


def differences(stated: dict[str, Any], files: Iterable[Path]) -> list[str]:
    """Compares the subjects of a statement with files, and returns a line for each difference."""
    listed = {each["name"]: each["digest"]["sha256"] for each in stated["subject"]}
    found = {each["name"]: each["digest"]["sha256"] for each in subjects(files)}
    return [f"{name}: differs from the provenance statement" for name in sorted(listed.keys() | found.keys()) if listed.get(name) != found.get(name)]
