"""The container image of the command, as an OCI layout in a `.tar`. It has no base image. Three layers contain the
system's files, the interpreters and the command, so that a new version of the command does not change the other layers.

The archive also has the index that `docker load` of older versions expects.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import archives, libraries
from .archives import Entry, directory, file
from .places import NOTICES, ROOT, Release, ReleaseError

USER = 65532
"""The user ID, the same as in service/Containerfile."""
OPT = "opt/glovebox"
STATE = "/var/lib/glovebox"
CACHE = "/var/cache/glovebox"
ENVIRONMENT = {
    "PATH": f"/{OPT}",
    "GLOVEBOX_BUNDLE": f"/{OPT}/interpreters.zip",
    "GLOVEBOX_PREPARED": f"/{OPT}/prepared.zip",
    # The command creates this directory as its user. The owner and mode of a volume on the parent do not matter.
    "GLOVEBOX_CACHE_DIR": f"{CACHE}/code",
    "XDG_STATE_HOME": STATE,
    "XDG_DATA_HOME": STATE,
    "HOME": STATE,
}
ENTRYPOINT = [f"/{OPT}/glovebox"]
COMMAND = ["serve", "--listen", "0.0.0.0:8700", "--token-file", "/run/secrets/token"]
PLATFORMS = {"x86_64": "amd64", "aarch64": "arm64"}
"""The names of processors in container images."""
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nglovebox:x:{user}:{user}:Glovebox:{state}:/sbin/nologin\n",
    "etc/group": "root:x:0:\nglovebox:x:{user}:\n",
    # Without this file, the C library does not read /etc/hosts first.
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def architecture(machine: str) -> str:
    """Returns the name of a processor in images."""
    if machine not in PLATFORMS:
        raise ReleaseError(f"the name of the processor `{machine}` in images is unknown; add it to dist/release/image.py")
    return PLATFORMS[machine]


def system(needed: list[libraries.Library]) -> dict[str, Entry]:
    """Returns the directories and files that programs expect: libraries, certificate authorities, accounts and /tmp."""
    authorities, licence = libraries.certificates()
    found = {
        "tmp": directory(0o1777),
        CACHE[1:]: directory(0o700, USER),
        STATE[1:]: directory(0o700, USER),
        "run/secrets": directory(),
        "etc/ssl/certs/ca-certificates.crt": file(authorities),
        "usr/share/doc/certifi/LICENSE": file(licence),
        # Scanners for vulnerabilities find the distribution and the packages in these files.
        "etc/os-release": file(Path("/etc/os-release").resolve()),
    }
    found |= {name: file(text.format(user=USER, state=STATE).encode()) for name, text in ACCOUNTS.items()}
    found |= {str(path)[1:]: file(path) for path in libraries.TEXTS}
    for each in needed:
        found[each.path[1:]] = file(Path(os.path.realpath(each.path)), 0o755)
        found[f"usr/share/doc/{each.package}/copyright"] = file(each.copyright)
        found[f"var/lib/dpkg/status.d/{each.package}"] = file(libraries.status(each.package))
    return found


def layers(release: Release, program: Path) -> list[tuple[str, dict[str, Entry]]]:
    """Returns the layers, each as its description and its entries."""
    command = {
        f"{OPT}/glovebox": file(program, 0o755),
        f"{OPT}/LICENSE": file(ROOT / "LICENSE"),
        f"{OPT}/{NOTICES}": file(release.notices),
    }
    interpreters = {f"{OPT}/{each.name}": file(each) for each in sorted((release.bundles / "command").iterdir())}
    return [
        ("libraries, certificate authorities and accounts", system(libraries.libraries(program))),
        ("interpreters", interpreters),
        ("the command", command),
    ]


def digest_of_unpacked(layer: Path) -> str:
    """Returns the digest of a layer before its compression."""
    with gzip.open(layer) as unpacked:
        return f"sha256:{hashlib.file_digest(unpacked, 'sha256').hexdigest()}"


def descriptor(media_type: str, blob: Path | bytes) -> dict[str, Any]:
    """Returns the reference to a blob."""
    if isinstance(blob, bytes):
        return {"mediaType": media_type, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}
    return {"mediaType": media_type, "digest": f"sha256:{archives.sha256(blob)}", "size": blob.stat().st_size}


def config(release: Release, machine: str, packed: list[tuple[str, Path]]) -> dict[str, Any]:
    """Returns the configuration of the image: how containers start, and the digests of the layers."""
    created = datetime.datetime.fromtimestamp(release.epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "created": created,
        "architecture": architecture(machine),
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {"8700/tcp": {}},
            "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
            "Entrypoint": ENTRYPOINT,
            "Cmd": COMMAND,
            "Volumes": {CACHE: {}, STATE: {}},
            "WorkingDir": STATE,
            "Labels": labels(release),
            "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": [digest_of_unpacked(path) for _, path in packed]},
        "history": [{"created": created, "created_by": "dist/build", "comment": comment} for comment, _ in packed],
    }


def labels(release: Release) -> dict[str, str]:
    """Returns the standard labels of the image."""
    about = {
        "title": "glovebox",
        "description": "Sandbox for untrusted Python and JavaScript",
        "version": release.version,
        "licenses": "Apache-2.0",
    }
    return {f"org.opencontainers.image.{name}": value for name, value in about.items()}


def to_json(value: Mapping[str, Any] | list[Any]) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


def image(release: Release, program: Path) -> Path:
    """Writes the image."""
    machine = release.triple.partition("-")[0]
    packed = []
    for number, (comment, entries) in enumerate(layers(release, program)):
        path = archives.write_tar_gz(release.work / f"layer-{number}.tar.gz", archives.with_parents(entries), release.epoch)
        packed.append((comment, path))
    configuration = to_json(config(release, machine, packed))
    references = [descriptor(LAYER, path) for _, path in packed]
    manifest = to_json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, configuration),
            "layers": references,
            "annotations": labels(release),
        }
    )
    name = f"glovebox:{release.version}"
    reference = descriptor(MANIFEST, manifest) | {
        "platform": {"architecture": architecture(machine), "os": "linux"},
        "annotations": {"org.opencontainers.image.ref.name": name, "io.containerd.image.name": f"docker.io/library/{name}"},
    }

    def blob(digest: str) -> str:
        return f"blobs/{digest.replace(':', '/')}"

    files: dict[str, Path | bytes] = {
        "oci-layout": to_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": to_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [reference]}),
        # The index for `docker load`.
        "manifest.json": to_json(
            [
                {
                    "Config": blob(descriptor(CONFIG, configuration)["digest"]),
                    "RepoTags": [name],
                    "Layers": [blob(each["digest"]) for each in references],
                }
            ]
        ),
        blob(descriptor(CONFIG, configuration)["digest"]): configuration,
        blob(reference["digest"]): manifest,
    }
    files |= {blob(each["digest"]): path for each, (_, path) in zip(references, packed, strict=True)}
    entries = archives.with_parents({path: file(contents) for path, contents in files.items()})
    into = release.out / f"glovebox-{release.version}-{machine}-oci.tar"
    with into.open("wb") as archive:
        archives.write_tar(archive, entries, release.epoch)
    return into
