import sys

print(sys.path[-1])
import six

print(six.__name__)
