"""What a script gets when the host asks it to stop.

The host does what a signal's C handler does (see interrupt.rs), so that the interpreter calls `interrupted` between two of
the script's instructions. Under WASI nothing else raises a signal but the script itself.
"""


class Interrupted(KeyboardInterrupt):
    """Raised in a script that is about to reach a limit, or that is cancelled."""

    __module__ = "builtins"  # as tracebacks and `repr` show it


REASONS = (
    "",
    "the fuel limit is nearly reached",
    "the time limit is nearly reached",
    "the execution was cancelled",
)
reason = bytearray(4)  # the host writes an index of REASONS here
running = False  # whether the script's code runs, and not the driver's
exchanging = False  # whether it waits for the host, in boot/tools.py
held_back = None  # what is to be raised after that


@functools.wraps(signal.default_int_handler)
def interrupted(number, frame):
    # The handler of SIGINT.
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
        # In the middle of its own work, a loop would lose a task, and then wait for it.
        loop.call_soon(throw, error)


def throw(error):
    raise error


def rearm():
    """After a script replaced the handler, or an interrupt came too late for it. On entry to this, `interrupted` has been
    called in vain."""
    try:
        reason[0] = 0
        set_handler(signal.SIGINT, interrupted)
    except BaseException:
        pass  # no memory; the host tries again before the next script
    return None


running_loop = asyncio._get_running_loop
set_handler = signal.signal
set_handler(signal.SIGINT, interrupted)
