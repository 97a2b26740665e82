import builtins
import json
import sys
import traceback

json.dumps = None
traceback.format_exception = None
traceback.print_exception = None
builtins.compile = builtins.exec = None
sys.excepthook = None
raise ValueError("still told")
