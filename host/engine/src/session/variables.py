# Describes the global variables of a session. Compares classes by identity, and reads attributes with the descriptors of the
# built-in classes, so that values and replaced builtin functions cannot run code of the session's scripts. Scripts can
# still replace modules, such as `keyword`, so the answer is untrusted.
def __glovebox_variables__():
    import builtins, keyword, sys, types

    max_count, max_chars, max_members, max_parts = 2_000, 200, 300, 1_000
    standard = {
        "__annotate__", "__annotations__", "__builtins__", "__cached__", "__conditional_annotations__", "__doc__",
        "__file__", "__glovebox_variables__", "__loader__", "__name__", "__package__", "__spec__",
    }
    # Special attributes of classes that do not change the meaning of their instances.
    ignored = {
        "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__classcell__",
        "__conditional_annotations__", "__dataclass_fields__", "__dataclass_params__", "__dict__", "__doc__",
        "__firstlineno__", "__hash__", "__match_args__", "__module__", "__qualname__", "__slots__",
        "__static_attributes__", "__weakref__",
    }
    # Methods that can add any attribute.
    dynamic = {"__delattr__", "__getattr__", "__getattribute__", "__setattr__"}
    # Names in code that can set attributes with any name, such as `self.__dict__.update(options)`.
    setters = {"__dict__", "setattr", "vars"}
    wrappers = [
        (builtins.property, ("fget", "fset", "fdel")),
        (builtins.classmethod, ("__func__",)),
        (builtins.staticmethod, ("__func__",)),
    ]
    variables = builtins.globals()

    def is_text(value):
        return builtins.type(value) is builtins.str and builtins.len(value) <= max_chars

    def exact(kind, value):
        """Returns an empty value for other classes, including subclasses, whose methods can be code of a script."""
        return value if builtins.type(value) is kind else kind()

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
        defaults = exact(builtins.tuple, value.__defaults__)
        keyword_defaults = exact(builtins.dict, value.__kwdefaults__)
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

    def is_name(value):
        return is_text(value) and value.isidentifier() and not keyword.iskeyword(value)

    def functions_of(value):
        """Returns a function, or the functions in a property or a method of a class."""
        found = [value]
        for kind, names in wrappers:
            if builtins.type(value) is kind:
                found = [kind.__dict__[name].__get__(value) for name in names]
        return [each for each in found if builtins.type(each) is types.FunctionType]

    def mentioned(function):
        """Returns the names in a function's code, which include the attributes that it assigns. Ignores code of modules."""
        found, seen, parts = builtins.set(), builtins.set(), [function]
        while parts and builtins.len(seen) < max_parts:
            part = parts.pop()
            if builtins.id(part) in seen:
                continue
            seen.add(builtins.id(part))
            if builtins.type(part) is types.FunctionType:
                # The closure of a decorated function contains the original function.
                parts += exact(builtins.tuple, part.__closure__)
                if part.__globals__ is variables:
                    parts.append(part.__code__)
            elif builtins.type(part) is types.CodeType:
                found.update(name for name in exact(builtins.tuple, part.co_names) if is_name(name))
                constants = exact(builtins.tuple, part.co_consts)
                parts += [each for each in constants if builtins.type(each) is types.CodeType]
            elif builtins.type(part) is types.CellType:
                try:
                    parts.append(part.cell_contents)
                except builtins.ValueError:
                    # The cell is empty.
                    pass
        return found

    def annotated(members):
        """Returns the names of the attributes that a class annotates."""
        found = members.get("__annotations__")
        found = builtins.list(found) if builtins.type(found) is builtins.dict else []
        for name in ("__annotate__", "__annotate_func__"):
            function = members.get(name)
            if builtins.type(function) is types.FunctionType:
                found += exact(builtins.tuple, function.__code__.co_consts)
        return [name for name in found if is_name(name)]

    def class_members(value):
        """Returns the methods of a class and the names of its attributes, or `None` if they cannot be determined."""
        members = of_class("__dict__", value)
        if not builtins.all(is_name(name) for name in members):
            return None
        methods, attributes, is_open = [], builtins.set(annotated(members)), False
        for name, member in members.items():
            for function in functions_of(member):
                mentioned_names = mentioned(function)
                attributes.update(mentioned_names)
                is_open = is_open or not setters.isdisjoint(mentioned_names)
            if name in dynamic:
                is_open = True
            elif name in ignored:
                continue
            elif builtins.type(member) is types.FunctionType and member.__code__.co_argcount > 0:
                methods.append({"name": name, "signature": signature(member)})
            elif name.startswith("__") and name.endswith("__"):
                return None
            else:
                attributes.add(name)
                # Other objects, such as decorated methods, can assign attributes.
                module = of_class("__module__", builtins.type(member))
                is_open = is_open or not is_text(module) or module != "builtins"
        fields = members.get("__dataclass_fields__")
        is_dataclass = builtins.type(fields) is builtins.dict
        attributes.update(each for each in (fields if is_dataclass else ()) if is_name(each))
        return {"methods": methods, "attributes": attributes, "is_dataclass": is_dataclass, "is_open": is_open}

    def instance_attributes(value):
        """Returns the names of the attributes in an instance's dictionary."""
        for each in of_class("__mro__", builtins.type(value)):
            for key, found in of_class("__dict__", each).items():
                if is_text(key) and key == "__dict__" and builtins.type(found) is types.GetSetDescriptorType:
                    attributes = found.__get__(value)
                    is_dictionary = builtins.type(attributes) is builtins.dict
                    return [name for name in attributes if is_name(name)] if is_dictionary else ()
        return ()

    def find_classes():
        """Returns descriptions of the classes that the session's scripts define, by name, and their names by ID."""
        found, ids = {}, {}
        for name, value in variables.items():
            if is_name(name) and builtins.type(value) is builtins.type:
                module, own = of_class("__module__", value), of_class("__name__", value)
                is_own = is_text(module) and module == "__main__" and is_text(own) and own == name
                is_metaclass = builtins.any(each is builtins.type for each in of_class("__mro__", value))
                members = class_members(value) if is_own and not is_metaclass else None
                if members:
                    found[name], ids[builtins.id(value)] = members, name
        for value in variables.values():
            name = ids.get(builtins.id(builtins.type(value)))
            if name:
                found[name]["attributes"].update(instance_attributes(value))
        for name, members in found.items():
            bases, ancestors = of_class("__bases__", variables[name]), of_class("__mro__", variables[name])
            members["bases"] = [ids[builtins.id(each)] for each in bases if builtins.id(each) in ids]
            others = [each for each in bases if builtins.id(each) not in ids and each is not ancestors[-1]]
            inherited = {each for ancestor in ancestors[1:] for each in of_class("__dict__", ancestor) if is_text(each)}
            inherited.difference_update(of_class("__dict__", variables[name]))
            inherited.update(each["name"] for each in members["methods"])
            attributes = [each for each in members["attributes"] if each not in inherited and not each.startswith("__")]
            members["attributes"] = builtins.sorted(attributes)
            members["is_open"] = members["is_open"] or builtins.len(others) > 0
            if builtins.len(attributes) + builtins.len(members["methods"]) > max_members:
                members.update(attributes=[], methods=[], is_open=True)
        return found, ids

    def described(name, value):
        kind = builtins.type(value)
        if name in classes and kind is builtins.type:
            return {"class": classes[name]}
        if builtins.id(kind) in class_ids:
            return {"object": {"class": class_ids[builtins.id(kind)]}}
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
    classes, class_ids = find_classes()
    return [{"name": name, "kind": described(name, variables[name])} for name in builtins.sorted(names)]


__glovebox_variables__()
