# Finds names for completion. Looks up attributes in dictionaries, without calling a property, `__getattr__` or
# `__dir__` that the session's code defines.
class GloveboxNames:
    MAX_COUNT, MAX_CHARS = 2_000, 100

    def variables(prefix):
        import builtins

        return GloveboxNames.fitting({*globals(), *vars(builtins)} - {"GloveboxNames"}, prefix)

    def attributes(root, path, prefix):
        import builtins

        item = globals()[root] if root in globals() else vars(builtins)[root]
        for name in path:
            item = GloveboxNames.lookup(item, name)
        return GloveboxNames.fitting({name for table in GloveboxNames.tables(item) for name in table}, prefix)

    def tables(item):
        """Returns the dictionaries that hold the attributes of `item`: its own and those of its classes."""
        kind = type(item)
        is_class = type in type.__dict__["__mro__"].__get__(kind)
        tables = [type.__dict__["__dict__"].__get__(each) for each in type.__dict__["__mro__"].__get__(item if is_class else kind)]
        if not is_class:
            try:
                tables.insert(0, object.__getattribute__(item, "__dict__"))
            except AttributeError:
                pass
        return tables

    def lookup(item, name):
        import types

        found = next(table[name] for table in GloveboxNames.tables(item) if name in table)
        if type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            return found.__get__(item)
        plain = types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, classmethod, staticmethod
        if type(found) not in plain and any("__get__" in table for table in GloveboxNames.tables(type(found))):
            raise AttributeError(name)
        return found

    def fitting(names, prefix):
        names = [name for name in names if type(name) is str and name.startswith(prefix)]
        return sorted(name for name in names if len(name) <= GloveboxNames.MAX_CHARS)[: GloveboxNames.MAX_COUNT]


