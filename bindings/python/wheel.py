"""Builds a wheel: `glovebox-sandbox` with a compiled native module, `glovebox-sandbox` without one for all platforms,
or a package of interpreters (`--part`). Maturin is not used, because it would select different Cargo features and
rebuild Wasmtime. The wheel is reproducible: its entries are sorted, and their time is SOURCE_DATE_EPOCH, in seconds
since 1970. The default time is the start of 1980, the earliest time in zip files.

Prints the wheel's path.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent
SOURCE = ROOT / "src"
NATIVE = "glovebox_sandbox/_native.abi3.so"
PARTS = {
    "python": "CPython 3.15 with numpy, pandas and other libraries, compiled to WebAssembly, for glovebox-sandbox",
    "data": "Machine code of numpy, pandas and other libraries, and an interpreter that has imported them, for glovebox-sandbox",
}
"""The packages of interpreters, with their summaries. `glovebox-sandbox` with a native module requires the first
package; the second package is an extra."""


def metadata(project: str, readme: str, licences: list[str], part: str | None, is_native: bool) -> tuple[str, str, str]:
    """Returns the wheel's name with its version, and the contents of METADATA and entry_points.txt."""

    def key(name: str) -> str:
        found = re.search(rf'^{name} = "(.*)"$', project, re.MULTILINE)
        if found is None:
            raise SystemExit(f'pyproject.toml has no line `{name} = "…"`')
        return found[1]

    name, version = key("name"), key("version")
    groups = re.search(r"^\[project\.optional-dependencies\]\n(.*?)^\[", project, re.MULTILINE | re.DOTALL)
    extras = re.findall(r'^([a-z]+) = \["(.*)"\]$', groups[1] if groups else "", re.MULTILINE)
    script = re.search(r"^\[project\.scripts\]\n(.*)$", project, re.MULTILINE)
    if not extras or script is None:
        raise SystemExit("pyproject.toml needs entries in [project.optional-dependencies] and [project.scripts]")
    summary, requirements, entry = key("description"), [], script[1].replace('"', "")
    if part:
        readme, summary, extras, entry = f"{PARTS[part]}.\n", PARTS[part], [], ""
    # A prepared bundle is only valid for the version that created it, so the requirement is exact. pip reports a
    # conflict if one package alone is upgraded.
    if part == "data":
        requirements.append(f"{name}=={version}")
    elif is_native:
        requirements.append(f"{name}-python=={version}")
        extras.append(("data", f"{name}-data=={version}"))
    name += f"-{part}" if part else ""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {name}",
        f"Version: {version}",
        f"Summary: {summary}",
        f"License-Expression: {key('license')}",
        *(f"License-File: {each}" for each in licences),
        f"Requires-Python: {key('requires-python')}",
        *(f"Requires-Dist: {each}" for each in requirements),
    ]
    for extra, requirement in extras:
        lines += [f"Provides-Extra: {extra}", f"Requires-Dist: {requirement} ; extra == '{extra}'"]
    lines += ["Description-Content-Type: text/markdown", "", readme]
    return f"{name.replace('-', '_')}-{version}", "\n".join(lines), entry and f"[console_scripts]\n{entry}\n"


def platform() -> str:
    """Returns the wheel tag of this platform: its operating system and its processor."""
    tag = subprocess.check_output(
        [sys.executable, "-c", "import sysconfig; print(sysconfig.get_platform())"], text=True
    ).strip()
    return re.sub(r"[-.]", "_", tag)


def date() -> tuple[int, int, int, int, int, int]:
    """Returns the modification time of the entries."""
    since = int(os.environ.get("SOURCE_DATE_EPOCH") or 0)
    year, month, day, hour, minute, second = time.gmtime(since)[:6]
    return (year, month, day, hour, minute, second) if year >= 1980 else (1980, 1, 1, 0, 0, 0)


def stripped(module: Path) -> bytes:
    """Returns the module without its symbols, which make up a quarter of its size."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "module"
        subprocess.run(["strip", "-o", path, module], check=True)
        return path.read_bytes()


def entries(part: str | None, module: bytes | None, bundles: Path) -> list[tuple[str, bytes]]:
    """Returns the names and contents of the files in the wheel."""
    package = f"glovebox_sandbox_{part}" if part else "glovebox_sandbox"
    found = []
    if part:
        found.append((f"{package}/__init__.py", f'"""{PARTS[part]}."""\n'.encode()))
    else:
        for file in SOURCE.rglob("*"):
            name = file.relative_to(SOURCE).as_posix()
            if file.is_file() and "__pycache__" not in name and file.suffix not in (".so", ".zip"):
                found.append((name, file.read_bytes()))
    if module:
        found.append((NATIVE, module))
    if part or module:
        interpreters = sorted((bundles / (part or "engine")).glob("*.zip"))
        if not interpreters:
            raise SystemExit(f"there are no interpreters in {bundles / (part or 'engine')}; make them with: bindings/python/build")
        found += [(f"{package}/{file.name}", file.read_bytes()) for file in interpreters]
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, metavar="DIRECTORY")
    parser.add_argument("module", type=Path, nargs="?", metavar="MODULE")
    parser.add_argument("--tag", help="the platform's tag, such as manylinux_2_28_x86_64 [default: this machine's, linux_…]")
    parser.add_argument("--part", choices=PARTS, help="build the package of these interpreters")
    parser.add_argument(
        "--bundles", type=Path, default=ROOT / "../../target/bundles/dev", help="the interpreters [default: those of `build --dev`]"
    )
    parser.add_argument("--notices", type=Path, help="third-party licences to copy into dist-info/licenses")
    parser.add_argument("--sbom", type=Path, help="bill of materials to copy into dist-info/sboms")
    parser.add_argument("--no-strip", action="store_true", help="do not run `strip`, because the module has no symbols")
    given = parser.parse_args()

    licences = [("LICENSE", ROOT / "LICENSE")]
    if given.notices:
        licences.append((given.notices.name, given.notices))
    named, text, scripts = metadata(
        (ROOT / "pyproject.toml").read_text(), (ROOT / "README.md").read_text(), [name for name, _ in licences], given.part,
        given.module is not None,
    )  # fmt: skip
    is_pure = not given.module and given.part != "data"
    interpreter = "cp310-abi3" if given.module else "py3-none"
    tag = f"{interpreter}-{'any' if is_pure else given.tag or platform()}"
    info = f"{named}.dist-info"
    about = f"Wheel-Version: 1.0\nGenerator: glovebox\nRoot-Is-Purelib: {str(is_pure).lower()}\nTag: {tag}\n"
    module = None
    if given.module:
        module = given.module.read_bytes() if given.no_strip else stripped(given.module)
    files = entries(given.part, module, given.bundles)
    files += [(f"{info}/licenses/{name}", path.read_bytes()) for name, path in licences]
    if given.sbom:
        files.append((f"{info}/sboms/{given.sbom.name}", given.sbom.read_bytes()))
    written = {"METADATA": text, "WHEEL": about, "entry_points.txt": scripts}
    files += [(f"{info}/{name}", contents.encode()) for name, contents in written.items() if contents]

    given.directory.mkdir(parents=True, exist_ok=True)
    path = given.directory / f"{named}-{tag}.whl"
    record = []
    stamp = date()
    with zipfile.ZipFile(path, "w") as wheel:

        def add(name: str, contents: bytes) -> None:
            entry = zipfile.ZipInfo(name, stamp)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            # Archives are already compressed.
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(".zip") else zipfile.ZIP_DEFLATED
            wheel.writestr(entry, contents, compresslevel=6)

        for name, contents in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(contents)}")
            add(name, contents)
        add(f"{info}/RECORD", ("\n".join([*record, f"{info}/RECORD,,"]) + "\n").encode())
    print(path)


main()
