"""Tests of the published crates: their order, their manifests and their packed files."""

from __future__ import annotations

import io
import tarfile
import tempfile
import unittest
from pathlib import Path
from typing import Any

from release import crates
from release.crates import Packed


def needs(name: str, kind: str | None = None, req: str = "=1.0.0") -> dict[str, Any]:
    return {"name": name, "kind": kind, "req": req}


def package(name: str, *dependencies: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Returns the description of a crate by `cargo metadata`."""
    shown = {"description": "what it is", "license": "MIT", "readme": "README.md", "publish": None, "version": "1.0.0"}
    return {"name": name, **shown, "dependencies": list(dependencies), **more}


class Manifests(unittest.TestCase):
    def problems(self, *dependencies: dict[str, Any], **more: Any) -> list[str]:
        several = {each["name"]: each for each in (package("low"), package("hidden", publish=[]))}
        return list(crates.manifest_problems(package("glovebox", *dependencies, **more), several))

    def test_each_crate_follows_the_crates_that_it_needs(self) -> None:
        several = [package("a", needs("c"), needs("d", "dev")), package("b"), package("c", needs("b", "build")), package("d", publish=[])]
        self.assertEqual(crates.in_order({each["name"]: each for each in several}), ["b", "c", "a"])

    def test_complete_manifest_has_no_problem(self) -> None:
        self.assertEqual(self.problems(needs("low"), needs("external", req="^2"), needs("hidden", "dev", "*")), [])

    def test_incomplete_manifests_are_reported(self) -> None:
        for expected, found in [
            ("no `description`", self.problems(description=None)),
            ("no `license`", self.problems(license=None)),
            ("no `readme`", self.problems(readme=None)),
            ("`hidden`, which is not published", self.problems(needs("hidden"))),
            ("`low` *; require `=1.0.0`", self.problems(needs("low", req="*"))),
            ("`low` ^1; require `=1.0.0`", self.problems(needs("low", "dev", "^1"))),
        ]:
            self.assertEqual(len(found), 1, expected)
            self.assertIn(expected, found[0])


class Sources(unittest.TestCase):
    def outside(self, text: str, name: str = "src/a/b.rs") -> list[str]:
        return list(crates.outside({name: text}, ["src/a/b.rs", "src/a/c.rs", "data/x.json", "wit/0.3/a.wit"]))

    def test_packed_files_can_be_included(self) -> None:
        for text in [
            'include_str!("../../data/x.json")',
            'include_bytes!(concat!("../../data/", $name))',
            'include_bytes!(concat!(env!("OUT_DIR"), "/made"))',
            '#[path = "c.rs"]\nmod other;',
            'bindgen!({\n    path: ["wit", "wit/0.3"],\n});',
            '#[cfg(doctest)]\nmod pages {\n    #[doc = include_str!("../../README.md")]\n    mod readme {}\n}\n',
        ]:
            self.assertEqual(self.outside(text), [], text)

    def test_files_that_are_not_packed_are_reported(self) -> None:
        for text, path in [
            ('include_str!("../../../data/x.json")', "../../../data/x.json"),
            ('include_str!(\n    "missing.json"\n)', "missing.json"),
            ('include_bytes!(concat!("../../other/", $name))', "../../other/"),
            ('#[path = "../../../c.rs"]\nmod other;', "../../../c.rs"),
            ('wit_bindgen::generate!({\n    path: "../../wit",\n});', "../../wit"),
            ('bindgen!({\n    path: ["wit", "wit/0.4"],\n});', "wit/0.4"),
            ('#[cfg(doctest)]\nmod pages {\n}\nconst A: &str = include_str!("../README.md");', "../README.md"),
        ]:
            (found,) = self.outside(text)
            self.assertIn(f"`{path}`, which is not packed", found)
        self.assertEqual(len(self.outside('include!("src/a/d.rs")', "build.rs")), 1)


class Contents(unittest.TestCase):
    def packed(self, files: dict[str, bytes], link: str | None = None) -> Packed:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        path = Path(scratch.name) / "a-1.0.0.crate"
        with tarfile.open(path, "w:gz") as archive:
            for name, data in files.items():
                info = tarfile.TarInfo(f"a-1.0.0/{name}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            if link:
                info = tarfile.TarInfo(f"a-1.0.0/{link}")
                info.type, info.linkname = tarfile.SYMTYPE, "elsewhere"
                archive.addfile(info)
        return Packed("a", "1.0.0", "text", path, tuple(sorted([*files, *([link] if link else [])])))

    def test_licence_links_and_includes_are_checked(self) -> None:
        good = {"LICENSE": b"text", "src/lib.rs": b'include_str!("../LICENSE")'}
        self.assertEqual(list(crates.content_problems(self.packed(good))), [])
        found = list(crates.content_problems(self.packed({"src/lib.rs": b'include_str!("../LICENSE")', "tests/a.rs": b'include_str!("x")'}, "wit")))
        self.assertEqual(len(found), 3, found)
        for expected, problem in zip(("no LICENSE", "`wit` is not a regular file", "`../LICENSE`, which is not packed"), found, strict=True):
            self.assertIn(expected, problem)

    def test_listing_names_files_and_reasons(self) -> None:
        text = crates.listing([self.packed({"LICENSE": b"text"})], "1.0.0")
        self.assertIn("\na 1.0.0: text\n  ", text)
        self.assertIn("\n  LICENSE\n", text)
        self.assertIn("\nglovebox-cli: the packages of the command", text)


class Workspace(unittest.TestCase):
    def test_all_crates_can_be_published_or_have_a_reason(self) -> None:
        packages = crates.workspace()
        names = crates.in_order(packages)
        self.assertLessEqual(set(crates.PUBLIC), set(names))
        with tempfile.TemporaryDirectory() as scratch:
            self.assertEqual(crates.problems(packages, crates.pack(names, packages, Path(scratch))), [])

    def test_crate_without_a_reason_is_a_problem(self) -> None:
        several = {each["name"]: each for each in [*(package(name) for name in crates.PUBLIC), package("new", publish=[])]}
        several |= {name: package(name, publish=[]) for name in crates.PRIVATE if name != "glovebox-cli"}
        found = crates.problems(several, [])
        self.assertEqual([each.partition(":")[0] for each in found], ["new", "glovebox-cli"])


if __name__ == "__main__":
    unittest.main()
