"""`dist/build --dry-run`: everything that prevents a release, and what would be published."""

from __future__ import annotations

import dataclasses
import json
import textwrap

from . import crates, readiness, statement, uploads
from .places import Release
from .readiness import Problem
from .uploads import Upload


def report(release: Release, commit: str, found: list[Problem], planned: list[Upload], commands: list[str]) -> str:
    """Returns the report for people."""
    lines = [f"Glovebox {release.version}, commit {commit[:12]}", ""]
    for name, check in readiness.CHECKS.items():
        problems = [each for each in found if each.check == name]
        if not problems:
            lines.append(f"ok       {name}: {(check.__doc__ or '').strip()}")
        for each in problems:
            lines += [f"PROBLEM  {name}: {each.what}", textwrap.indent(each.remedy, "         ")]
    registry = None
    for upload in planned:
        if upload.registry != registry:
            registry = upload.registry
            lines += ["", f"For the {registry}:" if registry == "release page" else f"For the registry of {registry}:"]
        about = upload.described()
        size = f"{int(about['size_bytes'] or 0) / 1e6:9.2f} MB  {about['sha256']}" if upload.path else "   not built"
        lines.append(f"{size}  {upload.name}")
    lines += ["", "To publish the release:", *(f"  {each}" for each in commands), ""]
    count = len(found)
    lines.append(f"{count} problem{'' if count == 1 else 's'} left" if found else "ready: no problem found")
    return "\n".join(lines)


def dry_run(release: Release, as_json: bool) -> int:
    """Checks the release, prints the report, and returns the exit code. Builds and publishes nothing."""
    found = [problem for name in readiness.CHECKS for problem in readiness.check(release, name)]
    names = crates.in_order(crates.workspace())
    commit = statement.git("rev-parse", "HEAD")
    planned = uploads.uploads(release, names)
    commands = uploads.commands(release, names, has_tag=all(each.check != "tag" for each in found))
    if as_json:
        described = {
            "version": release.version,
            "commit": commit,
            "ready": not found,
            "problems": [dataclasses.asdict(each) for each in found],
            "uploads": [each.described() for each in planned],
            "commands": commands,
        }
        print(json.dumps(described, indent=1))
    else:
        print(report(release, commit, found, planned, commands))
    return 1 if found else 0
