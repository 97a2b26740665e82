"""How long the sessions of a node wait when it is lost, from the history and from what the balancer logged."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import quantiles

from proof.faults import Injected
from proof.history import Operation, service

# Calls that begin within this time after a fault count as hit by it.
MET_S = 3.0


@dataclass(frozen=True)
class Takeover:
    """Seconds after the fault at which the sessions of the victim were answered: calls that were under way, and the first of the new ones."""

    kind: str
    under_way: list[float]
    first_new: float | None
    slowest_new: float | None


def takeover(fault: Injected, places: dict[str, str] | None, operations: list[Operation]) -> Takeover:
    """`places` says which service was on which host when the fault came; without it, all operations count."""
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
    """Of at least one value; of fewer than two, the value itself."""
    if len(values) < 2:
        return values[0] if values else None
    return quantiles(values, n=100, method="inclusive")[percent - 1]
