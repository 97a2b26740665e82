"""glibc's `strftime` directives, and local time in the time zone that `TZ` names.

The interpreter's C library is musl without time zone data, so its local time is always UTC.
"""

_strftime = time.strftime
_UNUSUAL = re.compile("%(?![aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyYzZ%])").search
_DIRECTIVE = re.compile(r"%([_0^#-]*)(\d*)([EO]?)(.?)", re.DOTALL).sub
_NO_PADDING = dict.fromkeys(map(ord, "^#"))
# The directives that glibc supports, by modifier.
_KNOWN = {
    "": "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%",
    "E": "cCnpPrRstTuxXyYzZ%",
    "O": "bBCdegGhHIjklmMnpPrRsStTuUVwWyzZ%",
}
# Minimum number of digits, by numeric directive.
_DIGITS = {**dict.fromkeys("degHIklmMSUVWy", 2), **dict.fromkeys("CuwGYs", 1), "j": 3, "z": 4}


def strftime(module, format, /, *when):
    if isinstance(format, str) and (_UNUSUAL(format) or zone and ("%Z" in format or "%z" in format)):
        when = when or (time.localtime(),)
        format = _DIRECTIVE(functools.partial(directive, when[0]), format)
    elif zone and not when:
        when = (time.localtime(),)
    return _strftime(format, *when)


def directive(when, match):
    """Formats one directive like __strftime_internal in glibc's time/strftime_l.c. glibc copies an unknown directive to
    the output; musl returns an empty string for the whole format."""
    flags, width, modifier, letter = match.groups()
    if len(width) > 4:
        return match[0].replace("%", "%%")
    width = int(width or 0)
    padding = flags.translate(_NO_PADDING)[-1:]
    fill, head = "0" if padding == "0" else " ", ""
    if not letter or letter not in _KNOWN[modifier]:
        # glibc changes the case of `%#Eb` and `%#Eh` before it rejects the modifier.
        text, letter = match[0], "b" if modifier == "E" and letter in ("b", "h") else "?"
    else:
        text = directive_text(letter, when)
    if letter in _DIGITS:
        if letter == "z":
            if not text:  # a naive `datetime`
                return ""
            head, text = text[0].rjust(width, fill), text[1:]  # glibc pads the sign and the number separately
        text = number_text(int(text), letter, padding, width)
    if letter == "P" or "#" in flags and letter in "pZ":
        text = text.lower()
    elif "^" in flags or "#" in flags and letter in "aAbBh":
        text = text.upper()
    return (head + text.rjust(width, fill)).replace("%", "%%")


def number_text(number, letter, padding, width):
    if letter in "ekl":
        padding = padding or "_"
    digits = max(_DIGITS[letter], 0 if letter == "s" else width)
    if padding == "-":
        return str(number)
    return str(number).rjust(digits) if padding == "_" else str(number).zfill(digits)


def directive_text(letter, when):
    if letter == "s":
        return str(int(time.mktime(when)))
    if letter in "zZ" and zone:
        when = when if getattr(when, "tm_gmtoff", None) is not None else time.localtime(time.mktime(when))
        sign, minutes = "-" if when.tm_gmtoff < 0 else "+", abs(when.tm_gmtoff) // 60
        return when.tm_zone if letter == "Z" else f"{sign}{minutes // 60:02}{minutes % 60:02}"
    if letter == "P":
        return _strftime("%p", when).lower()
    return _strftime("%" + {"k": "H", "l": "I"}.get(letter, letter), when)


def put(owner, name, function):
    """Replaces a built-in function of a module. The replacement is bound to the module, so that it does not become a
    method if a class stores it as an attribute. Built-in functions do not become methods either."""
    native = getattr(owner, name, None)
    setattr(owner, name, types.MethodType(functools.update_wrapper(function, native) if native else function, owner))


put(time, "strftime", strftime)


# --- the time zone --------------------------------------------------------------------------------

zone = None  # the local time zone; `None` for UTC
_localtime, _mktime, _asctime = time.localtime, time.mktime, time.asctime
_EPOCH = datetime.datetime(1970, 1, 1)
_HALF_YEAR = (365 * 24 + 6) * 3600 // 2
_modified = type.__dict__["__abstractmethods__"]
natives = {}  # the original methods of `date` and `datetime`


def tzset(module, /):
    """Initialize, or reinitialize, the local timezone to the value stored in os.environ['TZ']."""
    global zone
    name = os.environ.get("TZ", "").removeprefix(":")
    zone = zone_of(name) if name else None
    if zone and not natives:
        use_zone()
    if natives:
        # Like init_timezone in CPython's Modules/timemodule.c.
        january = time.time() // (2 * _HALF_YEAR) * (2 * _HALF_YEAR)
        winter, summer = time.localtime(january), time.localtime(january + _HALF_YEAR)
        if summer.tm_gmtoff < winter.tm_gmtoff:
            winter, summer = summer, winter
        time.tzname = winter.tm_zone, summer.tm_zone
        time.timezone, time.altzone = -winter.tm_gmtoff, -summer.tm_gmtoff
        time.daylight = int(time.timezone != time.altzone)


tzset.__module__ = "time"
put(time, "tzset", tzset)


def zone_of(name):
    """Returns the time zone for a value of `TZ`: a zone name or a POSIX rule. Anything else is UTC, as on Linux."""
    try:
        return zoneinfo.ZoneInfo(name)
    except Exception:
        pass
    try:  # for interpreters without zone data
        found = importlib.import_module("dateutil.zoneinfo").get_zonefile_instance().get(name)
        if found:
            return found
    except Exception:
        pass
    try:
        # A TZif file without transitions, with the rule as its footer.
        block = b"TZif2" + bytes(15) + b"".join(n.to_bytes(4, "big") for n in (0, 0, 0, 0, 1, 4)) + bytes(6) + b"UTC\0"
        return zoneinfo.ZoneInfo.from_file(io.BytesIO(2 * block + b"\n" + name.encode() + b"\n"))
    except Exception:
        return datetime.timezone(datetime.timedelta(0), re.match("[A-Za-z]*", name)[0] or "UTC")


def use_zone():
    """Replaces the functions that assume UTC as local time. Called only if a script sets a zone, because the
    replacements are slower."""
    for function in localtime, mktime, ctime, asctime:
        put(time, function.__name__, function)
    if logging.Formatter.__dict__.get("converter") is _localtime:
        logging.Formatter.converter = time.localtime
    for kind, functions in (
        (datetime.date, (classmethod(today), classmethod(date_fromtimestamp))),
        (datetime.datetime, (classmethod(now), classmethod(fromtimestamp), astimezone, timestamp)),
    ):
        # The types are immutable, but their dictionaries are not. `natives` keeps the old values alive, because the
        # interpreter's caches refer to them.
        attributes = gc.get_referents(kind.__dict__)[0]
        for function in functions:
            name = function.__name__.removeprefix("date_")
            natives[kind, name] = attributes[name]
            functools.update_wrapper(getattr(function, "__func__", function), attributes[name])
            attributes[name] = function
        # Setting and deleting an attribute invalidates these caches.
        _modified.__set__(kind, ())
        _modified.__delete__(kind)


def native(kind, name, cls):
    return natives[kind, name].__get__(None, cls)


def localtime(module, seconds=None, /):
    utc = _localtime(seconds)
    if zone is None:
        return utc
    moment = datetime.datetime(*utc[:6], tzinfo=datetime.timezone.utc).astimezone(zone)
    fields = *moment.timetuple()[:8], int(bool(moment.dst())), moment.tzname(), int(moment.utcoffset().total_seconds())
    return time.struct_time(fields)


def mktime(module, when, /):
    seconds = _mktime(when)  # as UTC, with days and months normalized
    if zone is None:
        return seconds
    moment = (_EPOCH + datetime.timedelta(seconds=seconds)).replace(tzinfo=zone)
    if when[8] >= 0 and bool(moment.dst()) is not bool(when[8]):
        later = moment.replace(fold=1)
        if bool(later.dst()) is bool(when[8]):
            moment = later
    return moment.timestamp()


def ctime(module, seconds=None, /):
    return _asctime(time.localtime(seconds))


def asctime(module, /, *when):
    return _asctime(*(when or (time.localtime(),)))


def today(cls):
    return cls.fromtimestamp(time.time())


def date_fromtimestamp(cls, timestamp, /):
    moment = datetime.datetime.fromtimestamp(timestamp)
    return cls(moment.year, moment.month, moment.day)


def now(cls, tz=None):
    get = native(datetime.datetime, "now", cls)
    return get(tz) if tz is not None or zone is None else get(zone).replace(tzinfo=None)


def fromtimestamp(cls, timestamp, tz=None):
    get = native(datetime.datetime, "fromtimestamp", cls)
    return get(timestamp, tz) if tz is not None or zone is None else get(timestamp, zone).replace(tzinfo=None)


def astimezone(self, tz=None):
    convert = natives[datetime.datetime, "astimezone"]
    if zone is None:
        return convert(self, tz)
    aware = self.replace(tzinfo=zone) if self.utcoffset() is None else self
    if tz is None:
        local = convert(aware, zone)
        tz = datetime.timezone(local.utcoffset(), local.tzname())
    return convert(aware, tz)


def timestamp(self):
    aware = self.replace(tzinfo=zone) if zone and self.utcoffset() is None else self
    return natives[datetime.datetime, "timestamp"](aware)
