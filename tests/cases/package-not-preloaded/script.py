import markdown.extensions.codehilite as codehilite
import sys

print(codehilite.__file__, "markdown.extensions.codehilite" in sys.modules)
print(codehilite.parse_hl_lines("1 3"))
