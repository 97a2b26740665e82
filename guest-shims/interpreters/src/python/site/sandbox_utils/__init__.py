"""Shell commands as functions, with helpers for files, text, lists and data formats.

    from sandbox_utils import find, grep, group_by

    for file, line, text in grep("ERROR", find("*.log")):
        print(f"{file}:{line}: {text}")

* files: find tree walk copy_tree remove_tree
* text: grep sed head tail wc diff
* lists: group_by filter_by map_items sort_by unique chunk
* formats: csv_to_json json_to_csv xml_to_dict yaml_to_json json_to_yaml yaml_load yaml_dump
* shell: ls cat touch mkdir rm cp mv echo

`help(find)` describes a function. Paths are strings or `Path` objects, relative to the current directory.
"""

from sandbox_utils.data import chunk, filter_by, group_by, map_items, sort_by, unique
from sandbox_utils.files import copy_tree, find, remove_tree, tree, walk
from sandbox_utils.formats import csv_to_json, json_to_csv, json_to_yaml, xml_to_dict, yaml_to_json
from sandbox_utils.shell import cat, cp, echo, ls, mkdir, mv, rm, touch
from sandbox_utils.text import diff, grep, head, sed, tail, wc
from sandbox_utils.yaml_reader import yaml_load
from sandbox_utils.yaml_writer import yaml_dump

__all__ = [
    "cat",
    "chunk",
    "copy_tree",
    "cp",
    "csv_to_json",
    "diff",
    "echo",
    "filter_by",
    "find",
    "grep",
    "group_by",
    "head",
    "json_to_csv",
    "json_to_yaml",
    "ls",
    "map_items",
    "mkdir",
    "mv",
    "remove_tree",
    "rm",
    "sed",
    "sort_by",
    "tail",
    "touch",
    "tree",
    "unique",
    "walk",
    "wc",
    "xml_to_dict",
    "yaml_dump",
    "yaml_load",
    "yaml_to_json",
]
