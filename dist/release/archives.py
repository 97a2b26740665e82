"""Reproducible archives, whose bytes depend only on their contents."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from .places import SUMS


@dataclass(frozen=True)
class Entry:
    """A file or a directory in an archive."""

    contents: Path | bytes | None
    """The contents, or a file with the contents. `None` for a directory."""
    mode: int
    owner: int = 0
    """The ID of both the user and the group."""

    @property
    def size(self) -> int:
        """The size in bytes."""
        if isinstance(self.contents, Path):
            return self.contents.stat().st_size
        return len(self.contents or b"")


def directory(mode: int = 0o755, owner: int = 0) -> Entry:
    """Returns the entry of a directory."""
    return Entry(None, mode, owner)


def file(contents: Path | bytes, mode: int = 0o644) -> Entry:
    """Returns the entry of a file."""
    return Entry(contents, mode)


def with_parents(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Adds the directories that contain the entries, because package managers expect an entry for each directory."""
    parents = {str(each) for name in entries for each in PurePosixPath(name).parents}
    return {each: directory() for each in parents - {"."}} | dict(entries)


def write_tar(into: IO[bytes], entries: Mapping[str, Entry], epoch: int) -> None:
    """Writes a `.tar` with sorted entries that have the same time stamp and no names of users."""
    # Use the GNU format, because the library chooses the time stamps in PAX headers.
    with tarfile.open(fileobj=into, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(entries):
            entry = entries[name]
            info = tarfile.TarInfo(name)
            info.mtime, info.mode, info.uid, info.gid, info.size = epoch, entry.mode, entry.owner, entry.owner, entry.size
            if entry.contents is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            elif isinstance(entry.contents, bytes):
                archive.addfile(info, io.BytesIO(entry.contents))
            else:
                with entry.contents.open("rb") as data:
                    archive.addfile(info, data)


def write_tar_gz(path: Path, entries: Mapping[str, Entry], epoch: int) -> Path:
    """Writes a compressed `.tar`, which depends only on the entries and the time stamp."""
    with path.open("wb") as into, gzip.GzipFile("", "wb", compresslevel=9, fileobj=into, mtime=epoch) as packed:
        write_tar(cast("IO[bytes]", packed), entries, epoch)
    return path


def tar_gz(path: Path, directory: str, files: Mapping[str, Path | bytes], epoch: int, programs: frozenset[str] = frozenset()) -> Path:
    """Writes a `.tar.gz` with all files under one directory, owned by user 0. The files in `programs` are executable."""
    entries = {f"{directory}/{name}": file(contents, 0o755 if name in programs else 0o644) for name, contents in files.items()}
    return write_tar_gz(path, entries, epoch)


def write_ar(path: Path, members: Iterable[tuple[str, Path | bytes]], epoch: int) -> Path:
    """Writes an `ar` archive, the outer format of a Debian package, with its members in the given order. Names have at
    most 15 bytes."""
    with path.open("wb") as into:
        into.write(b"!<arch>\n")
        for name, contents in members:
            size = len(contents) if isinstance(contents, bytes) else contents.stat().st_size
            into.write(f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{size:<10}`\n".encode())
            if isinstance(contents, bytes):
                into.write(contents)
            else:
                with contents.open("rb") as data:
                    shutil.copyfileobj(data, into)
            if size % 2:
                into.write(b"\n")
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
