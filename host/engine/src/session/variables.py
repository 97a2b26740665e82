# Describes the global variables of a session. Compares classes by identity, and reads attributes with the descriptors of the
# built-in classes, so that it calls no code of the session's scripts, which can also have replaced builtin functions.
def __glovebox_variables__():
    import builtins, keyword, sys, types

    max_count, max_chars = 2_000, 200
    standard = {
        "__annotate__", "__annotations__", "__builtins__", "__cached__", "__conditional_annotations__", "__doc__",
        "__file__", "__glovebox_variables__", "__loader__", "__name__", "__package__", "__spec__",
    }
    variables = builtins.globals()

    def is_text(value):
        return builtins.type(value) is builtins.str and builtins.len(value) <= max_chars

    def of_class(attribute, value):
        return builtins.type.__dict__[attribute].__get__(value)

    def dictionary(module):
        return types.ModuleType.__dict__["__dict__"].__get__(module)

    def imported(name, value, kind):
        """Returns the module and the name from which a class, a function or a special form can be imported."""
        if builtins.any(each is builtins.type for each in of_class("__mro__", kind)):
            module, name = of_class("__module__", value), of_class("__name__", value)
        elif kind is types.FunctionType or kind is types.BuiltinFunctionType:
            module, name = value.__module__, value.__name__
        else:
            module = of_class("__module__", kind)
            if not is_text(module) or module != "typing":
                return None
        if not is_text(module) or not is_text(name) or module == "__main__":
            return None
        found = sys.modules.get(module)
        is_found = builtins.type(found) is types.ModuleType and dictionary(found).get(name) is value
        return {"module": module, "name": name} if is_found else None

    def signature(value):
        code, names = value.__code__, builtins.list(value.__code__.co_varnames)
        defaults, keyword_defaults = value.__defaults__ or (), value.__kwdefaults__ or {}
        keyword_start, rest_start = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        keyword_only = names[keyword_start:rest_start]
        rest = names[rest_start:]
        return {
            "positional": names[:keyword_start],
            "positional_only_count": code.co_posonlyargcount,
            "default_count": builtins.len(defaults),
            "keyword_only": [{"name": each, "is_required": each not in keyword_defaults} for each in keyword_only],
            "rest": rest.pop(0) if code.co_flags & 0x4 else None,
            "keywords": rest.pop(0) if code.co_flags & 0x8 else None,
            "is_async": code.co_flags & 0x80 != 0,
        }

    def described(name, value):
        kind = builtins.type(value)
        if kind is types.ModuleType:
            module = dictionary(value).get("__name__")
            return {"module": {"name": module}} if is_text(module) else "other"
        found = imported(name, value, kind)
        if found:
            return {"imported": found}
        if kind is types.FunctionType and value.__globals__ is variables:
            return {"function": signature(value)}
        module, name = of_class("__module__", kind), of_class("__qualname__", kind)
        return {"instance": {"module": module, "class": name}} if is_text(module) and is_text(name) else "other"

    names = [name for name in variables if builtins.type(name) is builtins.str and name not in standard]
    names = [name for name in names if name.isidentifier() and not keyword.iskeyword(name)]
    if builtins.len(names) > max_count or builtins.any(builtins.len(name) > max_chars for name in names):
        return None
    return [{"name": name, "kind": described(name, variables[name])} for name in builtins.sorted(names)]


__glovebox_variables__()
