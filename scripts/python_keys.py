#!/usr/bin/env python3
"""Writes the types of designs for Python, crates/python/python/peryton/_keys.py, from the reference of design keys:

    peryton keys --json | scripts/python_keys.py > crates/python/python/peryton/_keys.py
"""

import json
import sys
import textwrap

WIDTH = 118
TYPES = {
    "time": "str",
    "size": "int | str",
    "whole number": "int",
    "number": "float",
    "true or false": "bool",
    "text": "str",
    "list of texts": "list[str]",
    "table": "dict[str, Any]",
    "text, or tables": "str | dict[str, Any]",
    "text, or list of texts": "str | list[str]",
    "time, or never": "str",
    "size, or never": "int | str",
    "size, auto, or never": "int | str",
    "whole number, or never": 'int | Literal["never"]',
    "power": "str",
    "share, size or whole number": "float | str",
}
HEADER = '''"""The keys of designs, as types: editors complete them, and mypy checks them. scripts/python_keys.py of the repository has made
this file from the code that reads designs."""

from typing import Any, Literal, TypedDict
'''


def kind(key):
    """The type of a key's value."""
    if key.get("words"):
        return f"Literal[{', '.join(json.dumps(word) for word in key['words'])}]"
    return TYPES[key["type"]]


def sentences(key):
    """What a key is: its meaning, unit, default and placements."""
    parts = [key["about"]]
    if "unit" in key:
        parts.append(f"Unit: {key['unit']}.")
    if key.get("required"):
        parts.append("Required.")
    else:
        default = key["default"].replace("'", '"') if "default" in key else key["default_text"]
        parts.append(f"Default: {default}.")
    if len(key["placements"]) < 6:
        parts.append(f"Placements: {', '.join(key['placements'])}.")
    return " ".join(parts)


def comment(text):
    """A docstring below a field."""
    lines = textwrap.wrap(text.replace("\\", "\\\\"), WIDTH - 12)
    return '    """' + "\n    ".join(lines) + '"""'


def name(path):
    """The name of the class of a table."""
    return "".join(part.capitalize() for part in path.replace("_", ".").split(".")) + "Keys"


def main():
    keys = [key for key in json.load(sys.stdin) if "model" not in key]
    tables = {"": {}}
    for key in keys:
        *tables_of, last = key["key"].split(".")
        path = ""
        for part in tables_of:
            below = f"{path}.{part}" if path else part
            tables.setdefault(path, {}).setdefault(part, below)
            tables.setdefault(below, {})
            path = below
        tables[path][last] = key
    written = []

    def write(path):
        """Writes the class of a table, below those of the tables in it; returns its type."""
        table = tables[path]
        if set(table) == {"NAME"}:
            return f"dict[str, {write(table['NAME'])}]"
        if "NAME" in table:
            # Keys and devices in one table, which a class cannot say.
            others = sorted({kind(key) for part, key in table.items() if part != "NAME"})
            return f"dict[str, {' | '.join([write(table['NAME']), *others])}]"
        lines = [f"class {name(path.replace('.NAME', '')) if path else 'DesignKeys'}(TypedDict, total=False):"]
        about = f"``[{path}]`` of a design." if path else "All keys of a design."
        lines.append(f'    """{about}"""\n')
        for part, entry in table.items():
            if isinstance(entry, str):
                lines.append(f"    {part}: {write(entry)}")
            else:
                lines += [f"    {part}: {kind(entry)}", comment(sentences(entry))]
        written.append("\n".join(lines))
        return lines[0].removeprefix("class ").split("(")[0]

    write("")
    paths = [f'    "{key["key"]}",' for key in keys if "NAME" not in key["key"]]
    literal = "Key = Literal[\n" + "\n".join(paths) + "\n]\n\"\"\"The dotted keys that do not name a device.\"\"\""
    print(HEADER + "\n\n" + "\n\n\n".join(written) + "\n\n\n" + literal)


main()
