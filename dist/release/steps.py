"""The checks of a release in a clean environment. Each step is a function that returns a summary."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import textwrap
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import archives, image, inventory, provenance, sbom, statement, tools
from .places import NOTICES, ROOT, SUMS, TARGET, Release
from .room import TIMEOUT_S, Failed, RootRoom, Room

PYTHON_QUICK_START = "completed 45 b'hi'\nexhausted fuel\n42"
NODE_QUICK_START = "completed 45 hi\nexhausted fuel\n42"
COMPONENT_QUICK_START = "completed 45 True\nexhausted fuel\n42"
HELLO = (
    (("-e", "print(sum(range(10)))"), "45"),
    (("--language", "javascript", "-e", "console.log([1, 2, 3].map(x => x * x))"), "[ 1, 4, 9 ]"),
)
"""The first two commands of the README."""
FIRST_CALL = """from glovebox_sandbox import Sandbox; print(Sandbox("python").execute("{}print(1)").stdout)"""
MAX_FIRST_CALL_S = 5
"""Maximum duration of a first call in seconds: five times the goal, because other programs may use the machine."""


class Skipped(Exception):
    """A step was skipped. The message is the reason."""


@dataclass(frozen=True)
class Check:
    """The release to check, and the clean environment for it."""

    release: Release
    files: Path
    """A copy of the release's files that is visible in the room."""
    room: Room

    def one(self, pattern: str, product: str) -> Path:
        """Returns the file of a product. Skips the step if the product was not built."""
        found = sorted(self.files.glob(pattern))
        if len(found) > 1:
            raise Failed(f"found several files: {', '.join(each.name for each in found)}; rebuild with `dist/build`")
        if not found:
            raise Skipped(f"not built; run `dist/build --only {product}`")
        return found[0]

    @property
    def venv(self) -> Path:
        return self.room.base / "venv"

    def install(self, venv: Path, what: str | Path) -> None:
        """Installs a package with pip in a new virtual environment, without an index."""
        self.room.run("python3", "-m", "venv", venv)
        options = ("--quiet", "--disable-pip-version-check", "--no-index", "--find-links", self.files)
        self.room.run(venv / "bin" / "pip", "install", *options, what)


def same(what: str, found: str, expected: str) -> None:
    """Compares an output with the expected output."""
    if found.strip() != expected.strip():
        raise Failed(f"{what} printed\n{textwrap.indent(found.strip(), '    ')}\n  instead of\n{textwrap.indent(expected.strip(), '    ')}")


def block(page: str, heading: str, language: str) -> str:
    """Returns the first block of code in a section."""
    found = re.search(rf"^## {re.escape(heading)}\n.*?^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    if not found:
        raise Failed(f"README.md has no `{language}` block under `{heading}`")
    return found[1]


def transcript(text: str) -> list[tuple[str, str]]:
    """Returns the commands of a transcript with their outputs."""
    commands: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], ""))
        elif commands:
            commands[-1] = (commands[-1][0], commands[-1][1] + line + "\n")
    return commands


def checksums(check: Check) -> str:
    """Checks the files against their checksums."""
    if not (check.files / SUMS).is_file():
        raise Failed(f"`{SUMS}` is missing; make the directory with `dist/build`")
    if wrong := archives.wrong_sums(check.files):
        raise Failed("\n".join(wrong))
    return f"{len(list(check.files.iterdir())) - 1} files match {SUMS}"


def stated(check: Check) -> str:
    """Checks that the provenance statement describes all files, and a commit whose files were not changed."""
    file = check.one("*.provenance.json", "changes")
    text = json.loads(file.read_text())
    files = [each for each in check.files.iterdir() if each.name not in (SUMS, file.name)]
    if wrong := statement.differences(text, files):
        raise Failed("\n".join(wrong))
    source = text["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    commit, about = source["digest"]["gitCommit"], source["annotations"]
    changed = "; its files were changed before the build" if about["modified"] else ""
    return f"{len(files)} files, built from {about['tag'] or 'the untagged commit'} {commit[:12]}{changed}"


def tree(release: Release) -> set[tuple[str, str]]:
    """Returns the names and versions of the shipped crates, as listed by `cargo tree`."""
    members = json.loads(subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"], cwd=ROOT))
    names = [each["name"] for each in members["packages"] if each["name"] in inventory.SHIPPED]
    found = set()
    for name in names:
        target = "wasm32-unknown-unknown" if name == "glovebox-component" else release.triple
        arguments = ["--locked", "--edges", "normal,build", "--prefix", "none", "--target", target, "--package", name]
        for line in subprocess.check_output(["cargo", "tree", *arguments], cwd=ROOT, text=True).splitlines():
            crate, version = line.split()[:2]
            found.add((crate, version.removeprefix("v")))
    return found


def bill(check: Check) -> str:
    """Checks that the bill of materials is valid and lists every crate, and every part of the interpreters."""
    text = check.one("*.cdx.json", "sbom").read_text()
    if wrong := sbom.invalid(text):
        raise Failed(f"the bill of materials is not valid CycloneDX: {wrong}")
    components = json.loads(text)["components"]
    listed = {(each["name"], each["version"]) for each in components}
    inside = {part.purl for each in provenance.read()[1] for part in each.parts}
    if unlisted := sorted(inside - {each.get("purl") for each in components}):
        raise Failed(f"the bill of materials does not list these parts of interpreters: {', '.join(unlisted)}")
    detail = f"valid CycloneDX 1.6, {len(listed)} components"
    if not shutil.which("cargo"):
        return f"{detail}; not compared with `cargo tree`: cargo is not installed"
    crates = tree(check.release)
    if missing := sorted(crates - listed):
        raise Failed(f"the bill of materials does not list these crates of `cargo tree`: {', '.join(' '.join(each) for each in missing)}")
    return f"{detail}, including all {len(crates)} crates of `cargo tree`"


def interpreters(check: Check) -> str:
    """Compares the recorded provenance of the interpreters with the published wheels."""
    reviewed, recorded = provenance.read()
    if problem := provenance.review_problem(reviewed, datetime.datetime.fromtimestamp(check.release.epoch, datetime.UTC).date()):
        raise Failed(problem)
    try:
        wrong = provenance.compare(tomllib.loads((ROOT / provenance.MANIFEST).read_text()), recorded, provenance.download_wheel)
    except provenance.Unavailable as reason:
        raise Skipped(str(reason)) from reason
    if wrong:
        raise Failed("\n".join(wrong))
    parts = sum(len(each.parts) for each in recorded)
    return f"{len(recorded)} runtimes and {parts} parts match their publishers' wheels; vulnerabilities reviewed on {reviewed}"


def isolation(check: Check) -> str:
    """Checks that the environment is clean, so that the results of the other steps also hold on other machines."""
    connect = "import socket; socket.create_connection(('192.0.2.1', 80), 5)"
    detail = check.room.run("python3", "-c", f"try:\n {connect}\nexcept OSError as error: print(error)\nelse: print('connected')").strip()
    if "unreachable" not in detail:
        raise Failed(f"the environment has a network: {detail}")
    found = check.room.run("sh", "-c", "for each in cargo rustc rustup cc gcc clang ld; do command -v $each; done; true")
    if found:
        raise Failed(f"the environment has compilers: {found.strip()}")
    if check.room.run("ls", ROOT):
        raise Failed(f"the checkout `{ROOT}` is visible")
    return f"{detail}; no Rust, no compiler, no checkout, an empty home"


def wheel(check: Check) -> str:
    """Installs the wheels with pip and without an index, and checks that they contain their licences."""
    file = check.one("glovebox_sandbox-*-abi3-*.whl", "wheel")
    check.install(check.venv, file)
    site = next(check.venv.glob("lib/python*/site-packages"))
    installed = sorted(site.glob("glovebox_sandbox*.dist-info"))
    wanted = {"LICENSE", NOTICES, check.release.sbom.name}
    for each in installed:
        if missing := wanted - {file.name for file in each.glob("*/*")}:
            raise Failed(f"{each.name} does not contain {', '.join(sorted(missing))}")
    return f"pip installed {file.name}, {len(installed)} packages"


def timed_call(check: Check, venv: Path, imports: str) -> str:
    """Runs a first script with an empty cache, and returns its duration. Nothing may be compiled or booted."""
    started = time.monotonic()
    printed = check.room.run(venv / "bin" / "python", "-c", FIRST_CALL.format(imports), home=venv.name, with_errors=True)
    return first_call_result(printed, time.monotonic() - started)


def first_call_result(printed: str, seconds: float) -> str:
    """Checks the output of a first call, including its progress messages, and the duration."""
    if any(word in printed for word in ("compiling", "booting", "fetching")):
        raise Failed(f"the first call prepared an interpreter:\n{textwrap.indent(printed.strip(), '    ')}")
    same("the first call", (printed.strip().splitlines() or [""])[-1], "1")
    if seconds > MAX_FIRST_CALL_S:
        raise Failed(f"the first call took {seconds:.1f} s, more than {MAX_FIRST_CALL_S} s")
    return f"{seconds:.2f} s"


def first_call(check: Check) -> str:
    """Measures the first call after `pip install`, and the import of the package."""
    require_wheel(check)
    took = timed_call(check, check.venv, "")
    python = check.venv / "bin" / "python"
    printed = check.room.run(python, "-X", "importtime", "-c", "import glovebox_sandbox", with_errors=True)
    return f"print(1) took {took} (goal: 1 s), `import glovebox_sandbox` {import_ms(printed, 'glovebox_sandbox'):.0f} ms (goal: 30 ms)"


def import_ms(printed: str, module: str) -> float:
    """Returns the cumulative time of an import from the output of `python -X importtime`, in milliseconds."""
    for line in printed.splitlines():
        fields = [each.strip() for each in line.split("|")]
        if fields[-1] == module and len(fields) == 3:
            return int(fields[1]) / 1000
    raise Failed(f"`-X importtime` did not list `{module}`")


def first_data_call(check: Check) -> str:
    """Measures the first call that imports pandas, after `pip install glovebox-sandbox[data]`."""
    check.one("glovebox_sandbox_data-*.whl", "wheel")
    require_wheel(check)
    venv = check.room.base / "venv-data"
    check.install(venv, "glovebox-sandbox[data]")
    return f"import pandas took {timed_call(check, venv, 'import pandas; ')} (goal: 2 s)"


def quick_start(check: Check) -> str:
    """Runs the README's Python example unchanged."""
    require_wheel(check)
    script = check.room.work / "quickstart.py"
    script.write_text(block((ROOT / "README.md").read_text(), "From Python", "python"))
    same("README's Python example", check.room.run(check.venv / "bin" / "python", script), PYTHON_QUICK_START)
    return "README's Python example prints the expected output"


def require_wheel(check: Check) -> None:
    if not (check.venv / "bin" / "glovebox").is_file():
        raise Skipped("the wheel is not installed")


def first_run(room: Room, *command: str | Path, home: str = "user") -> str:
    """Runs a first script with an empty cache, and returns its duration. Nothing may be compiled or booted."""
    started = time.monotonic()
    printed = room.run(*command, "run", "-e", "print(1)", home=home, with_errors=True)
    return f"print(1) took {first_call_result(printed, time.monotonic() - started)}"


def hello(room: Room, *command: str | Path, home: str = "user") -> str:
    """Runs a script in each language."""
    for arguments, expected in HELLO:
        same(f"glovebox run {' '.join(arguments)}", room.run(*command, "run", *arguments, home=home), expected)
    (room.work / "typed.ts").write_text("const n: number = 6;\nconsole.log(n * 7);\n")
    same("glovebox run typed.ts", room.run(*command, "run", "typed.ts", home=home), "42")
    return "ran Python, JavaScript and TypeScript"


def wheel_command(check: Check) -> str:
    """Runs the command that the wheel installs."""
    require_wheel(check)
    return hello(check.room, check.venv / "bin" / "glovebox")


def uvx(check: Check) -> str:
    """Runs the wheel with `uvx`, from the directory of the release's files."""
    file = check.one("glovebox_sandbox-*-abi3-*.whl", "wheel")
    here = TARGET / "tools" / "uv" / "bin" / "uv"
    found = here if here.is_file() else shutil.which("uv")
    if not found:
        raise Skipped(f"uv is not installed; run: pip install --target target/tools/uv {' '.join(tools.pins()['tools']['uv'])}")
    uv = shutil.copy(found, check.room.base / "uv")
    offline = ("--offline", "--no-index", "--find-links", file.parent, "--no-python-downloads", "--python", check.room.bin / "python3")
    return hello(check.room, uv, "tool", "run", *offline, "--from", "glovebox-sandbox", "glovebox")


def unpack(file: Path, into: Path) -> Path:
    """Unpacks an archive and returns its only directory."""
    with tarfile.open(file) as archive:
        archive.extractall(into, filter="data")
    return into / file.name.removesuffix(".tar.gz")


def command(check: Check) -> str:
    """Runs the command from its archive, with the interpreters in the archive."""
    directory = unpack(check.one("glovebox-*-linux-*.tar.gz", "command"), check.room.base)
    for name in ("LICENSE", NOTICES, "README.md", "service/glovebox.service", "service/server.toml", "service/Containerfile"):
        if not (directory / name).is_file():
            raise Failed(f"the archive does not contain `{name}`")
    bundles = {"GLOVEBOX_BUNDLE": str(directory / "interpreters.zip"), "GLOVEBOX_PREPARED": str(directory / "prepared.zip")}
    program: tuple[str | Path, ...] = ("env", *(f"{name}={path}" for name, path in bundles.items()), directory / "glovebox")
    took = first_run(check.room, *program, home="command")
    detail = hello(check.room, *program, home="command")
    return f"{took}; {detail}; {shell(check, directory, bundles)}"


def shell(check: Check, directory: Path, bundles: dict[str, str]) -> str:
    """Runs each command of the README's shell transcript unchanged."""
    room = check.room.with_path(directory)
    (room.work / "data").mkdir()
    (room.work / "report.py").write_text("open('report.txt', 'w').write('done')\n")
    commands = transcript(block((ROOT / "README.md").read_text(), "From the shell", "console"))
    for line, expected in commands:
        same(f"`{line}`", room.run("sh", "-c", line, home="command", check=False, settings=bundles), expected)
    if (room.work / "data" / "report.txt").read_text() != "done":
        raise Failed("`--workspace ./data --commit on-success` did not write `data/report.txt`")
    return f"README's {len(commands)} commands print the expected output"


def debian_package(check: Check) -> str:
    """Unpacks the Debian package, checks it with lintian, and runs the command and the server's configuration in it."""
    file = check.one("glovebox_*.deb", "debian")
    if not shutil.which("dpkg-deb"):
        raise Skipped("dpkg-deb is not installed; run: apt-get install dpkg")
    root = check.room.base / "debian"
    subprocess.run(["dpkg-deb", "--raw-extract", file, root], check=True)
    check_md5sums(root)
    check_unit(root)
    shutil.rmtree(root / "DEBIAN")
    # Imitates an ordinary user of a Debian system. The libraries and the shell are this machine's.
    borrowed = ("bin", "lib", "lib64")
    settings = (("PATH", "/usr/bin:/bin"), ("HOME", "/home/user"), ("LANG", "C.UTF-8"))
    room = RootRoom(check.room.base, root=root, environment=settings, volumes=("home/user", "tmp"), borrowed=borrowed)
    took = first_run(room, "glovebox")
    detail = hello(room, "glovebox")
    room.run("glovebox", "serve", "--config", "/etc/glovebox/server.toml", "--check-config")
    return f"{took}; {detail}; the server's configuration is valid; {lintian(file)}"


def check_md5sums(root: Path) -> None:
    """Compares the unpacked files of a package with its checksums."""
    lines = (line.partition("  ") for line in (root / "DEBIAN" / "md5sums").read_text().splitlines())
    listed = {name: digest for digest, _, name in lines}
    files = {each.relative_to(root).as_posix(): each for each in root.rglob("*") if each.is_file()}
    found = {
        name: hashlib.md5(each.read_bytes(), usedforsecurity=False).hexdigest()
        for name, each in files.items()
        if not name.startswith("DEBIAN/")
    }
    if wrong := [name for name in sorted(listed.keys() | found.keys()) if listed.get(name) != found.get(name)]:
        raise Failed(f"the checksums of the package do not match: {', '.join(wrong)}")


def check_unit(root: Path) -> None:
    """Checks that the files that the service unit names are in the package."""
    text = (root / "usr/lib/systemd/system/glovebox.service").read_text()
    named = sorted(set(re.findall(r"/usr/lib/glovebox/[\w.-]+", text)))
    if missing := [each for each in named if not (root / each[1:]).is_file()]:
        raise Failed(f"glovebox.service names files that are not in the package: {', '.join(missing)}")
    if not named or "/opt/" in text:
        raise Failed("glovebox.service does not use the files in /usr/lib/glovebox")


def lintian(file: Path) -> str:
    """Fails if lintian reports an error in the package."""
    if not shutil.which("lintian"):
        return "lintian is not installed"
    arguments: list[str | Path] = ["lintian", "--allow-root", "--fail-on", "error", "--tag-display-limit", "0", file]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise Failed(f"lintian reports errors:\n{textwrap.indent((done.stdout + done.stderr).strip(), '    ')}")
    return "lintian reports no errors"


def container_image(check: Check) -> str:
    """Unpacks the layers of the container image, and runs its command with its user, its environment and a read-only root
    file system."""
    file = check.one("glovebox-*-oci.tar", "image")
    layout, root = check.room.base / "layout", check.room.base / "image"
    with tarfile.open(file) as archive:
        archive.extractall(layout, filter="data")
    configuration = unpack_image(layout, root)
    run = configuration["config"]
    user = int(run["User"].partition(":")[0])
    if user == 0:
        raise Failed("the image runs as root")
    environment = tuple((name, value) for name, _, value in (each.partition("=") for each in run["Env"]))
    volumes = tuple(each.strip("/") for each in (*run["Volumes"], "/tmp", "/run/secrets"))
    room = RootRoom(check.room.base, root=root, environment=environment, volumes=volumes, user=user)
    took = first_run(room, *run["Entrypoint"])
    detail = hello(room, *run["Entrypoint"])
    secrets = room.base / "volumes" / "run" / "secrets"
    (secrets / "token").write_text("token-of-dist-check-0123456789abcdef\n")
    # Only a configuration can be checked without starting the server.
    (room.work / "empty.toml").touch()
    room.run(*run["Entrypoint"], *run["Cmd"], "--config", "/scratch/empty.toml", "--check-config")
    return f"{took}; {detail} as user {user}; its command is valid"


def unpack_image(layout: Path, root: Path) -> dict[str, Any]:
    """Unpacks the layers of an image, checks all digests, and returns the configuration."""

    def blob(reference: dict[str, Any]) -> Path:
        path: Path = layout / "blobs" / reference["digest"].replace(":", "/")
        if not path.is_file() or path.stat().st_size != reference["size"] or f"sha256:{archives.sha256(path)}" != reference["digest"]:
            raise Failed(f"the blob {reference['digest']} of the image is missing, or does not match its digest")
        return path

    (manifest_reference,) = json.loads((layout / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(manifest_reference).read_text())
    configuration: dict[str, Any] = json.loads(blob(manifest["config"]).read_text())
    digests = configuration["rootfs"]["diff_ids"]
    if len(digests) != len(manifest["layers"]):
        raise Failed(f"the image has {len(manifest['layers'])} layers, but {len(digests)} digests of unpacked layers")
    for reference, digest in zip(manifest["layers"], digests, strict=True):
        packed = blob(reference)
        if image.digest_of_unpacked(packed) != digest:
            raise Failed(f"the unpacked layer {reference['digest']} does not match its digest")
        with tarfile.open(packed) as archive:
            archive.extractall(root, filter="data")
    return configuration


def npm(check: Check) -> str:
    """Installs the npm packages without a registry, and runs their quick start."""
    tarballs = sorted(check.files.glob("*.tgz"))
    if not tarballs:
        raise Skipped("not built; run `dist/build --only npm`")
    if not (check.room.bin / "npm").exists():
        raise Skipped("npm is not installed; install Node.js")
    project = check.room.work / "npm"
    project.mkdir()
    (project / "package.json").write_text('{"private": true, "type": "module"}\n')
    room = check.room
    room.run("npm", "install", "--offline", "--no-audit", "--no-fund", "--silent", "--omit=optional", *tarballs, cwd=project)
    # Require the native module, because the quick start would otherwise run on the component.
    platforms = [each for each in tarballs if each.name.startswith("glovebox-sandbox-linux-")]
    if not platforms or len(list(project.glob("node_modules/**/*.node"))) != len(platforms):
        raise Failed("no native module for Linux was installed")
    example = project / "quickstart.ts"
    example.write_text((ROOT / "bindings" / "js" / "examples" / "quickstart.ts").read_text())
    printed = room.run("node", "--disable-warning=ExperimentalWarning", example, cwd=project)
    same("the quick start", printed, NODE_QUICK_START)
    return f"npm installed {', '.join(each.name for each in tarballs)}; the quick start prints the expected output"


def providers(check: Check) -> str:
    """Runs a provider component in wasmtime-py."""
    directory = unpack(check.one("glovebox-*-providers.tar.gz", "providers"), check.room.base)
    if not (directory / NOTICES).is_file():
        raise Failed(f"the archive does not contain `{NOTICES}`")
    require_wheel(check)
    library = TARGET / "tools" / "wasmtime-py"
    if not (library / "wasmtime").is_dir():
        raise Skipped("unpacked, but wasmtime-py is not installed; run: tests/programs/build wasmtime-py")
    copy = shutil.copytree(library, check.room.base / "wasmtime-py")
    script = shutil.copy(ROOT / "bindings" / "python" / "examples" / "component.py", check.room.work)
    printed = check.room.run(check.venv / "bin" / "python", script, cwd=directory, settings={"PYTHONPATH": str(copy)})
    same("the provider's quick start", printed, COMPONENT_QUICK_START)
    return f"{directory.name} runs in wasmtime-py"


def rust(check: Check) -> str:
    """Skips the README's Rust example, which the tests of the repository run."""
    raise Skipped("the clean environment has no Rust; `cargo test` compiles and runs the example")


STEPS = {
    "checksums": checksums,
    "provenance statement": stated,
    "bill of materials": bill,
    "provenance of the interpreters": interpreters,
    "clean environment": isolation,
    "wheel": wheel,
    "first call in Python": first_call,
    "first call with pandas": first_data_call,
    "quick start in Python": quick_start,
    "the wheel's command": wheel_command,
    "uvx": uvx,
    "archive of the command": command,
    "Debian package": debian_package,
    "container image": container_image,
    "npm packages": npm,
    "providers": providers,
    "quick start in Rust": rust,
}
