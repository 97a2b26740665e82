# Reads an input from standard input. Exit code 0: the input needs more lines. 1: it can run.
# A compound statement ends with an empty line, as in the interactive interpreter.
import sys

ONLY_AST, DONT_IMPLY_DEDENT, ALLOW_INCOMPLETE_INPUT = 0x400, 0x200, 0x4000
typed = sys.stdin.read()
try:
    tree = compile(typed + "\n", "<input>", "exec", ONLY_AST | DONT_IMPLY_DEDENT | ALLOW_INCOMPLETE_INPUT)
except SyntaxError as error:
    more = "incomplete input" in str(error)
except Exception:
    more = False
else:
    last = tree.body[-1] if tree.body else None
    more = (hasattr(last, "body") or hasattr(last, "cases")) and not typed.endswith("\n")
sys.exit(0 if more else 1)
