"""A pytest plugin that compares a run with the list of tests that are expected not to pass.

The environment variable `EXPECTED` contains the path of the list. The first line of the list, `# N tests`, is the size
of the suite. A run fails if pytest collects a different number of tests. Each line `# REASON` is followed by the tests
that do not pass for this reason. `BLESS=1` writes the list instead of comparing it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def read(path: Path) -> tuple[int, dict[str, str]]:
    """Returns the number of tests, and the reason for each test that is expected not to pass."""
    first, *lines = path.read_text().splitlines()
    reasons: dict[str, str] = {}
    reason = "no reason"
    for line in filter(None, lines):
        if line.startswith("# "):
            reason = line[2:]
        elif line in reasons:
            raise pytest.UsageError(f"{path.name} lists `{line}` twice")
        else:
            reasons[line] = reason
    return int(first.split()[1]), reasons


def write(path: Path, total: int, reasons: dict[str, str]) -> None:
    lines = [f"# {total} tests"]
    for reason in dict.fromkeys(reasons.values()):
        lines += [f"# {reason}", *(name for name, its_reason in reasons.items() if its_reason == reason)]
    path.write_text("".join(f"{line}\n" for line in lines))


class Comparison:
    """Collects the outcomes of a run and compares them at its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.passed: dict[str, bool] = {}
        self.report: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # All tests are in one file, and its path depends on the checkout, so the name omits the path.
        name = report.nodeid.partition("::")[2]
        # A test has reports for its setup, its call and its teardown. All of them must pass.
        self.passed[name] = self.passed.get(name, True) and report.passed

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        # The run was interrupted, or a module cannot be imported: there is nothing to compare.
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        is_bless = os.environ.get("BLESS") == "1"
        total, reasons = (0, {}) if is_bless and not self.path.exists() else read(self.path)
        failed = [name for name, passed in self.passed.items() if not passed]
        self.report = [f"{len(self.passed) - len(failed)} of {len(self.passed)} passed"]
        if is_bless:
            known = {name: reason for name, reason in reasons.items() if name in failed}
            write(self.path, len(self.passed), known | {name: "add the reason" for name in failed if name not in known})
            session.exitstatus = pytest.ExitCode.OK
            return
        problems = [f"{name}: did not pass, and {self.path.name} does not list it" for name in failed if name not in reasons]
        for name in reasons:
            if self.passed.get(name, True):
                outcome = "passed" if name in self.passed else "not a test of this suite"
                problems.append(f"{name}: {outcome}; remove its line from {self.path.name}")
        if len(self.passed) != total:
            problems.append(f"{len(self.passed)} tests ran, and {self.path.name} says {total}")
        self.report = [*problems, *self.report]
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if problems else pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.report:
            terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Comparison(Path(os.environ["EXPECTED"])))
