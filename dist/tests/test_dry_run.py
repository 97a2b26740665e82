"""Tests of `dist/build --dry-run`: its checks, the files to publish and its report."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import shutil
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from release import archives, bundles, crates, dry_run, inventory, libraries, provenance, readiness, statement, uploads
from release.places import ROOT, Release, ReleaseError
from release.readiness import Problem

EPOCH = 1_795_996_800
"""The end of November 2026."""
HEAD = "1234567890abcdef"
COPIED = (
    "Cargo.toml",
    "Cargo.lock",
    "CHANGELOG.md",
    "bindings/python/pyproject.toml",
    "bindings/python/src/glovebox_sandbox/__init__.py",
    *(f"bindings/{each}/{name}" for each in ("js", "web") for name in ("package.json", "package-lock.json")),
    "docs/embed.md",
    "docs/install.md",
)


class Checks(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        for name in COPIED:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        shutil.copytree(ROOT / "wit", self.root / "wit")
        self.release = Release("0.1.0", self.root / "out", self.root / "work", False, EPOCH)
        self.release.out.mkdir()
        self.git = {"rev-parse": HEAD, "rev-list": "fedcba0987654321", "status": "", "diff": ""}
        self.tags = {"--points-at": "v0.1.0\nother", "--list": ""}
        patch = mock.patch.object(statement, "git", self.answer)
        patch.start()
        self.addCleanup(patch.stop)

    def answer(self, command: str, *more: str) -> str:
        return self.tags[more[0]] if command == "tag" else self.git[command]

    def replace(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new))

    def one(self, found: Iterator[tuple[str, str]], expected: str) -> str:
        """Checks that there is one problem with this text, and returns its remedy."""
        several = list(found)
        self.assertEqual(len(several), 1, several)
        self.assertIn(expected, several[0][0])
        return several[0][1]

    def test_tag_must_be_at_this_commit(self) -> None:
        self.assertEqual(list(readiness.tag(self.release)), [])
        self.tags["--points-at"] = "v0.1"
        self.assertIn("git tag v0.1.0", self.one(readiness.tag(self.release), "has no tag `v0.1.0`"))
        self.tags["--list"] = "v0.1.0"
        self.assertIn("git checkout v0.1.0", self.one(readiness.tag(self.release), "is at fedcba098765, not at this commit"))

    def test_changed_and_new_files_are_reported(self) -> None:
        self.assertEqual(list(readiness.tree(self.release)), [])
        self.git["status"] = "\n".join(f" M file{number}" for number in range(5)) + "\n?? new"
        self.one(readiness.tree(self.release), "6 files differ from the commit: `file0`, `file1`, `file2`, `file3`, `file4`, …")

    def test_versions_agree_in_this_checkout(self) -> None:
        self.assertEqual(list(readiness.versions(self.release)), [])

    def test_each_version_is_compared(self) -> None:
        for name, old, new, expected in [
            ("Cargo.toml", 'path = "runtimes", version = "=0.1.0"', 'path = "runtimes", version = "=0.0.9"', "Cargo.toml, `glovebox-runtimes`"),
            ("Cargo.lock", 'name = "glovebox-vfs"\nversion = "0.1.0"', 'name = "glovebox-vfs"\nversion = "0.0.9"', "Cargo.lock, `glovebox-vfs`"),
            ("bindings/python/pyproject.toml", 'version = "0.1.0"', 'version = "0.0.9"', "bindings/python/pyproject.toml"),
            (COPIED[4], '__version__ = "0.1.0"', '__version__ = "0.0.9"', "__init__.py"),
            ("bindings/js/package.json", '"version": "0.1.0"', '"version": "0.0.9"', "bindings/js/package.json"),
            ("docs/install.md", "glovebox_0.1.0-1", "glovebox_0.0.9-1", "docs/install.md"),
            ("docs/embed.md", 'glovebox = "0.1.0"', 'glovebox = "0.0.9"', "docs/embed.md"),
        ]:
            before = (self.root / name).read_text()
            self.replace(name, old, new)
            self.one(readiness.versions(self.release, self.root), f"{expected} has the version `0.0.9`, but Cargo.toml has `0.1.0`")
            (self.root / name).write_text(before)

    def test_changelog_needs_a_date(self) -> None:
        path = self.root / "CHANGELOG.md"
        for heading, expected in [("0.1.0 - Unreleased", "the date `Unreleased`"), ("0.1.0 - 2026-13-01", "the date"), ("0.1.0 - 20260105", "the date `20260105`"), ("0.1.1 - 2026-01-01", "no section")]:
            path.write_text(f"# Changelog\n\n## {heading}\n\nNew.\n")
            self.one(readiness.changelog(self.release, self.root), expected)
        path.write_text("# Changelog\n\n## 0.1.0 - 2026-12-01\n\nNew.\n")
        self.assertEqual(list(readiness.changelog(self.release, self.root)), [])

    def test_page_must_not_say_that_nothing_is_released(self) -> None:
        path = self.root / "docs" / "install.md"
        path.write_text("# Install\n")
        self.assertEqual(list(readiness.pages(self.release, self.root)), [])
        path.write_text(f"# Install\n\n{readiness.UNRELEASED} Build it.\n")
        self.one(readiness.pages(self.release, self.root), "docs/install.md says")

    def test_contract_must_be_frozen(self) -> None:
        self.assertEqual(list(readiness.contract(self.release, self.root)), [])
        self.replace("wit/tools.wit", "interface tools", "interface  tools")
        self.assertIn("cp wit/*.wit", self.one(readiness.contract(self.release, self.root), "differs from the contract"))

    def test_released_contract_must_not_change(self) -> None:
        self.tags["--list"], self.git["diff"] = "v0.0.9", "wit/history/0.1.0/types.wit"
        remedy = self.one(readiness.contract(self.release, self.root), "wit/history/0.1.0/types.wit has changed since v0.0.9")
        self.assertEqual(remedy, "run `git checkout v0.0.9 -- wit/history/0.1.0/types.wit`")

    def test_released_contract_must_not_be_renamed(self) -> None:
        def git(*arguments: str) -> str:
            return subprocess.check_output(["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *arguments], cwd=self.root, text=True).strip()

        git("init", "--quiet")
        git("add", "wit")
        git("commit", "--quiet", "--message", "Release")
        git("tag", "v0.0.9")
        copy = next((self.root / "wit" / "history").glob("*/types.wit"))
        git("mv", str(copy), str(copy.with_name("renamed.wit")))
        git("commit", "--quiet", "--message", "Rename")
        with mock.patch.object(statement, "git", git):
            found = [what for what, _ in readiness.contract(self.release, self.root)]
        self.assertIn(f"{copy.relative_to(self.root)} has changed since v0.0.9, which contains it", found)

    def test_review_of_vulnerabilities_must_be_recent(self) -> None:
        reviewed = provenance.read()[0]
        start = datetime.datetime.combine(reviewed, datetime.time(), datetime.UTC).timestamp()
        for days, count in [(31, 0), (32, 1)]:
            release = Release("0.1.0", self.root, self.root, False, int(start) + days * 86400)
            self.assertEqual(len(list(readiness.vulnerabilities(release))), count, days)

    def test_all_missing_licences_are_listed(self) -> None:
        two = [inventory.Part("crate", name, "1", "MIT", "", texts=()) for name in ("one", "two")]
        with self.assertRaises(ReleaseError) as failed:
            inventory.with_standard_texts(two)
        self.assertEqual([line.split("`")[1] for line in str(failed.exception).splitlines()], ["one", "two"])

    def test_machine_must_have_the_processor_and_the_programs(self) -> None:
        with (
            mock.patch.object(bundles, "missing_features", lambda *_: {"avx2"}),
            mock.patch.object(shutil, "which", lambda name: None if name == "npm" else name),
            mock.patch.object(libraries, "machine_glibc", lambda: (2, 31)),
        ):
            found = [what for what, _ in readiness.machine(self.release)]
        self.assertEqual(len(found), 3, found)
        for expected, what in zip(("does not support avx2", "`npm` is not installed", "the C library is 2.31"), found, strict=True):
            self.assertIn(expected, what)

    def build(self, commit: str = HEAD, tag: str | None = "v0.1.0") -> None:
        """Writes the files of an earlier build."""
        (self.release.out / "glovebox-0.1.0-providers.tar.gz").write_text("text")
        source = {"digest": {"gitCommit": commit}, "annotations": {"tag": tag, "modified": False}}
        text = {"predicate": {"buildDefinition": {"resolvedDependencies": [source]}}}
        self.release.statement.write_text(json.dumps(text))
        archives.write_sums(self.release.out)

    def test_files_of_an_earlier_build_must_belong_to_the_tag(self) -> None:
        self.assertEqual(list(readiness.built_files(self.release)), [])
        self.build()
        self.assertEqual(list(readiness.built_files(self.release)), [])
        self.build(commit="0" * 16)
        self.one(readiness.built_files(self.release), "was built from 000000000000")
        self.build(tag=None)
        self.one(readiness.built_files(self.release), "built before the tag")
        self.build()
        (self.release.out / "glovebox-0.1.0-providers.tar.gz").write_text("other")
        self.one(readiness.built_files(self.release), "does not match its checksum")

    def test_main_npm_package_names_only_built_packages(self) -> None:
        self.assertEqual(list(readiness.npm_packages(self.release)), [])
        names = [f"@glovebox-sandbox/{each}" for each in ("linux-x64-gnu", "darwin-x64")]
        text = json.dumps({"optionalDependencies": dict.fromkeys(names, "0.1.0")}).encode()
        archives.tar_gz(self.release.out / "glovebox-sandbox-0.1.0.tgz", "package", {"package.json": text}, EPOCH)
        (self.release.out / "glovebox-sandbox-linux-x64-gnu-0.1.0.tgz").touch()
        self.one(readiness.npm_packages(self.release), "names `@glovebox-sandbox/darwin-x64`, but `glovebox-sandbox-darwin-x64-0.1.0.tgz`")

    def test_failing_check_is_a_problem(self) -> None:
        for error in (OSError("no git"), subprocess.CalledProcessError(128, "git")):
            with mock.patch.dict(readiness.CHECKS, {"tag": mock.Mock(side_effect=error)}):
                (found,) = readiness.check(self.release, "tag")
            self.assertEqual((found.check, found.what), ("tag", f"the check failed: {error}"))

    def test_damaged_npm_package_is_a_problem(self) -> None:
        package = self.release.out / "glovebox-sandbox-0.1.0.tgz"
        archives.tar_gz(package, "package", {"package.json": b"{}"}, EPOCH)
        whole = package.read_bytes()
        for damaged in (b"", b"text", whole[: len(whole) // 2]):
            package.write_bytes(damaged)
            (found,) = readiness.check(self.release, "npm packages")
            self.assertIn("the check failed", found.what)

    def test_built_files_have_sizes_and_checksums(self) -> None:
        self.build()
        planned = uploads.uploads(self.release, ["glovebox-vfs"])
        providers = next(each for each in planned if each.name == "glovebox-0.1.0-providers.tar.gz").described()
        self.assertEqual((providers["size_bytes"], providers["registry"]), (4, "release page"))
        self.assertEqual(providers["sha256"], archives.sha256(self.release.out / "glovebox-0.1.0-providers.tar.gz"))
        self.assertIsNone(next(each for each in planned if each.name.endswith("_amd64.deb") or each.name.endswith("_arm64.deb")).path)
        self.assertEqual(planned[-1].name, "glovebox-vfs-0.1.0.crate")

    def test_npm_package_follows_the_packages_that_it_needs(self) -> None:
        commands = [each for each in uploads.commands(self.release, ["a", "b"], has_tag=True) if each.startswith("npm")]
        self.assertTrue(commands[-1].endswith("/glovebox-sandbox-0.1.0.tgz"))
        self.assertEqual(len(commands), 4)

    def test_each_npm_package_has_a_command(self) -> None:
        for name in ("linux-x64-gnu", "linux-arm64-gnu", "data-linux-x64-gnu"):
            (self.release.out / f"glovebox-sandbox-{name}-0.1.0.tgz").touch()
        commands = [each for each in uploads.commands(self.release, [], has_tag=True) if each.startswith("npm")]
        names = [each.rpartition("/glovebox-sandbox-")[2].removesuffix("-0.1.0.tgz") for each in commands]
        self.assertEqual(names[:-1], ["python", "linux-arm64-gnu", "linux-x64-gnu", "data-linux-x64-gnu"])

    def test_tag_is_a_command_only_if_it_is_missing(self) -> None:
        for has_tag in (True, False):
            commands = uploads.commands(self.release, ["a", "b"], has_tag)
            self.assertEqual("git tag v0.1.0" in commands, not has_tag)
            self.assertIn("cargo publish --locked --package a --package b", commands)

    def run_dry(self, found: dict[str, Problem], as_json: bool) -> tuple[int, str]:
        """Runs the dry run with these problems."""
        printed = io.StringIO()
        with (
            mock.patch.object(readiness, "check", lambda _, name: [found[name]] if name in found else []),
            mock.patch.object(crates, "workspace", dict),
            contextlib.redirect_stdout(printed),
        ):
            code = dry_run.dry_run(self.release, as_json)
        return code, printed.getvalue()

    def test_report_lists_all_problems_and_their_remedies(self) -> None:
        code, printed = self.run_dry({name: Problem(name, f"bad {name}", f"repair {name}") for name in ("tag", "tree")}, False)
        self.assertEqual(code, 1)
        for name in ("tag", "tree"):
            self.assertIn(f"PROBLEM  {name}: bad {name}\n         repair {name}\n", printed)
        self.assertIn("ok       changelog:", printed)
        self.assertTrue(printed.endswith("2 problems left\n"), printed)

    def test_release_without_problems_is_ready(self) -> None:
        code, printed = self.run_dry({}, False)
        self.assertEqual((code, printed.splitlines()[-1]), (0, "ready: no problem found"))
        self.assertNotIn("git tag", printed)

    def test_json_contains_the_report(self) -> None:
        code, printed = self.run_dry({"tag": Problem("tag", "bad", "repair")}, True)
        shown = json.loads(printed)
        self.assertEqual((code, shown["ready"], shown["commit"]), (1, False, HEAD))
        self.assertEqual(shown["problems"], [{"check": "tag", "what": "bad", "remedy": "repair"}])
        self.assertEqual(shown["commands"][0], "git tag v0.1.0")
        self.assertEqual({each["registry"] for each in shown["uploads"]}, {*uploads.patterns(self.release)})


if __name__ == "__main__":
    unittest.main()
