import attr
from attrs import define, evolve, field, validators


@define
class Point:
    x: int = field(converter=int)
    y: int = field(default=0, validator=validators.ge(0))


print(Point("3"), evolve(Point(1, 2), y=5), attr.asdict(Point(1)))
try:
    Point(1, -1)
except ValueError as error:
    print(error)
