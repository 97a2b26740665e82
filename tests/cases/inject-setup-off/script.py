import sys

print([path for path in sys.path if "site-packages" in path])
try:
    import openpyxl
except ModuleNotFoundError as error:
    print(error)
sys.path.append("/app/site-packages")
import six

print(six.__name__)
