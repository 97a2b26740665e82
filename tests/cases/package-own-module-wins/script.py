import six
import jinja2

print(six.__file__, six.NAME)
print(jinja2.__file__)
import dateutil.parser

print(dateutil.parser.parse("2024-01-02").date(), six.NAME)
