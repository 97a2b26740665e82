"""Makes a wheel without maturin: of a native module that is built already, for tests, since maturin would select Cargo's features anew and
build Wasmtime again; or of none, for any platform.

usage: wheel.py DIRECTORY [MODULE]      prints the wheel's path
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent
SOURCE = ROOT / "src"
NATIVE = "glovebox_sandbox/_native.abi3.so"
BUNDLE = "glovebox_sandbox/interpreters.zip"


def metadata(project: str) -> tuple[str, str, str]:
    """Name and version, the file METADATA and the file entry_points.txt."""

    def key(name: str) -> str:
        found = re.search(rf'^{name} = "(.*)"$', project, re.MULTILINE)
        if found is None:
            raise SystemExit(f"pyproject.toml has no {name}")
        return found[1]

    name, version = key("name"), key("version")
    groups = re.search(r"^\[project\.optional-dependencies\]\n(.*?)^\[", project, re.MULTILINE | re.DOTALL)
    extras = re.findall(r'^([a-z]+) = \["(.*)"\]$', groups[1] if groups else "", re.MULTILINE)
    script = re.search(r"^\[project\.scripts\]\n(.*)$", project, re.MULTILINE)
    if not extras or script is None:
        raise SystemExit("pyproject.toml has no optional dependencies or no script")
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        f"Requires-Python: {key('requires-python')}",
    ]
    for extra, requirement in extras:
        lines += [f"Provides-Extra: {extra}", f"Requires-Dist: {requirement} ; extra == '{extra}'"]
    entry = script[1].replace('"', "")
    return f"{name.replace('-', '_')}-{version}", "\n".join(lines) + "\n", f"[console_scripts]\n{entry}\n"


def platform() -> str:
    """The tag of this platform."""
    tag = subprocess.check_output(
        [sys.executable, "-c", "import sysconfig; print(sysconfig.get_platform())"], text=True
    ).strip()
    return re.sub(r"[-.]", "_", tag)


def main(directory: Path, module: Path | None) -> None:
    named, text, scripts = metadata((ROOT / "pyproject.toml").read_text())
    tag = f"cp310-abi3-{platform()}" if module else "py3-none-any"
    info = f"{named}.dist-info"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{named}-{tag}.whl"
    record = []
    with (
        tempfile.TemporaryDirectory() as scratch,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as wheel,
    ):

        def add(name: str, contents: bytes) -> None:
            is_compressed = name.endswith(".zip")
            wheel.writestr(name, contents, zipfile.ZIP_STORED if is_compressed else zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(contents)}")

        for file in sorted(SOURCE.rglob("*")):
            name = file.relative_to(SOURCE).as_posix()
            if file.is_file() and "__pycache__" not in name and name not in (NATIVE, BUNDLE):
                add(name, file.read_bytes())
        if module:
            stripped = Path(scratch) / "module"
            subprocess.run(["strip", "-o", stripped, module], check=True)
            add(NATIVE, stripped.read_bytes())
            add(BUNDLE, (SOURCE / BUNDLE).read_bytes())
        add(f"{info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes())
        add(f"{info}/METADATA", text.encode())
        add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: glovebox\nRoot-Is-Purelib: {str(not module).lower()}\nTag: {tag}\n".encode())
        add(f"{info}/entry_points.txt", scripts.encode())
        wheel.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    print(path)


main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
