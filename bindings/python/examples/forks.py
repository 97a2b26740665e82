"""Searches for the best answers to a script's tool calls."""

from glovebox_sandbox import Run, Sandbox, Tool, WaitingRun

SCRIPT = """
EUROS = {"bus": 20, "train": 45, "plane": 120}
HOURS = {"bus": 9, "train": 5, "plane": 2}
trips = [tools.choose(city=city) for city in ["Bern", "Rome"]]
assert sum(HOURS[trip] for trip in trips) <= 10, "too long"
print(sum(EUROS[trip] for trip in trips), *trips)
"""


def choose(city: str) -> str:
    """Chooses how to travel to a city."""
    raise NotImplementedError("`search` answers the calls")


def search(run: Run | WaitingRun) -> list[Run]:
    """Returns one finished run for each combination of answers."""
    if isinstance(run, Run):
        return [run]
    (call,) = run.calls
    answers = ["bus", "train", "plane"]
    forks = run.fork(len(answers))
    return [end for fork, answer in zip(forks, answers, strict=True) for end in search(fork.answer({call.id: answer}))]


with Sandbox("python", tools=[Tool(choose, waits=True)]) as box:
    ends = search(box.start(SCRIPT))
    completed = [end.stdout for end in ends if end.outcome.kind == "completed"]
    print(len(ends), "ends,", len(completed), "completed")
    print("best:", min(completed, key=lambda text: int(text.split()[0])), end="")
