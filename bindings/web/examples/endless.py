# An endless script: stop it, or let it run into its limit.
import time

begun = time.monotonic()
for second in range(1, 3600):
    while time.monotonic() < begun + second / 2:
        pass
    print(f"\x1b[32m{second / 2:4.1f} s\x1b[0m", "▪" * second, flush=True)
