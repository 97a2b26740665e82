import sys

NAMES = "attr certifi htmlparser jinja2 markupsafe openpyxl sandbox_utils six urllib3".split()
print([name for name in NAMES if name in sys.modules], len(sys.meta_path), "/app/site-packages" in sys.path)
import openpyxl

# Its 174 modules come as they are imported; each is the one that the package itself uses.
used = openpyxl.cell.cell
import openpyxl.cell.cell

print("openpyxl.chart" in sys.modules, sys.modules["openpyxl.cell.cell"] is used, "jinja2" in sys.modules)
print(openpyxl.__spec__.loader.__class__.__name__, openpyxl.__file__, sys.modules["openpyxl"] is openpyxl)
del sys.modules["openpyxl"], openpyxl
import openpyxl

print(openpyxl.__version__ != "")
