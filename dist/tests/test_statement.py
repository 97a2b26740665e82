"""Tests of the provenance statement and of the changelog's section."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from release import archives, products, statement, steps
from release.places import ROOT, Release, ReleaseError, release
from release.room import Failed, Room

CHANGELOG = "# Changelog\n\n## 0.2.0 - Unreleased\n\nNew.\n\n## 0.1.0 - 2026-01-01\n\n### Added\n\nOld.\n"


class Statement(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.release = Release("0.1.0", Path(scratch.name), Path(scratch.name), False, 1_700_000_000)
        for name in ("a.whl", "b.deb"):
            (self.release.out / name).write_text(name)
        self.git = {"rev-parse": "1234567890abcdef", "tag": "v0.1.0\nother", "status": ""}
        patch = mock.patch.object(statement, "git", lambda command, *_: self.git[command])
        patch.start()
        self.addCleanup(patch.stop)

    def write(self) -> dict[str, Any]:
        stated = statement.statement(self.release, "rustc 1")
        self.release.statement.write_text(json.dumps(stated))
        archives.write_sums(self.release.out)
        return stated

    def check(self) -> str:
        return steps.stated(steps.Check(self.release, self.release.out, Room(self.release.out)))

    def test_statement_names_files_commit_and_pins(self) -> None:
        stated = self.write()
        self.assertEqual([each["name"] for each in stated["subject"]], ["a.whl", "b.deb"])
        source, *pins = stated["predicate"]["buildDefinition"]["resolvedDependencies"]
        self.assertEqual(source["annotations"], {"tag": "v0.1.0", "modified": False})
        self.assertTrue(pins)
        for each in pins:
            self.assertRegex(each["uri"], r"^pkg:pypi/[a-z-]+@[0-9a-z.]+$")
        # The statement and the checksums, which exist now, are no subjects.
        self.assertEqual(statement.statement(self.release, "rustc 1"), stated)
        self.assertEqual(self.check(), "2 files, built from v0.1.0 1234567890ab")

    def test_changed_checkout_and_missing_tag_are_reported(self) -> None:
        self.git |= {"tag": "v0.1.0-rc1", "status": " M file"}
        self.write()
        self.assertEqual(self.check(), "2 files, built from the untagged commit 1234567890ab; its files were changed before the build")

    def test_differences_from_the_files_are_failures(self) -> None:
        self.write()
        (self.release.out / "a.whl").write_text("other")
        (self.release.out / "b.deb").unlink()
        (self.release.out / "c.tgz").write_text("new")
        with self.assertRaises(Failed) as failed:
            self.check()
        found = [line.partition(":")[0] for line in str(failed.exception).splitlines()]
        self.assertEqual(found, ["a.whl", "b.deb", "c.tgz"])


class Changes(unittest.TestCase):
    def test_section_ends_before_the_next_version(self) -> None:
        self.assertEqual(products.section(CHANGELOG, "0.2.0"), "## 0.2.0 - Unreleased\n\nNew.\n")
        self.assertEqual(products.section(CHANGELOG, "0.1.0"), "## 0.1.0 - 2026-01-01\n\n### Added\n\nOld.\n")
        with self.assertRaisesRegex(ReleaseError, "no section `## 0.1.1 - DATE`"):
            products.section(CHANGELOG, "0.1.1")

    def test_changelog_has_a_section_for_the_current_version(self) -> None:
        self.assertIn("### Added", products.section((ROOT / "CHANGELOG.md").read_text(), release(None, True).version))


if __name__ == "__main__":
    unittest.main()
