#!/usr/bin/env python3
"""Prints the arguments that leave out the tests of scripts/known_failing.txt, for `cargo test` (rust) or pytest (python).

A test is in the list from the moment when it is known to fail, or was not run since the code below it changed, until it passes. Nothing
else may be in it: the list only gets shorter.

usage: scripts/known_failing.py rust|python
"""

import shlex
import sys
from pathlib import Path

LIST = Path(__file__).with_suffix(".txt")


def names(kind):
    lines = (line.strip() for line in LIST.read_text().splitlines())
    pairs = (line.split(" ", 1) for line in lines if line and not line.startswith("#"))
    return [name for of, name in pairs if of == kind]


def main():
    if sys.argv[1:] == ["rust"]:
        words = ["--exact", *[word for name in names("rust") for word in ("--skip", name)]]
    elif sys.argv[1:] == ["python"]:
        words = [word for name in names("python") for word in ("--deselect", name)]
    else:
        sys.exit(__doc__)
    print(shlex.join(words))


if __name__ == "__main__":
    main()
