import locale
import sys

print(sys.stdout.encoding, sys.getfilesystemencoding(), sys.flags.utf8_mode, locale.getpreferredencoding(False).lower())
