"""The command line of `dist/build`."""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import archives, dry_run, products, statement
from .compiling import compile_all
from .places import SUMS, Release, ReleaseError, release

ABOUT = """\
Builds a release from the checked-out commit: the files to upload, in one directory, with their checksums and a provenance statement.

Compiles the whole workspace once, for the command and for the native modules of Python and Node.js. This takes about 20 minutes on two
cores the first time, and seconds afterwards. zig links releases against an old C library, so that they also run on older systems. Requires
Linux, Rust, a C compiler, Python 3.11 or later with pip, and npm for the npm packages. pip installs all other tools, in pinned versions,
in target/tools. Interpreters that are missing from the cache are downloaded and compiled, as `glovebox run` does. pip also downloads the
wheel with their licences."""
EXAMPLES = """\

Builds are reproducible: the same commit, compiler and pins produce the same bytes. Paths of this machine are removed. Files in archives are
sorted, and have the time of the commit or of SOURCE_DATE_EPOCH. --check-reproducible packs everything twice and compares the results. The
container image also contains this machine's C library: build it on Debian, and reproduce it with the same version of the library.
DEBFULLNAME and DEBEMAIL set the maintainer of the Debian package. The default is the author of the commit.

Examples:
  dist/build                               build everything into target/release-files/release
  dist/build --only wheel                  build the Python packages, to install with pip
  dist/build --only debian,image           build a Debian package and a container image of the command
  dist/build --dry-run                     check in seconds that this commit can be released; print what to publish, and how
  dist/build --dev --check-reproducible    pack the existing development build twice
  dist/check                               install the result without Rust, compiler and network, and run the quick starts"""


def arguments() -> argparse.Namespace:
    kinds = "\n".join(f"  {name:<11} {what}" for name, (what, _) in products.PRODUCTS.items())
    parser = argparse.ArgumentParser(
        prog="dist/build",
        description=ABOUT,
        epilog=f"Products:\n{kinds}\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dev", action="store_true", help="pack the development build, for tests; does not compile Wasmtime again")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the output directory [default: target/release-files/release, or …/dev with --dev]")
    parser.add_argument("--only", metavar="NAMES", help="the products to build, separated by commas [default: all]")
    parser.add_argument("--check-reproducible", action="store_true", help="pack everything again in another directory, and compare the bytes")
    parser.add_argument("--dry-run", action="store_true", help="build nothing: list all problems of a release, the files to publish, and the commands for it")
    parser.add_argument("--json", action="store_true", help="with --dry-run: print JSON")
    given = parser.parse_args()
    if given.dry_run and (given.dev or given.only or given.check_reproducible):
        parser.error("--dry-run is about a whole release; omit --dev, --only and --check-reproducible")
    if given.json and not given.dry_run:
        parser.error("--json requires --dry-run")
    return given


def chosen(names: str | None) -> list[str]:
    """Returns the products with these names."""
    wanted = list(products.PRODUCTS) if names is None else [each.strip() for each in names.split(",")]
    for name in wanted:
        if name not in products.PRODUCTS:
            raise ReleaseError(f"unknown product `{name}`; use {', '.join(products.PRODUCTS)}")
    return [name for name in products.PRODUCTS if name in wanted]


def make(made: Release, names: list[str]) -> list[Path]:
    """Makes products, and prints the duration of each."""
    files = []
    for what, step in [("interpreters, notices, bill of materials", None), *((name, products.PRODUCTS[name][1]) for name in names)]:
        print(f"== {what}", flush=True)
        started = time.monotonic()
        if step is None:
            products.prepare(made, names)
        else:
            files += step(made)
        print(f"  {time.monotonic() - started:.0f} s", flush=True)
    return files


def different(made: Release, files: list[Path], names: list[str]) -> list[str]:
    """Packs the files again, and returns the files with different bytes."""
    with tempfile.TemporaryDirectory() as scratch:
        again = dataclasses.replace(made, out=Path(scratch) / "out", work=Path(scratch) / "work")
        again.out.mkdir()
        again.work.mkdir()
        made_again = {each.name: archives.sha256(each) for each in make(again, names)}
    wrong = [each.name for each in files if made_again.get(each.name) != archives.sha256(each)]
    return wrong + sorted(made_again.keys() - {each.name for each in files})


def build() -> int:
    given = arguments()
    if given.dry_run:
        return dry_run.dry_run(release(given.out, False), given.json)
    names = chosen(given.only)
    made = release(given.out, given.dev)
    for directory in (made.out, made.work):
        directory.mkdir(parents=True, exist_ok=True)
    print(f"== compiling {'the development build' if given.dev else 'the release'}", flush=True)
    started = time.monotonic()
    compile_all(made)
    print(f"  {time.monotonic() - started:.0f} s", flush=True)
    if given.only is None:
        archives.remove_listed(made.out)
    files = make(made, names)
    if given.check_reproducible:
        print("== everything again", flush=True)
        if wrong := different(made, files, names):
            raise ReleaseError(f"not reproducible: {', '.join(wrong)} differ after packing twice")
        print(f"== reproducible: {len(files)} files")
    statement.write(made)
    archives.write_sums(made.out)
    print(f"\n{made.out}")
    for each in files:
        print(f"  {each.stat().st_size / 1e6:9.2f} MB  {each.name}")
    print(f"  provenance in {made.statement.name}, checksums in {SUMS}; install and test with: dist/check {made.out}")
    return 0


def main() -> int:
    try:
        return build()
    except ReleaseError as error:
        print(f"dist/build: {error}", file=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"dist/build: {error}", file=sys.stderr)
    return 1
