import builtins
import json
import os

print(["x" in globals() or hasattr(builtins, "print_"), hasattr(json, "changed"), os.path.exists("left")])
