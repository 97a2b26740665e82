"""Runs a program at a terminal of its own and types to it.

Standard input has one JSON array a line: [a text to wait for in what the program wrote since the last one, what to type
then]. When all is typed, waits for the program's end and prints {"output": all that it wrote, "code": its exit code}.
"""

import json
import os
import pty
import sys
import time

PATIENCE_S = 120


def main():
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    os.set_blocking(terminal, False)
    output, seen, end = "", 0, time.monotonic() + PATIENCE_S
    steps = [json.loads(line) for line in sys.stdin]
    while True:
        try:
            read = os.read(terminal, 65536)
        except BlockingIOError:
            read = None
        except OSError:
            break  # Linux says so when the program has gone.
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
