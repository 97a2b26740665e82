from sandbox_utils import diff, echo, head, sed, tail, wc

echo("\n".join(f"line {i}" for i in range(1, 26)), "long.txt")
print(head("long.txt").count("\n"), repr(head("long.txt", lines=2)), repr(head("long.txt", 0)))
print(
    repr(tail("long.txt", lines=2)), tail("long.txt").count("\n"), repr(tail("long.txt", 0)), len(tail("long.txt", 99))
)
with open("words.txt", "w") as file:
    file.write("ein Wort\n\nzwei Wörter\x0bdrei  ")
print(wc("words.txt"))
print(
    sed(r"foo(\d+)", r"bar\1", "foo1 foo22 foo"),
    sed("o", "0", "foo boo", count=2),
    sed(r"\w+", lambda m: m[0].title(), "a bc"),
)
echo("one\ntwo\nthree", "old.txt")
with open("new.txt", "w") as file:
    file.write("one\n2\nthree")
print(diff("old.txt", "new.txt"), end="")
print(repr(diff("old.txt", "old.txt")), diff("old.txt", "new.txt", context=0).count("\n"))
for attempt in [
    lambda: head("long.txt", -1),
    lambda: sed("a", "b", open("old.txt")),
    lambda: sed("*", "b", "x"),
    lambda: tail("none"),
]:
    try:
        attempt()
    except (OSError, TypeError, ValueError) as error:
        print(type(error).__name__, str(error).split(" at 0x")[0])
