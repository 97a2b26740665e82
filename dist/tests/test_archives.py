"""Tests that archives are reproducible, and that checksums detect changed files."""

from __future__ import annotations

import os
import tarfile
import tempfile
import unittest
from pathlib import Path

from release import archives
from release.places import SUMS


class Archives(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)

    def archive(self, name: str, files: dict[str, Path | bytes], epoch: int = 1_700_000_000) -> bytes:
        return archives.tar_gz(self.directory / name, "top", files, epoch, frozenset({"run"})).read_bytes()

    def test_archive_ignores_order_time_mode_and_owner(self) -> None:
        file = self.directory / "file"
        file.write_bytes(b"contents")
        first = self.archive("first", {"run": file, "a": b"1"})
        os.utime(file, (1, 1))
        file.chmod(0o600)
        self.assertEqual(first, self.archive("second", {"a": b"1", "run": file}))

    def test_archive_depends_on_contents_and_epoch(self) -> None:
        first = self.archive("first", {"a": b"1"})
        self.assertNotEqual(first, self.archive("second", {"a": b"2"}))
        self.assertNotEqual(first, self.archive("third", {"a": b"1"}, 1_700_000_001))

    def test_entries_have_no_owner_and_programs_are_executable(self) -> None:
        self.archive("first", {"run": b"#!", "a/b": b"1"})
        with tarfile.open(self.directory / "first") as archive:
            entries = archive.getmembers()
        self.assertEqual([each.name for each in entries], ["top/a/b", "top/run"])
        self.assertEqual([each.mode for each in entries], [0o644, 0o755])
        self.assertEqual({(each.uid, each.gid, each.mtime) for each in entries}, {(0, 0, 1_700_000_000)})

    def test_checksums_find_each_kind_of_difference(self) -> None:
        for name in ("a", "b", "c"):
            (self.directory / name).write_text(name)
        archives.write_sums(self.directory)
        self.assertEqual(archives.wrong_sums(self.directory), [])
        (self.directory / "a").write_text("b")
        (self.directory / "b").unlink()
        (self.directory / "d").write_text("d")
        found = archives.wrong_sums(self.directory)
        self.assertEqual(found, ["b: is listed, but missing", "d: is not listed", "a: does not match its checksum"])

    def test_only_listed_files_are_removed(self) -> None:
        (self.directory / "old").write_text("old")
        archives.write_sums(self.directory)
        (self.directory / "mine").write_text("mine")
        outside = self.directory.parent / "outside"
        with (self.directory / SUMS).open("a") as sums:
            sums.write(f"{'0' * 64}  ../{outside.name}\n")
        archives.remove_listed(self.directory)
        self.assertEqual({each.name for each in self.directory.iterdir()}, {"mine", SUMS})


if __name__ == "__main__":
    unittest.main()
