"""A run: all contestants in turn, measure by measure, round by round."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .contestants import Contestant, environment_variables, home_of
from .driver import Driver, Failed
from .environments import Environment, Places, say, size_bytes
from .measures import MEASURES, Measure

# Timeout of the first call. Preparing CPython 3.15 takes minutes on a busy machine.
FIRST_SECONDS = 900.0


@dataclass
class Cell:
    """The figures of a contestant for one measure."""

    rounds_ms: list[float] = field(default_factory=list)
    """The median of each round, in milliseconds."""
    rounds_bytes: list[int] = field(default_factory=list)
    """The size of the suspended script in each round, if the measure has one."""
    failed: str | None = None
    """The reason why there is no figure, or the first wrong answer, which ends the measure."""
    lacks: bool = False

    def median_ms(self) -> float:
        return statistics.median(self.rounds_ms)

    def least_ms(self) -> float:
        return min(self.rounds_ms)

    def median_bytes(self) -> int:
        return statistics.median_high(self.rounds_bytes)


@dataclass
class Entry:
    """An available contestant with its figures."""

    contestant: Contestant
    environment: Environment
    cells: dict[str, Cell]
    versions: dict[str, str] = field(default_factory=dict)
    first_ms: float | None = None
    """Time from the start of its process, with empty caches, to the first answer, in milliseconds."""
    installed_bytes: int = 0
    cache_bytes: int | None = None
    """Size of the caches that the first call has written, in bytes."""
    failed: str | None = None
    driver: Driver | None = None

    def problems(self) -> list[str]:
        of_cells = [f"{name}: {cell.failed}" for name, cell in self.cells.items() if cell.failed]
        return [self.failed] if self.failed else of_cells


@dataclass(frozen=True)
class Plan:
    rounds: int
    budget_ms: float
    timeout_s: float
    first: bool
    """True if the very first call is measured, which empties the contestants' caches."""
    measures: Sequence[Measure] = MEASURES


def empty_cells(contestant: Contestant, measures: Sequence[Measure]) -> dict[str, Cell]:
    return {each.name: Cell(lacks=each.name in contestant.lacks) for each in measures}


class Run:
    def __init__(self, entries: Sequence[Entry], places: Places, plan: Plan) -> None:
        self.entries = list(entries)
        self.places = places
        self.plan = plan
        self.process = next(each for each in plan.measures if each.do == "process")

    def start(self, entry: Entry, *, own_cache: bool = False) -> Driver:
        contestant = entry.contestant
        home = home_of(contestant, self.places)
        home.mkdir(parents=True, exist_ok=True)
        return Driver(
            contestant.command(entry.environment, self.places),
            environment_variables(contestant, self.places, own_cache=own_cache),
            entry.environment.node if entry.environment.node.is_dir() else home,
            self.places.root / "log" / f"{contestant.name}.txt",
        )

    def until_answered(self, entry: Entry, driver: Driver, timeout_s: float) -> float:
        """Returns the time from the start of a driver to its first answer."""
        result = driver.ask(self.process, entry.contestant.language, 0, timeout_s)
        took_ms = (time.perf_counter() - driver.begun) * 1e3
        wrong = self.process.check(result["answers"])
        if wrong:
            raise Failed(f"wrong answer: {wrong}")
        return took_ms

    def prepare(self, entry: Entry) -> None:
        """Makes the first call with empty caches, if it is measured, and then a call that fills the caches."""
        home = home_of(entry.contestant, self.places)
        empties = self.plan.first and not entry.contestant.optional and entry.contestant.environment is not None
        # A contestant's progress messages go to its log.
        say(f"{entry.contestant.name}: the first call{' after installing' if empties else ''}")
        if empties:
            shutil.rmtree(home, ignore_errors=True)
        was_empty = not home.exists()
        for own_cache in (True, False) if empties else (False,):
            driver = self.start(entry, own_cache=own_cache)
            try:
                took_ms = self.until_answered(entry, driver, FIRST_SECONDS)
            except Failed as failed:
                entry.failed = str(failed)
                say(f"{entry.contestant.name}: {failed}")
                return
            finally:
                driver.close()
            if own_cache and was_empty:
                entry.first_ms = took_ms
                entry.cache_bytes = size_bytes(home)

    def spawned_ms(self, command: Sequence[str]) -> float:
        begun = time.perf_counter()
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=self.plan.timeout_s, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise Failed(f"timeout: no answer within {self.plan.timeout_s:g} s") from None
        took_ms = (time.perf_counter() - begun) * 1e3
        wrong = self.process.check([ended.stdout.strip()])
        if wrong:
            raise Failed(f"wrong answer: {wrong}")
        return took_ms

    def measure(self, entry: Entry, measure: Measure) -> float:
        """Returns the median of one turn."""
        contestant = entry.contestant
        if measure.do == "process" and contestant.process is not None:
            return self.spawned_ms(contestant.process(self.places))
        if entry.driver is None or not entry.driver.alive() or measure.do == "process":
            if entry.driver is not None:
                entry.driver.close()
            entry.driver = self.start(entry)
            took_ms = self.until_answered(entry, entry.driver, self.plan.timeout_s)
            if measure.do == "process":
                return took_ms
        result = entry.driver.ask(measure, contestant.language, self.plan.budget_ms, self.plan.timeout_s)
        wrong = measure.check(result["answers"])
        if wrong:
            raise Failed(f"wrong answer: {wrong}")
        if "bytes" in result:
            entry.cells[measure.name].rounds_bytes.append(result["bytes"])
        ms: list[float] = result["ms"]
        return statistics.median(ms)

    def turn(self, entry: Entry, measure: Measure) -> None:
        cell = entry.cells[measure.name]
        if entry.failed or cell.lacks or cell.failed:
            return
        try:
            cell.rounds_ms.append(self.measure(entry, measure))
        except Failed as failed:
            cell.failed = str(failed)
            say(f"{entry.contestant.name}, {measure.name}: {failed}")

    def run(self, progress: Callable[[str], None] = say) -> None:
        try:
            for entry in self.entries:
                self.prepare(entry)
            # The measure `process` is the first, because it starts the driver for the other measures.
            measures = [self.process, *(each for each in self.plan.measures if each is not self.process)]
            for number in range(self.plan.rounds):
                progress(f"round {number + 1} of {self.plan.rounds}")
                # Rotates the order, so that a contestant follows a different one in each round.
                first = number % max(len(self.entries), 1)
                order = self.entries[first:] + self.entries[:first]
                for measure in measures:
                    for entry in order:
                        self.turn(entry, measure)
                self.close()
        finally:
            self.close()

    def close(self) -> None:
        for entry in self.entries:
            if entry.driver is not None:
                entry.driver.close()
                entry.driver = None
