"""Files with contents that follow from their names, and the journal of those that were fsynced: a line `s NUMBER` after file
NUMBER and the folder were."""

import os
import random


def content(number):
    chance = random.Random(f"file {number}")
    return chance.randbytes(chance.choice([100, 3000, 4096, 20_000, 70_000]))


def name(number):
    """Every third file replaces the one before the last by a rename."""
    return f"replaced-{number % 2}" if number % 3 == 0 else f"file-{number}"


def fsync(path):
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def write(folder, number):
    path, new = f"{folder}/{name(number)}", f"{folder}/new"
    target = new if number % 3 == 0 else path
    with open(target, "wb") as file:
        file.write(content(number))
        file.flush()
        os.fsync(file.fileno())
    if target == new:
        os.rename(new, path)
    fsync(folder)


def wrong(folder, last):
    """None if the folder holds all files up to number `last` (the next one may be there as well), or a sentence."""
    expected = {}
    for number in range(1, last + 1):
        expected[name(number)] = [number]
    expected.setdefault(name(last + 1), [None]).append(last + 1)
    for file, numbers in expected.items():
        path = f"{folder}/{file}"
        if not os.path.exists(path):
            if None not in numbers:
                return f"{file} is not there, which was fsynced"
            continue
        data = open(path, "rb").read()
        if None not in numbers and not any(data == content(number) for number in numbers):
            return f"{file} has {len(data)} bytes that are not those that were fsynced"
    return None
