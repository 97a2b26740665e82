import sys
import traceback

try:
    raise ValueError("handled")
except ValueError:
    traceback.print_exc()
print("OutOfFuel: fatal error, wasm trap, MemoryError", file=sys.stderr)
print("done")
