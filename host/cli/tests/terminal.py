"""Runs a program at a new terminal and types what the steps on standard input specify.

Each line of standard input is a step: a JSON array of a string to wait for and a string to type. The first string must
occur in the program's output after the match of the previous step. After the last step, waits for the program to end, at most
`TIMEOUT_S` seconds from the start. Prints a JSON object with the program's `output`, its exit `code`, and the
`untyped` steps.
"""

import json
import os
import pty
import sys
import time

TIMEOUT_S = 120


def main():
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    os.set_blocking(terminal, False)
    output, seen, end = "", 0, time.monotonic() + TIMEOUT_S
    steps = [json.loads(line) for line in sys.stdin]
    while True:
        try:
            read = os.read(terminal, 65536)
        except BlockingIOError:
            read = None
        except OSError:
            break  # Linux reports the end of the program as an error.
        if read == b"":
            break
        if read is None:
            time.sleep(0.005)
        else:
            output += read.decode(errors="replace")
        if steps and steps[0][0] in output[seen:]:
            seen = output.index(steps[0][0], seen) + len(steps[0][0])
            os.write(terminal, steps.pop(0)[1].encode())
        if time.monotonic() > end:
            os.kill(child, 9)
            break
    _, status = os.waitpid(child, 0)
    print(json.dumps({"output": output, "code": os.waitstatus_to_exitcode(status), "untyped": steps}))


main()
