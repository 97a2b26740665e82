"""Tests of the contents of products: interpreters, wheels and providers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from release import bundles, products
from release.places import ROOT

COMMAND = """\
#!/bin/sh
for each in "$@"; do
  case $each in interpreters.zip | prepared.zip) echo "$@" >"$each" ;; esac
done
"""
"""A fake `glovebox` that writes its arguments to the bundle."""


class Products(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        self.bundles = self.directory / "bundles"
        command = self.directory / "glovebox"
        command.write_text(COMMAND)
        command.chmod(0o755)
        bundles.write(command, self.bundles, bundles.PARTS)

    def test_each_part_has_its_files(self) -> None:
        found = {part: sorted(each.name for each in (self.bundles / part).iterdir()) for part in bundles.PARTS}
        both = ["interpreters.zip", "prepared.zip"]
        self.assertEqual(found, {"engine": both, "python": both[:1], "data": both[1:], "command": both})
        arguments = (self.bundles / "data" / "prepared.zip").read_text()
        self.assertEqual(arguments, "runtimes bundle --compiled prepared.zip python-3.15-data --without ../engine/prepared.zip\n")

    def test_processors_without_x86_64_v3_are_recognised(self) -> None:
        flags = "sse4_2 popcnt cx16 avx2 fma bmi1 bmi2 abm"
        for text, missing in [(flags, set[str]()), (flags.replace("avx2", "avx"), {"avx2"}), ("", bundles.V3)]:
            self.assertEqual(bundles.missing_features("x86_64", f"processor : 0\nflags\t\t: fpu {text}\nflags : x\n"), missing)
        self.assertEqual(bundles.missing_features("aarch64", "Features : fp\n"), set())

    def wheel(self, *arguments: str) -> tuple[str, set[str], str]:
        """Builds a wheel, and returns its name, the names of its files, and its metadata."""
        script = ROOT / "bindings" / "python" / "wheel.py"
        command: list[str | Path] = [sys.executable, script, self.directory / "out", *arguments, "--bundles", self.bundles]
        path = Path(subprocess.check_output(command, text=True).strip())
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            (metadata,) = (each for each in names if each.endswith("/METADATA"))
            return path.name, names, archive.read(metadata).decode()

    def test_native_wheel_requires_the_interpreters(self) -> None:
        (self.directory / "module.so").write_bytes(b"module")
        name, files, metadata = self.wheel(str(self.directory / "module.so"), "--no-strip", "--tag", "linux_x86_64")
        self.assertEqual(name, "glovebox_sandbox-0.1.0-cp310-abi3-linux_x86_64.whl")
        self.assertLess({f"glovebox_sandbox/{each}" for each in ("_native.abi3.so", "interpreters.zip", "prepared.zip")}, files)
        self.assertIn("\nRequires-Dist: glovebox-sandbox-python==0.1.0\n", metadata)
        self.assertIn("\nRequires-Dist: glovebox-sandbox-data==0.1.0 ; extra == 'data'\n", metadata)

    def test_packages_of_interpreters_contain_only_these(self) -> None:
        name, files, metadata = self.wheel("--part", "python")
        self.assertEqual(name, "glovebox_sandbox_python-0.1.0-py3-none-any.whl")
        inside = {each for each in files if ".dist-info/" not in each}
        self.assertEqual(inside, {"glovebox_sandbox_python/__init__.py", "glovebox_sandbox_python/interpreters.zip"})
        self.assertNotIn("glovebox_sandbox_python-0.1.0.dist-info/entry_points.txt", files)
        self.assertNotIn("Requires-Dist", metadata)
        name, files, metadata = self.wheel("--part", "data", "--tag", "linux_x86_64")
        self.assertIn("\nRequires-Dist: glovebox-sandbox==0.1.0\n", metadata)
        self.assertEqual(name, "glovebox_sandbox_data-0.1.0-py3-none-linux_x86_64.whl")
        self.assertIn("glovebox_sandbox_data/prepared.zip", files)

    def test_pure_wheel_has_no_interpreters(self) -> None:
        name, files, metadata = self.wheel()
        self.assertEqual(name, "glovebox_sandbox-0.1.0-py3-none-any.whl")
        self.assertEqual([each for each in files if each.endswith((".zip", ".so"))], [])
        self.assertNotIn("glovebox-sandbox-", metadata.partition("\n\n")[0])

    def test_missing_interpreters_are_an_error(self) -> None:
        os.unlink(self.bundles / "python" / "interpreters.zip")
        script = ROOT / "bindings" / "python" / "wheel.py"
        ended = subprocess.run(
            [sys.executable, script, self.directory, "--part", "python", "--bundles", self.bundles], capture_output=True, text=True
        )
        self.assertEqual(ended.returncode, 1)
        self.assertIn("make them with: bindings/python/build", ended.stderr)

    def test_each_provider_has_a_closed_variant(self) -> None:
        self.assertEqual(len(products.PROVIDERS), 6)
        names = {each.removesuffix("-closed") for each in products.PROVIDERS}
        self.assertEqual(names, {"glovebox", "glovebox-python", "glovebox-javascript"})


if __name__ == "__main__":
    unittest.main()
