import builtins
import json
import sys
import traceback

json.dumps = None
traceback.format_exception = None
builtins.compile = builtins.exec = None
sys.modules.clear()
