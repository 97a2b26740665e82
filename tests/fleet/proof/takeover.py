"""The waiting time of a lost node's sessions, from the history and the balancer's log."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import quantiles

from proof.faults import Injected
from proof.history import Operation, service

# A call that starts within this time after a fault is attributed to it.
MET_S = 3.0


@dataclass(frozen=True)
class Takeover:
    """Waiting times of the victim's sessions in seconds. `under_way` and `first_new`: from the fault to the answer to
    each call in progress, and to the first new call. `slowest_new`: the duration of the slowest new call."""

    kind: str
    under_way: list[float]
    first_new: float | None
    slowest_new: float | None


def takeover(fault: Injected, places: dict[str, str] | None, operations: list[Operation]) -> Takeover:
    """Measures takeovers. `places` maps services to their hosts at the time of the fault; without it, all operations
    count."""
    met = [
        operation
        for operation in operations
        if operation.ended is not None and operation.outcome == "ok" and (places is None or places.get(service(operation.session)) == fault.victim)
    ]
    under_way = [each.ended - fault.begun for each in met if each.ended is not None and each.begun < fault.begun < each.ended]
    new = [each for each in met if fault.begun <= each.begun < fault.begun + MET_S]
    return Takeover(
        kind=fault.kind,
        under_way=sorted(under_way),
        first_new=min((each.ended - fault.begun for each in new if each.ended is not None), default=None),
        slowest_new=max((each.seconds for each in new), default=None),
    )


def percentile(values: list[float], percent: int) -> float | None:
    """Returns a percentile, or `None` if there are no values. The percentile of a single value is the value itself."""
    if len(values) < 2:
        return values[0] if values else None
    return quantiles(values, n=100, method="inclusive")[percent - 1]
