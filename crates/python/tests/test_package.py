"""The fears: something public has no documentation, or a type that is not so."""

import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import peryton
import pytest
from conftest import PERYTON, REPOSITORY


def test_everything_public_is_documented() -> None:
    for name in peryton.__all__:
        what = getattr(peryton, name)
        if not callable(what):
            continue
        assert inspect.getdoc(what), f"{name} has no documentation"
        if not inspect.isclass(what) or what.__module__ == "builtins":
            continue
        for member, value in vars(what).items():
            if not member.startswith("_") and (callable(value) or isinstance(value, property | classmethod)):
                assert inspect.getdoc(getattr(what, member)), f"{name}.{member} has no documentation"


def test_the_version_is_that_of_the_workspace() -> None:
    manifest = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())
    # Which build it is follows the version of the package.
    package, build = peryton.__version__.split("+")
    assert package == manifest["workspace"]["package"]["version"]
    assert re.fullmatch(r"g[0-9a-f]{12}(\.dirty)?|s[0-9a-f]{12}", build)


def test_types_are_right() -> None:
    pytest.importorskip("mypy")
    package = Path(peryton.__file__).parent
    assert (package / "py.typed").is_file()
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", "/dev/null", "-p", "peryton"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    words = [sys.executable, "-m", "mypy.stubtest", "peryton._native"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_package_needs_no_other_one() -> None:
    program = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "polars", "pandas", "pyarrow", "matplotlib", "IPython"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import peryton
single = {"devices": {"only": {"profile": "fixed", "size": "8GiB"}}, "placement": {"mode": "single"}}
print(peryton.simulate(single, sys.argv[1])["requests"])
"""
    trace = REPOSITORY / "examples" / "traces" / "sqlite-ext4.parquet"
    ran = subprocess.run([sys.executable, "-c", program, trace], capture_output=True, text=True, check=True)
    assert ran.stdout == "15066\n"


def test_the_types_of_designs_are_those_of_the_keys() -> None:
    keys = subprocess.run([PERYTON, "keys", "--json"], capture_output=True, check=True).stdout
    script = REPOSITORY / "scripts" / "python_keys.py"
    written = subprocess.run([sys.executable, script], input=keys, capture_output=True, check=True).stdout
    there = (REPOSITORY / "crates" / "python" / "python" / "peryton" / "_keys.py").read_bytes()
    assert written == there, "peryton keys --json | scripts/python_keys.py > crates/python/python/peryton/_keys.py"


def test_the_types_of_designs_find_mistakes(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    right = """
import peryton
keys: peryton.DesignKeys = {
    "devices": {"ssd": {"profile": "intel-320-300gb", "size": "1GiB"}, "hdd": {"profile": "wd-green-5tb", "count": 2}},
    "placement": {"mode": "caching", "fast": "ssd", "slow": "hdd", "promotion": {"threshold": 0}},
    "endurance": {"read_effect": "never", "hdd": {"start_stops": 1000}},
}
peryton.Design.from_dict(keys).set("placement.max_moves", 4)
"""
    wrong = {"size": "sise", '"caching"': '"cashing"', '"threshold": 0': '"threshold": "0"'}
    (tmp_path / "right.py").write_text(right)
    for number, (good, bad) in enumerate(wrong.items()):
        (tmp_path / f"wrong{number}.py").write_text(right.replace(good, bad))
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", "/dev/null", "."]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    found = sorted({line.split(":")[0] for line in ran.stdout.splitlines() if ": error:" in line})
    assert found == [f"wrong{number}.py" for number in range(len(wrong))], ran.stdout
