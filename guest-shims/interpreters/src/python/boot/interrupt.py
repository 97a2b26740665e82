"""The exception that a script receives when the host asks it to stop.

The host does the work of the C signal handler (see interrupt.rs). The interpreter then calls `interrupted` between two
instructions of the script. WASI has no signals, so only the host and the script itself raise SIGINT.
"""


class Interrupted(KeyboardInterrupt):
    """Raised in a script that is about to reach a limit or that was cancelled."""

    __module__ = "builtins"  # for tracebacks and `repr`


REASONS = (
    "",
    "the fuel limit is nearly reached",
    "the time limit is nearly reached",
    "the execution was cancelled",
)
reason = bytearray(4)  # the host writes an index of REASONS here
running = False  # whether the script's code is running, not the driver's
exchanging = False  # whether the script is waiting for the host, in boot/tools.py
held_back = None  # the exception to raise after the exchange


@functools.wraps(signal.default_int_handler)
def interrupted(number, frame):
    # The handler for SIGINT.
    global held_back
    which, reason[0] = reason[0], 0
    if running:
        error = Interrupted(REASONS[which]) if which else KeyboardInterrupt()
        if exchanging:
            held_back = error
            return
        loop = running_loop()
        if loop is None or "/asyncio/" not in frame.f_code.co_filename:
            raise error
        # An exception inside the event loop's code could lose a task, and the loop would wait for that task forever.
        loop.call_soon(throw, error)


def throw(error):
    raise error


def rearm():
    """Restores the handler after a script replaced it, or after an interrupt arrived when the script had ended. A late
    interrupt is delivered when the driver is next called, and `interrupted` ignores it."""
    try:
        reason[0] = 0
        set_handler(signal.SIGINT, interrupted)
    except BaseException:
        pass  # out of memory; the host tries again before the next script
    return None


running_loop = asyncio._get_running_loop
set_handler = signal.signal
set_handler(signal.SIGINT, interrupted)
