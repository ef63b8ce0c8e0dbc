"""The fears: something public has no documentation, or a type that is not so."""

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import peryton
import pytest
from conftest import REPOSITORY


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
    assert peryton.__version__ == manifest["workspace"]["package"]["version"]


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
