"""Tests of the inventory: crates by their dependency edges, interpreters and packages by the bundle, licences by their
texts."""

from __future__ import annotations

import json
import tempfile
import tomllib
import unittest
import zipfile
from pathlib import Path
from typing import Any

from release import bundles, inventory, notices, sbom
from release.inventory import Part
from release.places import ROOT, TARGET, ReleaseError

EPOCH = 1_700_000_000


def graph(edges: dict[str, list[tuple[str, str | None]]]) -> dict[str, Any]:
    """Returns the `cargo metadata` of crates with these dependencies, by kind of edge."""
    nodes = [
        {"id": name, "deps": [{"pkg": other, "dep_kinds": [{"kind": kind}]} for other, kind in needed]} for name, needed in edges.items()
    ]
    return {
        "resolve": {"nodes": nodes},
        "packages": [{"id": name, "name": name} for name in edges],
        "workspace_members": ["glovebox-cli", "glovebox-tests"],
    }


def part(name: str, licence: str = "MIT", texts: tuple[str, ...] = ("text",), **more: Any) -> Part:
    return Part("crate", name, "1.0.0", licence, f"pkg:cargo/{name}@1.0.0", texts=texts, **more)


class Crates(unittest.TestCase):
    def test_dependency_edges_determine_the_inventory(self) -> None:
        edges: dict[str, list[tuple[str, str | None]]] = {
            "glovebox-cli": [("linked", None), ("builds", "build"), ("tests-only", "dev")],
            "linked": [("deep", None)],
            "builds": [("helper", None), ("deep", None)],
            "glovebox-tests": [("harness", None)],
            **{name: [] for name in ("deep", "helper", "tests-only", "harness")},
        }
        found = inventory.reachable(graph(edges))
        self.assertEqual(found, {"glovebox-cli": True, "linked": True, "deep": True, "builds": False, "helper": False})

    def test_missing_licence_text_uses_the_same_licence_or_fails(self) -> None:
        licence = "Apache-2.0 WITH LLVM-exception"
        whole, forgot = part("whole", licence), part("forgot", licence, ())
        self.assertEqual(inventory.with_standard_texts([forgot, whole])[0].texts, ("text",))
        # The text of the MIT licence contains the name of the crate's author, so another crate's text cannot replace
        # it.
        with self.assertRaisesRegex(ReleaseError, "licence text of `alone` is missing; add it as dist/licences/alone.txt"):
            inventory.with_standard_texts([part("other"), part("alone", texts=())])

    def test_licence_text_missing_upstream_is_kept_locally(self) -> None:
        forgot = part("napi-sys", texts=(), homepage="https://github.com/napi-rs/napi-rs.git")
        (found,) = inventory.with_standard_texts([forgot])
        self.assertIn("Permission is hereby granted", found.texts[0])
        # The notices must contain or reference a licence for every shipped part.
        for each in inventory.crates(["x86_64-unknown-linux-gnu", "wasm32-unknown-unknown"]):
            self.assertTrue(each.texts or each.is_ours or not each.is_inside, each.name)

    def test_licences_are_found_by_name(self) -> None:
        names = ["src/license.rs", "LICENSE-MIT", "a.dist-info/licenses/LICENCE.rst", "COPYING", "README.md", "license.py"]
        self.assertEqual(inventory.licence_texts(names), ["COPYING", "LICENSE-MIT", "a.dist-info/licenses/LICENCE.rst"])


class Bundle(unittest.TestCase):
    def bundle(self, names: list[str]) -> Path:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        path = Path(scratch.name) / "bundle.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, b"")
        return path

    def test_interpreters_are_known_by_their_checksums(self) -> None:
        manifest = tomllib.loads((ROOT / "runtimes" / "manifest.toml").read_text())
        runtime = next(each for each in manifest["runtime"] if each["name"] == "javascript")
        (found,) = inventory.bundled(self.bundle([f"javascript-{runtime['version']}-{runtime['sha256'][:16]}.wasm"]))
        self.assertEqual((found.kind, found.version, found.sha256), ("interpreter", runtime["version"], runtime["sha256"]))
        self.assertIn("Fabrice Bellard", found.texts[0])

    def test_library_belongs_to_its_interpreter(self) -> None:
        manifest = tomllib.loads((ROOT / "runtimes" / "manifest.toml").read_text())
        library = next(each["library"] for each in manifest["runtime"] if "library" in each)
        self.assertEqual(inventory.bundled(self.bundle([f"python-library-{library['sha256'][:16]}.zip"])), [])

    def test_inventory_contains_the_interpreters_of_the_providers(self) -> None:
        self.assertEqual([(each.name, each.is_inside) for each in inventory.woven()], [("python-3.12", True), ("javascript", True)])

    def test_prepared_runtimes_are_in_the_inventoried_bundles(self) -> None:
        manifest = tomllib.loads((ROOT / "runtimes" / "manifest.toml").read_text())
        runtimes = {each["name"]: each["runtime"] for each in manifest["image"]}
        words = {part: [each.split() for each in arguments] for part, arguments in bundles.PARTS.items()}
        downloads = {word for part in ("engine", "python") for each in words[part] if "--compiled" not in each for word in each}
        for each in (each for every in words.values() for each in every if "--compiled" in each):
            for name in (word for word in each if word.startswith(("python", "javascript"))):
                self.assertIn(runtimes.get(name, name), downloads)

    def test_prepared_bundle_of_the_command_contains_the_runtimes_of_its_images(self) -> None:
        manifest = tomllib.loads((ROOT / "runtimes" / "manifest.toml").read_text())
        runtimes = {each["name"]: each["runtime"] for each in manifest["image"]}
        (names,) = (each.split() for each in bundles.PARTS["command"] if "--compiled" in each)
        for name in names:
            self.assertIn(runtimes.get(name, name), names)

    def test_interpreter_unknown_to_the_manifest_is_an_error(self) -> None:
        with self.assertRaisesRegex(ReleaseError, "contains `other.wasm`, which neither"):
            inventory.bundled(self.bundle(["other.wasm"]))


class Npm(unittest.TestCase):
    def test_bundled_page_packages_have_licences(self) -> None:
        web = ROOT / "bindings" / "web" / "package-lock.json"
        found = {each.name: each for each in inventory.npm(web, ROOT / "host" / "server" / "assets" / "page" / "licences.txt")}
        self.assertTrue(found["@codemirror/view"].is_inside)
        self.assertIn("Permission is hereby granted", found["@codemirror/view"].texts[0])
        self.assertFalse(found["esbuild"].is_inside)

    def test_bundled_package_without_a_licence_is_an_error(self) -> None:
        with self.assertRaisesRegex(ReleaseError, "bundles the npm package"):
            inventory.npm(ROOT / "bindings" / "web" / "package-lock.json")


class Notices(unittest.TestCase):
    def test_each_licence_text_appears_once_with_its_packages(self) -> None:
        parts = [part("a"), part("b", texts=("text\r\n",)), part("ours", is_ours=True), part("c", texts=("other",))]
        text = notices.notices(parts, "0.1.0")
        self.assertEqual(text.count("\ntext\n"), 1)
        self.assertIn("\na 1.0.0, b 1.0.0\n", text)
        self.assertNotIn("ours 1.0.0", text)
        self.assertIn("crate c 1.0.0: MIT", text)

    def test_build_dependencies_are_excluded(self) -> None:
        self.assertNotIn("builder", notices.notices([part("builder", is_inside=False)], "0.1.0"))


@unittest.skipUnless((TARGET / "tools" / "cyclonedx" / "pin").is_file(), "needs target/tools/cyclonedx: dist/build installs it")
class Bill(unittest.TestCase):
    def test_sbom_is_valid_and_lists_the_parts(self) -> None:
        parts = [
            part("a", "MIT OR Apache-2.0", sha256="0" * 64, needs=("pkg:cargo/b@1.0.0",), is_ours=True),
            part("b", is_inside=False, homepage="https://example.org/b"),
        ]
        text = sbom.sbom(parts, "0.1.0", EPOCH)
        self.assertEqual(text, sbom.sbom(parts, "0.1.0", EPOCH))
        bill = json.loads(text)
        first, second = bill["components"]
        self.assertEqual(first["hashes"], [{"alg": "SHA-256", "content": "0" * 64}])
        self.assertEqual(first["licenses"], [{"expression": "MIT OR Apache-2.0"}])
        self.assertEqual((first["scope"], second["scope"]), ("required", "excluded"))
        self.assertIn({"ref": "pkg:cargo/a@1.0.0", "dependsOn": ["pkg:cargo/b@1.0.0"]}, bill["dependencies"])
        self.assertEqual(bill["metadata"]["timestamp"], "2023-11-14T22:13:20+00:00")
        self.assertIsNone(sbom.invalid(text))

    def test_sbom_schema_violations_are_found(self) -> None:
        bill = json.loads(sbom.sbom([part("a", is_ours=True)], "0.1.0", EPOCH))
        bill["components"][0]["scope"] = "sometimes"
        self.assertIn("sometimes", sbom.invalid(json.dumps(bill)) or "")


if __name__ == "__main__":
    unittest.main()
