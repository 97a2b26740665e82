"""Builds the objects of nested Parquet columns: lists, maps and structs. Runs inside the guest, with numpy.

The repetition level of a value tells which list it continues. Its definition level tells how many of its optional
ancestors are present. A *slot* is a place for a value of a group or list. Each value whose repetition level is at most
`repetition`, and whose definition level is at least `definition`, starts a slot.
"""

import numpy as np


def build(node, read, convert=None, repetition=0, definition=0):
    """Returns an array of the node's values for all slots, or `None` for nulls.

    `read` returns the values and levels of a leaf. `convert` is a function of `values` that adds a leaf's nulls:
    `to_objects` below structs and maps, `to_elements` below their lists, and `to_array` (`None`) elsewhere.
    """
    if node.type[0] in ("list", "map") and len(node.children) == 1 and node.children[0].optionality == 2:
        return build_list(node, node.children[0], read, convert, repetition, definition)
    if node.optionality == 2:  # a repeated field without a list around it
        return build_list(node, node, read, convert, repetition, definition)
    return build_one(node, read, convert, repetition, definition)


def build_one(node, read, convert, repetition, definition):
    if node.children:
        return build_struct(node, read, repetition, definition)
    found, definitions, repetitions = read(node)
    slots = starts(definitions, repetitions, len(found), repetition, definition)
    valid = None
    if definitions is not None:
        valid = definitions[slots] == node.definition
        if valid.all():
            valid = None
    return (convert or values.to_array)(node.type, found, valid)


def starts(definitions, repetitions, count, repetition, definition):
    """Returns the positions that start a slot."""
    if definitions is None:
        return np.arange(count)
    chosen = definitions >= definition
    if repetitions is not None:
        chosen &= repetitions <= repetition
    return np.flatnonzero(chosen)


def build_struct(node, read, repetition, definition):
    columns = [build(child, read, values.to_objects, repetition, definition) for child in node.children]
    names = [child.name for child in node.children]
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"invalid Parquet file: the fields of column {node.label!r} differ in length")
    result = values.as_objects([dict(zip(names, row)) for row in zip(*columns)])
    present = presence(node, read, repetition, definition)
    if present is not None:
        result[~present] = None
    return result


def presence(node, read, repetition, definition):
    found, definitions, repetitions = read(node.leaves()[0])
    if definitions is None:
        return None
    return definitions[starts(definitions, repetitions, 0, repetition, definition)] >= node.definition


def build_list(node, repeated, read, convert, repetition, definition):
    found, definitions, repetitions = read(node.leaves()[0])
    slots = starts(definitions, repetitions, 0, repetition, definition)
    is_element = (definitions >= repeated.definition) & (repetitions <= repeated.repetition)
    before = np.concatenate(([0], np.cumsum(is_element)))
    bounds = np.append(before[slots], before[-1]).tolist()
    defined = node.definition - (node is repeated)
    present = (definitions[slots] >= defined).tolist()
    levels = repeated.repetition, repeated.definition
    if node.type[0] == "map" and len(repeated.children) == 2:
        keys, items = (build(child, read, values.to_objects, *levels) for child in repeated.children)
        elements = list(zip(keys, items, strict=True))
    else:
        elements = build_elements(node, repeated, read, values.to_elements if convert else None, levels)
    rows = zip(bounds, bounds[1:], present)
    return values.as_objects([elements[begin:end] if exists else None for begin, end, exists in rows])


def build_elements(node, repeated, read, convert, levels):
    # The format's rules for lists without the usual group of one field.
    if node is repeated or not repeated.children:
        return build_one(repeated, read, convert, *levels)
    if len(repeated.children) > 1 or repeated.name in ("array", f"{node.name}_tuple"):
        return build_struct(repeated, read, *levels)
    return build(repeated.children[0], read, convert, *levels)
