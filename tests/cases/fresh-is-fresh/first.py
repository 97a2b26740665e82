import builtins
import json
import os

x = 1
json.changed = True
builtins.print_ = print
open("left", "w").close()
