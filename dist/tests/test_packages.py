"""Tests of the Debian package and of the container image, with a small program instead of the command."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from release import archives, debian, image, libraries, notices, steps
from release.inventory import Part
from release.places import NOTICES, ROOT, Release, ReleaseError
from release.room import Failed, RootRoom

EPOCH = 1_700_000_000
NEEDED, VERSIONS = ["libm.so.6", "libgcc_s.so.1", "libc.so.6"], ["GLIBC_2.9", "GLIBC_2.28", "GCC_3.0"]
HAS_DPKG = shutil.which("dpkg-deb") is not None
HAS_GLIBC = shutil.which("dpkg-query") is not None and (os.confstr("CS_GNU_LIBC_VERSION") or "") >= "glibc 2.34"
BORROWED = ("bin", "lib", "lib64")


def can_enter() -> bool:
    """Returns whether this machine allows nested user namespaces."""
    program = ["unshare", "--map-root-user", "--mount", "unshare", "--user", "--map-user=7", "true"]
    return shutil.which("unshare") is not None and subprocess.run(program, capture_output=True).returncode == 0


class Packages(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        authorities, licence = self.directory / "cacert.pem", self.directory / "LICENSE"
        authorities.write_text("authorities")
        licence.write_text("licence")
        for patch in (
            mock.patch.object(libraries, "dynamic_names", lambda _: (NEEDED, VERSIONS)),
            mock.patch.object(libraries, "certificates", lambda: (authorities, licence)),
            mock.patch.dict(os.environ, {"DEBFULLNAME": "A B", "DEBEMAIL": "a@b.org"}),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def release(self, name: str) -> tuple[Release, Path]:
        """Returns a release with small interpreters, and the program that replaces the command."""
        made = Release("0.1.0", self.directory / name / "out", self.directory / name / "work", False, EPOCH)
        made.out.mkdir(parents=True)
        (made.bundles / "command").mkdir(parents=True)
        for each in ("interpreters.zip", "prepared.zip"):
            (made.bundles / "command" / each).write_text(each)
        several = [Part("crate", name, "1", "MIT", "", texts=(f"text of {name}",)) for name in ("a", "b")]
        made.notices.write_text(notices.notices(several, "0.1.0"))
        program = made.work / "glovebox"
        shutil.copyfile("/bin/true", program)
        program.chmod(0o600)
        return made, program

    def test_packages_are_reproducible(self) -> None:
        first, again = self.release("first"), self.release("again")
        os.utime(again[1], (1, 1))
        again[1].chmod(0o777)
        self.assertEqual(debian.package(*first).read_bytes(), debian.package(*again).read_bytes())
        if HAS_GLIBC:
            self.assertEqual(image.image(*first).read_bytes(), image.image(*again).read_bytes())

    @unittest.skipUnless(HAS_DPKG, "needs dpkg-deb")
    def test_dpkg_reads_the_package(self) -> None:
        package = debian.package(*self.release("first"))
        self.assertEqual(package.name.split("_")[:2], ["glovebox", "0.1.0-1"])
        fields = subprocess.check_output(["dpkg-deb", "--field", package], text=True)
        lines = fields.splitlines()
        for line in ("Version: 0.1.0-1", "Maintainer: A B <a@b.org>", "Depends: libc6 (>= 2.28), libgcc-s1 | libgcc1"):
            self.assertIn(line, lines)
        listed = subprocess.check_output(["dpkg-deb", "--contents", package], text=True).splitlines()
        modes = {line.split()[-1]: line.split()[0] for line in listed}
        self.assertEqual(modes["./usr/lib/glovebox/glovebox"], "-rwxr-xr-x")
        self.assertEqual(modes["./usr/lib/glovebox/prepared.zip"], "-rw-r--r--")
        self.assertEqual(modes["./etc/glovebox/"], "drwxr-xr-x")
        self.assertEqual({line.split()[1] for line in listed}, {"0/0"})
        root = self.directory / "root"
        subprocess.run(["dpkg-deb", "--raw-extract", package, root], check=True)
        self.assertEqual((root / "DEBIAN" / "conffiles").read_text(), "/etc/glovebox/server.toml\n")
        documents = root / "usr/share/doc/glovebox"
        summary, texts = (documents / "copyright").read_text(), gzip.decompress((documents / f"{NOTICES}.gz").read_bytes()).decode()
        self.assertTrue(summary.endswith("\ncrate a 1: MIT\ncrate b 1: MIT\n"), summary)
        self.assertIn("text of b", texts)
        self.assertNotIn("text of", summary)
        steps.check_md5sums(root)
        steps.check_unit(root)
        (root / "usr/lib/glovebox/prepared.zip").write_text("other")
        with self.assertRaisesRegex(Failed, r"do not match: usr/lib/glovebox/prepared\.zip$"):
            steps.check_md5sums(root)
        (root / "usr/lib/glovebox/prepared.zip").unlink()
        with self.assertRaisesRegex(Failed, r"not in the package: /usr/lib/glovebox/prepared\.zip$"):
            steps.check_unit(root)

    def test_maintainer_has_one_line(self) -> None:
        with mock.patch.dict(os.environ, {"DEBEMAIL": "a@b.org>\nDepends: x <"}):
            self.assertRaisesRegex(ReleaseError, "more than one line", debian.maintainer)
        with mock.patch.dict(os.environ, {"DEBEMAIL": ""}):
            self.assertRegex(debian.maintainer(), r"^.+ <.+>$")

    def test_unknown_processor_is_an_error(self) -> None:
        with self.assertRaisesRegex(ReleaseError, "`riscv64` in images is unknown"):
            image.architecture("riscv64")

    @unittest.skipUnless(HAS_GLIBC, "needs Debian with glibc 2.34")
    def test_image_is_complete_and_its_directories_belong_to_its_user(self) -> None:
        made, program = self.release("first")
        layout, root = self.directory / "layout", self.directory / "root"
        with tarfile.open(image.image(made, program)) as archive:
            archive.extractall(layout, filter="data")
        configuration = steps.unpack_image(layout, root)
        self.assertEqual(configuration["config"]["User"], "65532:65532")
        for each in ("etc/passwd", "etc/ssl/certs/ca-certificates.crt", "opt/glovebox/interpreters.zip", "var/lib/dpkg/status.d/libc6"):
            self.assertTrue((root / each).is_file(), each)
        entries: dict[str, tarfile.TarInfo] = {}
        for layer in json.loads((layout / "manifest.json").read_text())[0]["Layers"]:
            with tarfile.open(layout / layer) as archive:
                entries |= {each.name: each for each in archive}
        expected = {
            "tmp": (0o1777, 0),
            "var/cache/glovebox": (0o700, 65532),
            "var/lib/glovebox": (0o700, 65532),
            "opt/glovebox/glovebox": (0o755, 0),
        }
        self.assertEqual({name: (entries[name].mode, entries[name].uid) for name in expected}, expected)
        self.assertTrue(all(each.uid == each.gid and not each.uname for each in entries.values()))
        self.assertEqual({each.mtime for each in entries.values()}, {EPOCH})
        self.check_damage(layout)

    def check_damage(self, layout: Path) -> None:
        """Checks that a changed layer is found."""
        damaged = layout / json.loads((layout / "manifest.json").read_text())[0]["Layers"][1]
        data = damaged.read_bytes()
        damaged.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with self.assertRaisesRegex(Failed, "does not match its digest"):
            steps.unpack_image(layout, self.directory / "damaged")

    @unittest.skipUnless(HAS_GLIBC, "needs Debian with glibc 2.34")
    def test_libraries_have_packages_and_licences(self) -> None:
        found = libraries.libraries(Path("/bin/true"))
        self.assertIn("libc6", {each.package for each in found})
        (part, authorities) = libraries.parts([each for each in found if each.package == "libc6"])
        self.assertRegex(part.purl, r"^pkg:deb/\w+/libc6@\d")
        self.assertEqual((part.licence, authorities.name), ("LGPL-2.1-or-later", "certifi"))
        with self.assertRaisesRegex(ReleaseError, "licence of the Debian package `libother` is unknown"):
            libraries.parts([libraries.Library("/lib/libother.so", "libother", "1", "other=1")])


class Libraries(unittest.TestCase):
    def test_ldd_lists_libraries_and_the_loader(self) -> None:
        printed = "\tlinux-vdso.so.1 (0x00007)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007)\n\t/lib64/ld-linux.so.2 (0x00007)\n"
        self.assertEqual(libraries.parse_ldd(printed), ["/lib/x/libc.so.6", "/lib64/ld-linux.so.2"])
        self.assertEqual(libraries.parse_ldd("\tstatically linked\n"), [])
        with self.assertRaisesRegex(ReleaseError, "does not have the library `libx.so.1`"):
            libraries.parse_ldd("\tlibx.so.1 => not found\n")


class Sources(unittest.TestCase):
    def test_image_starts_like_the_containerfile(self) -> None:
        text = (ROOT / "dist" / "service" / "Containerfile").read_text().replace("\\\n", " ")

        def instruction(name: str) -> str:
            *_, last = re.finditer(rf"^{name} (.*)$", text, re.MULTILINE)
            return last[1]

        self.assertEqual(json.loads(instruction("ENTRYPOINT")), image.ENTRYPOINT)
        self.assertEqual(json.loads(instruction("CMD")), image.COMMAND)
        self.assertEqual(instruction("USER"), f"{image.USER}:{image.USER}")
        settings = dict(each.split("=", 1) for each in instruction("ENV").split())
        # The image has no code in the directory of the cache, so that the directory may be any volume.
        self.assertEqual(f"{settings.pop('GLOVEBOX_CACHE_DIR')}/code", image.ENVIRONMENT["GLOVEBOX_CACHE_DIR"])
        self.assertLessEqual(settings.items(), image.ENVIRONMENT.items())

    def test_debian_command_uses_its_interpreters_unless_the_environment_names_others(self) -> None:
        text = (debian.SOURCE / "glovebox").read_text()
        shown = text.replace("exec /usr/lib/glovebox/glovebox", "echo $GLOVEBOX_BUNDLE $GLOVEBOX_PREPARED")
        self.assertNotEqual(shown, text)
        for settings, expected in (
            ({}, "/usr/lib/glovebox/interpreters.zip /usr/lib/glovebox/prepared.zip a b"),
            ({"GLOVEBOX_BUNDLE": "", "GLOVEBOX_PREPARED": "/p"}, "/usr/lib/glovebox/interpreters.zip /p a b"),
        ):
            printed = subprocess.check_output(["/bin/sh", "-c", shown, "sh", "a", "b"], env=settings, text=True)
            self.assertEqual(printed.strip(), expected)

    def test_maintainer_scripts_enable_no_service_and_change_no_accounts(self) -> None:
        for name in ("postinst", "prerm", "postrm"):
            script = debian.SOURCE / name
            subprocess.run(["/bin/sh", "-n", script], check=True)
            code = [line for line in script.read_text().splitlines() if not line.startswith("#")]
            self.assertNotRegex("\n".join(code), r"\b(enable|start|adduser|useradd|chown)\b")

    def test_manual_matches_the_command(self) -> None:
        manual = (debian.SOURCE / "glovebox.1").read_text()
        codes = set(re.findall(r"^\.B (\d+)$", manual, re.MULTILINE))
        table = (ROOT / "docs" / "limits.md").read_text().partition("## Exit codes of `glovebox run`")[2].partition("\n## ")[0]
        self.assertEqual(codes, set(re.findall(r"^\| (\d+) \|", table, re.MULTILINE)) - {"0", "1"})
        arguments = (ROOT / "host" / "cli" / "src" / "args" / "mod.rs").read_text()
        for name in re.findall(r"^\.B (GLOVEBOX_\w+)$", manual, re.MULTILINE):
            self.assertIn(f'env = "{name}"', arguments)


class Archives(unittest.TestCase):
    def test_ar_members_are_padded(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            path = archives.write_ar(Path(scratch) / "a", [("odd", b"123"), ("even", b"12")], EPOCH)
            data = path.read_bytes()
        self.assertEqual(data[:8] + data[68:72], b"!<arch>\n123\n")
        self.assertEqual(data[72:88] + data[132:], b"even            12")

    def test_parents_are_added_and_keep_their_modes(self) -> None:
        entries = {"a/b/c": archives.file(b""), "a": archives.directory(0o700, 7)}
        found: dict[str, Any] = archives.with_parents(entries)
        self.assertEqual({name: each.mode for name, each in found.items()}, {"a": 0o700, "a/b": 0o755, "a/b/c": 0o644})


@unittest.skipUnless(can_enter(), "needs user namespaces")
class Roots(unittest.TestCase):
    def test_programs_have_no_capabilities_and_a_read_only_root(self) -> None:
        writes = "touch /made || echo no; echo 1 >/scratch/made; echo 2 >/kept/made"
        script = f'id -u; pwd; echo "$HOME" "$ROOT"; {writes}; grep CapEff: /proc/self/status'
        with tempfile.TemporaryDirectory() as scratch:
            base = Path(scratch)
            (base / "work").mkdir()
            settings = (("HOME", "/h"), ("PATH", "/bin"))
            room = RootRoom(base, root=base / "root", environment=settings, volumes=("kept",), borrowed=BORROWED, user=77)
            printed = room.run("sh", "-c", f"{{ {script}; }} 2>/dev/null; echo error >&2", with_errors=True).split()
            self.assertEqual(printed, ["77", "/scratch", "/h", "no", "CapEff:", "0" * 16, "error"])
            self.assertEqual((base / "work" / "made").read_text() + (base / "volumes" / "kept" / "made").read_text(), "1\n2\n")
            with self.assertRaisesRegex(Failed, "`sh -c exit 3` failed with exit code 3"):
                room.run("sh", "-c", "exit 3")


if __name__ == "__main__":
    unittest.main()
