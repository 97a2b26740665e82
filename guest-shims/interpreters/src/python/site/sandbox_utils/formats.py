"""Conversions between CSV, JSON, XML and YAML."""

import csv
import io
import json
import os
from xml.parsers import expat

from sandbox_utils.paths import path_of, read_text, write_text
from sandbox_utils.yaml_reader import yaml_load
from sandbox_utils.yaml_writer import yaml_dump


def _text(source, *suffixes):
    """Returns the text, or reads the file if `source` is a path or a one-line string with one of the suffixes."""
    if isinstance(source, os.PathLike) or isinstance(source, str) and "\n" not in source and source.endswith(suffixes):
        source = read_text(source)
    elif not isinstance(source, str):
        raise TypeError(f"expected text or a path, not {type(source).__name__}")
    return source.removeprefix("\ufeff")


def _json(source):
    if not isinstance(source, (str, os.PathLike)):
        return source
    text = _text(source, ".json")
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"the text is not JSON: {error}") from None


def _given(text, output):
    if output is None:
        return text
    write_text(output, text)


def _dumped(value):
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"the value cannot be written as JSON: {error}") from None


def csv_to_json(csv_file, output=None, delimiter=","):
    """Converts a CSV file with a header to JSON: an array of objects with string values.

    Writes to the file `output`, or returns the text. Multi-line CSV text is accepted instead of a path. Fields missing
    at the end of a row are null.

    >>> print(csv_to_json("/app/data/a.csv"))
    [
      {"name": "Ann", "age": "31"}
    ]
    """
    is_text = isinstance(csv_file, str) and "\n" in csv_file
    text = csv_file if is_text else read_text(path_of(csv_file))
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter, strict=True)
    objects = []
    try:
        names = next(rows, [])
        double = [name for i, name in enumerate(names) if name in names[:i]]
        if double:
            raise ValueError(f"duplicate column {double[0]!r} in the header")
        for row in rows:
            if len(row) > len(names):
                raise ValueError(f"line {rows.line_num} has {len(row)} fields, but the header has {len(names)}")
            if row:
                objects.append(dict(zip(names, row + [None] * (len(names) - len(row)))))
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num} is not CSV: {error}") from None
    # Writes each row on its own line. With `indent`, `json` would use its slower Python encoder.
    lines = ",\n  ".join(map(json.JSONEncoder(ensure_ascii=False).encode, objects))
    return _given(f"[\n  {lines}\n]" if objects else "[]", output)


def json_to_csv(json_file, output=None, delimiter=","):
    """Converts JSON, an array of objects, to CSV with a header. Writes to the file `output`, or returns the text.

    Accepts a path, JSON text or a list. Nested lists and objects are written as JSON, null as an empty field.

    >>> json_to_csv([{"a": 1, "b": "x, y"}, {"a": 2, "c": True}])
    'a,b,c\\n1,"x, y",\\n2,,true\\n'
    """
    if isinstance(json_file, str) and not json_file.lstrip().startswith(("[", "{")):
        value = _json(read_text(json_file).removeprefix("\ufeff"))
    else:
        value = _json(json_file)
    rows = [value] if isinstance(value, dict) else value
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError('CSV output requires an array of objects: [{"name": …}, …]')
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        return _given("", output)
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_field(row.get(name)) for name in names] for row in rows)
    return _given(text.getvalue(), output)


def _field(value):
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (bool, dict, list)) else value


def xml_to_dict(xml):
    """Converts XML, as text or a path, to a dict with the root element's name as its only key.

    An element becomes its text, None if it is empty, or a dict of its child elements, its attributes as `@name` and its
    text as `#text`. Child elements with the same name become a list. Namespaces are dropped. An entity declaration
    raises a ValueError.

    >>> xml_to_dict('<root><item id="1">value</item><item/></root>')
    {'root': {'item': [{'@id': '1', '#text': 'value'}, None]}}
    """
    is_path = isinstance(xml, os.PathLike) or isinstance(xml, str) and not xml.lstrip("\ufeff \t\r\n").startswith("<")
    text = read_text(xml) if is_path else _text(xml)
    top = {}
    open_elements = [(top, [])]

    def start(tag, attributes):
        open_elements.append(({f"@{_local(name)}": value for name, value in attributes.items()}, []))

    def end(tag):
        entries, parts = open_elements.pop()
        written = "".join(parts).strip()
        value = entries or written or None
        if entries and written:
            entries["#text"] = written
        above, name = open_elements[-1][0], _local(tag)
        if name not in above:
            above[name] = value
        elif isinstance(above[name], list):
            above[name].append(value)
        else:
            above[name] = [above[name], value]

    def entity(name, *_):
        raise ValueError(
            f"line {parser.CurrentLineNumber} declares the entity `{name}`; replace entities with their text"
        )

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = lambda part: open_elements[-1][1].append(part)
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(text.removeprefix("\ufeff"), True)
    except expat.ExpatError as error:
        raise ValueError(f"the text is not XML: {error}") from None
    return top


def _local(name):
    return name.rpartition(" ")[2]


def yaml_to_json(yaml, output=None):
    """Converts YAML to JSON. Writes to the file `output`, or returns the text.

    Accepts text, or a path that ends with `.yaml` or `.yml`. `help(yaml_load)` lists the supported syntax.

    >>> yaml_to_json("a: [1, yes]")
    '{\\n  "a": [\\n    1,\\n    "yes"\\n  ]\\n}'
    """
    return _given(_dumped(yaml_load(_text(yaml, ".yaml", ".yml"))), output)


def json_to_yaml(json, output=None):
    """Converts JSON to YAML. Writes to the file `output`, or returns the text.

    Accepts text, a path that ends with `.json`, or a value.

    >>> json_to_yaml('{"a": [1, "yes"]}')
    'a:\\n  - 1\\n  - "yes"\\n'
    """
    return _given(yaml_dump(_json(json)), output)
