"""Reproducible archives, whose bytes depend only on their contents."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from .places import SUMS


def tar_gz(path: Path, directory: str, files: Mapping[str, Path | bytes], epoch: int, programs: frozenset[str] = frozenset()) -> Path:
    """Writes a `.tar.gz` with all files under one directory, sorted, owned by user 0, and with the same time stamp.
    The files in `programs` are executable."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", compresslevel=9, fileobj=file, mtime=epoch) as packed:
        # Use the GNU format, because the library chooses the time stamps in PAX headers.
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name in sorted(files):
                contents = files[name]
                data = contents if isinstance(contents, bytes) else contents.read_bytes()
                entry = tarfile.TarInfo(f"{directory}/{name}")
                entry.size, entry.mtime, entry.mode = len(data), epoch, 0o755 if name in programs else 0o644
                archive.addfile(entry, io.BytesIO(data))
    return path


def sha256(path: Path) -> str:
    """Returns the checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sums(directory: Path) -> Path:
    """Writes the checksums of all files in a directory, in the format of `sha256sum --check`."""
    lines = [f"{sha256(each)}  {each.name}\n" for each in sorted(directory.iterdir()) if each.is_file() and each.name != SUMS]
    path = directory / SUMS
    path.write_text("".join(lines))
    return path


def remove_listed(directory: Path) -> None:
    """Removes the files of an earlier release: only the files that its checksums list."""
    sums = directory / SUMS
    if sums.is_file():
        for line in sums.read_text().splitlines():
            (directory / Path(line.split("  ", 1)[1]).name).unlink(missing_ok=True)


def wrong_sums(directory: Path) -> list[str]:
    """Returns a line for each file that differs from the checksums, is missing, or is not listed."""
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in (directory / SUMS).read_text().splitlines())}
    found = {each.name for each in directory.iterdir() if each.is_file()} - {SUMS}
    wrong = [f"{name}: is listed, but missing" for name in sorted(listed.keys() - found)]
    wrong += [f"{name}: is not listed" for name in sorted(found - listed.keys())]
    wrong += [f"{name}: does not match its checksum" for name in sorted(found & listed.keys()) if sha256(directory / name) != listed[name]]
    return wrong
