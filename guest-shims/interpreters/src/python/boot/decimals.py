"""The messages of `decimal` in C. This CPython has only `_pydecimal`, whose exceptions and contexts have other texts."""

decimal = sys.modules["decimal"]


def raise_error(self, condition, explanation=None, *args):
    error = signal_of.get(condition, condition)
    if error in self._ignored_flags:
        return error().handle(self, *args)
    self.flags[error] = True
    if not self.traps[error]:
        return condition().handle(self, *args)
    raise error([condition])


def context_text(self):
    """Show the current context."""
    flags, traps = ([each.__name__ for each in signals if chosen[each]] for chosen in (self.flags, self.traps))
    return (
        f"Context(prec={self.prec}, rounding={self.rounding}, Emin={self.Emin}, Emax={self.Emax}, "
        f"capitals={self.capitals}, clamp={self.clamp}, flags=[{', '.join(flags)}], traps=[{', '.join(traps)}])"
    )


if "_pydecimal" in sys.modules and decimal.Context is sys.modules["_pydecimal"].Context:
    signal_of = sys.modules["_pydecimal"]._condition_map
    # In the order in which C prints them.
    signals = [
        getattr(decimal, _name)
        for _name in "Clamped InvalidOperation DivisionByZero Inexact FloatOperation Overflow Rounded Subnormal Underflow".split()
    ]
    replace(decimal.Context, "_raise_error", raise_error)
    replace(decimal.Context, "__repr__", context_text)
del decimal
