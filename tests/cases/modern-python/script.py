match {"kind": "point", "at": [1, 2]}:
    case {"kind": "point", "at": [x, _]}:
        print("point", x)
if (n := len("four")) > 3:
    print(n)
print(f"{'x'}={f'{"a"!r}'}")


def first[T](items: list[T]) -> T:
    return items[0]


print(first([3]))
try:
    try:
        raise ValueError("v")
    except ValueError as error:
        error.add_note("note")
        raise
except ValueError as error:
    print(error.__notes__[0])
