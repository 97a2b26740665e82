import importlib.metadata as metadata
import importlib.util

print(metadata.metadata("openpyxl")["Name"], metadata.requires("jinja2")[0])
spec = importlib.util.find_spec("openpyxl")
print(spec.name, spec.origin, list(spec.submodule_search_locations))
import sys

print("openpyxl" in sys.modules)
