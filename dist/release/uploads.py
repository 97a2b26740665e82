"""The files of a release by registry, and the commands that publish them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from . import archives
from .debian import machine
from .places import ROOT, SUMS, Release


@dataclass(frozen=True)
class Upload:
    """A file for one registry. Files that are not built have a pattern as their name."""

    registry: str
    name: str
    path: Path | None = None

    def described(self) -> dict[str, str | int | None]:
        """Returns the upload as JSON."""
        size, digest = (self.path.stat().st_size, archives.sha256(self.path)) if self.path else (None, None)
        return {"registry": self.registry, "name": self.name, "size_bytes": size, "sha256": digest}


def patterns(release: Release) -> dict[str, list[str]]:
    """Returns the patterns of the files for each registry. npm packages follow the packages that they need."""
    version, processor = release.version, release.triple.partition("-")[0]
    image = f"glovebox-{version}-{processor}-oci.tar"
    return {
        "Python packages": [
            f"glovebox_sandbox_python-{version}-py3-none-any.whl",
            f"glovebox_sandbox-{version}-cp310-abi3-*.whl",
            f"glovebox_sandbox-{version}-py3-none-any.whl",
            f"glovebox_sandbox_data-{version}-py3-none-*.whl",
        ],
        "npm packages": [
            f"glovebox-sandbox-python-{version}.tgz",
            f"glovebox-sandbox-linux-*-{version}.tgz",
            f"glovebox-sandbox-data-*-{version}.tgz",
            f"glovebox-sandbox-{version}.tgz",
        ],
        "container images": [image],
        "release page": [
            f"glovebox-{version}-{processor}-linux-*.tar.gz",
            f"glovebox_{version}-1_{machine(release)}.deb",
            image,
            f"glovebox-{version}-providers.tar.gz",
            release.crates.name,
            release.changes.name,
            release.sbom.name,
            release.statement.name,
            SUMS,
        ],
    }


def listed(release: Release, registry: str, pattern: str) -> list[Upload]:
    """Returns the uploads of the built files that match a pattern, or an upload without a file."""
    built = sorted(release.out.glob(pattern))
    return [Upload(registry, each.name, each) for each in built] or [Upload(registry, pattern)]


def uploads(release: Release, crates: list[str]) -> list[Upload]:
    """Returns all uploads in order. Cargo packs the crates again when it publishes them."""
    found = [each for registry, names in patterns(release).items() for pattern in names for each in listed(release, registry, pattern)]
    packed = release.work / "crates" / "package"
    files = [packed / f"{name}-{release.version}.crate" for name in crates]
    return found + [Upload("crates", each.name, each if each.is_file() else None) for each in files]


def commands(release: Release, crates: list[str], has_tag: bool) -> list[str]:
    """Returns the commands that a maintainer runs, in order. Words in capitals are placeholders."""
    out = Path(*release.out.relative_to(ROOT).parts) if release.out.is_relative_to(ROOT) else release.out
    names = patterns(release)

    def path(name: str) -> str:
        # The shell expands the patterns.
        return f"{shlex.quote(str(out))}/{name}"

    image = f"glovebox:{release.version}"
    npm = [each.name for pattern in names["npm packages"] for each in listed(release, "npm packages", pattern)]
    return [
        *([] if has_tag else [f"git tag v{release.version}"]),
        "dist/build --check-reproducible",
        "dist/check --with-uv",
        f"git push REMOTE v{release.version}",
        f"uv publish {' '.join(map(path, names['Python packages']))}",
        *(f"npm publish --access public {path(each)}" for each in npm),
        f"cargo publish --locked {' '.join(f'--package {each}' for each in crates)}",
        f"podman load --input {path(names['container images'][0])} && podman push {image} REGISTRY/{image}",
    ]
