import six
from six.moves import range as moved, urllib

print(six.PY3, six.text_type is str, moved is range, urllib.parse.quote("a b"))
print(six.ensure_binary("é"), list(six.iteritems({"a": 1})))
