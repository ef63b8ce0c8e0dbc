#!/usr/bin/env python3
"""The package for Python (crates/python): tests it, and builds its wheel.

    scripts/python.py test            builds it for testing, tries it in a fresh environment, and runs pytest in one with the
                                      packages of crates/python/requirements.txt; with --built, what cargo test has built
    scripts/python.py cluster         the same for sweeps on a cluster of Ray and by an optimiser (crates/python/sweeping.txt)
    scripts/python.py ready           makes the environments of both, most of which is waiting for the network
    scripts/python.py figures         draws the figures of docs/findings (scripts/findings/figures.py) with the locked Matplotlib
    scripts/python.py wheel           builds an optimised wheel in target/wheels, checks which systems can load it, and tries
                                      it in a fresh environment
    scripts/python.py sdist           packs the source distribution in target/wheels
    scripts/python.py lock            resolves requirements.in, sweeping.in and packaging.in again into requirements.txt,
                                      sweeping.txt and packaging.txt (needs uv)

`test` and `cluster` say what it skips if Python, venv, pip or the network is missing. Everything is kept below target/python.
"""

import argparse
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent
CRATE = ROOT / "crates" / "python"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
WHEELS = TARGET / "wheels"
OLDEST = (3, 11)
# The newest glibc that a wheel may need: that of Debian 12.
NEWEST_GLIBC = (2, 36)
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]


class Missing(Exception):
    """Something that is needed is not there."""


class Wrong(Exception):
    """What was built is not what it should be."""


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, **options)


def python(environment):
    return environment / "bin" / "python"


def environment(name):
    """An environment with the packages of a lock; it is made again when the lock changes."""
    if sys.version_info < OLDEST:
        raise Missing(f"Python {OLDEST[0]}.{OLDEST[1]} or later (this is {sys.version.split()[0]})")
    folder, lock = TARGET / "python" / name, CRATE / f"{name}.txt"
    wanted = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
    stamp = folder / "lock"
    if stamp.is_file() and stamp.read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.create(folder, with_pip=True, symlinks=True)
    except (subprocess.CalledProcessError, SystemExit, OSError) as error:
        raise Missing(f"venv with pip (Debian: python3-venv): {error}") from error
    try:
        run(python(folder), *PIP, "install", "--require-hashes", "-r", lock)
    except subprocess.CalledProcessError as error:
        raise Missing(f"the packages of crates/python/{name}.txt: pip cannot install them (see above)") from error
    stamp.write_text(wanted)
    return folder


def removed(pattern):
    """Removes what was built before."""
    for path in WHEELS.glob(pattern):
        path.unlink()


def wheel(profile):
    """Builds a wheel with maturin, without symbols for debuggers; returns its path."""
    tools = environment("packaging")
    removed("peryton-*.whl")
    maturin = [python(tools), "-m", "maturin", "build", "--locked", "--strip", "--manifest-path", CRATE / "Cargo.toml"]
    run(*maturin, "--profile", profile, "--out", WHEELS, "--interpreter", python(tools))
    (built,) = WHEELS.glob("peryton-*.whl")
    checked(tools, built)
    return built


def checked(tools, built):
    """Asks auditwheel which systems can load a wheel, and fails if Debian 12 could not, or if its name promises more."""
    shown = subprocess.run(
        [python(tools), "-m", "auditwheel", "show", built], check=True, capture_output=True, text=True
    ).stdout
    print(shown.strip())
    consistent = re.search(r'consistent\s+with\s+the\s+following\s+platform\s+tag:\s+"manylinux_(\d+)_(\d+)_x86_64"', shown)
    promised = re.search(r"-cp311-abi3-manylinux_(\d+)_(\d+)_x86_64", built.name)
    if not consistent or not promised:
        raise Wrong(f"{built.name}: it is no wheel of the stable ABI for manylinux on x86-64")
    needed, named = (tuple(map(int, found.groups())) for found in (consistent, promised))
    if needed > named or needed > NEWEST_GLIBC:
        raise Wrong(f"{built.name}: it needs glibc {needed[0]}.{needed[1]}")


def sdist():
    """Packs the source distribution; returns its path."""
    tools = environment("packaging")
    removed("peryton-*.tar.gz")
    run(python(tools), "-m", "maturin", "sdist", "--manifest-path", CRATE / "Cargo.toml", "--out", WHEELS)
    (packed,) = WHEELS.glob("peryton-*.tar.gz")
    return packed


def packed(library, out):
    """A wheel for testing, with a library that Cargo has built. (maturin would build all dependencies again, because other
    features of them are on when the whole workspace is tested.)"""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    version = re.search(r'(?m)^version = "(.*)"', (ROOT / "Cargo.toml").read_text()).group(1)
    about, tag = f"peryton-{version}.dist-info", f"cp{OLDEST[0]}{OLDEST[1]}-abi3-linux_{os.uname().machine}"
    files = {f"peryton/{path.name}": path.read_bytes() for path in (CRATE / "python" / "peryton").iterdir() if path.is_file()}
    files["peryton/_native.abi3.so"] = library.read_bytes()
    files[f"{about}/METADATA"] = f"Metadata-Version: 2.4\nName: peryton\nVersion: {version}\n".encode()
    files[f"{about}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: peryton\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    digest = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() for name, data in files.items()}
    record = [f"{name},sha256={digest[name]},{len(data)}" for name, data in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*record, f"{about}/RECORD,,", ""]).encode()
    built = out / f"peryton-{version}-{tag}.whl"
    with zipfile.ZipFile(built, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return built


def cargo(*words):
    run(os.environ.get("CARGO", "cargo"), *words, cwd=ROOT)


def modules_and_command(built):
    """The extension module, the template of a policy in Rust, and the command; unless they have been built just now, they are built."""
    debug = TARGET / "debug"
    if not built:
        cargo("build", "--locked", "--package", "peryton-python", "--package", "my-policies", "--package", "peryton")

    def module(name):
        # `cargo test` leaves the library of an integration test among the dependencies.
        found = [path for path in (debug / name, debug / "deps" / name) if path.is_file()]
        if not found:
            raise Missing(f"{name}, which cargo test builds")
        return max(found, key=lambda path: path.stat().st_mtime)

    return module("libperyton_python.so"), module("libmy_policies.so"), debug / "peryton"


def tried(built):
    """Installs a wheel in a fresh environment without any other package, and simulates."""
    program = (
        "import peryton, sys; design, trace = sys.argv[1:]; "
        "report = peryton.simulate(design, trace, fit='wrap', limit=1000); assert report['requests'] == 1000; "
        "print(f'{peryton.__file__}: {report!r}')"
    )
    design = ROOT / "examples" / "papers" / "caching-back.toml"
    trace = ROOT / "examples" / "traces" / "sqlite-ext4.parquet"
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "venv"
        venv.create(fresh, with_pip=True, symlinks=True)
        run(python(fresh), *PIP, "install", "--no-index", built)
        run(python(fresh), "-I", "-c", program, design, trace, cwd=folder)


def test(arguments, packages="requirements", marked="not cluster"):
    tools = environment(packages)
    module, policies, peryton = modules_and_command(arguments.built)
    built = packed(module, TARGET / "python" / "wheels")
    tried(built)
    run(python(tools), *PIP, "install", "--no-index", "--no-deps", "--force-reinstall", built)
    about = {**os.environ, "PERYTON": str(peryton), "PERYTON_REPOSITORY": str(ROOT), "MY_POLICIES": str(policies)}
    # The cluster's tests measure one another; all others share the processors.
    side_by_side = ["-n", "auto", "--dist", "worksteal"] if marked == "not cluster" else []
    words = ["-p", "no:cacheprovider", *side_by_side, "-m", marked, *arguments.pytest]
    run(python(tools), "-m", "pytest", *words, cwd=CRATE, env=about)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True, dest="verb")
    tests = verbs.add_parser("test")
    tests.add_argument("--built", action="store_true", help="test what cargo test --workspace has just built")
    tests.add_argument("pytest", nargs="*", help="arguments for pytest")
    clusters = verbs.add_parser("cluster")
    clusters.add_argument("--built", action="store_true", help="test what cargo test --workspace has just built")
    clusters.add_argument("pytest", nargs="*", help="arguments for pytest")
    wheels = verbs.add_parser("wheel")
    wheels.add_argument("--profile", default="release", help="Cargo's profile (default: release)")
    verbs.add_parser("ready")
    verbs.add_parser("figures")
    verbs.add_parser("sdist")
    verbs.add_parser("lock")
    arguments = parser.parse_args()
    try:
        if arguments.verb == "test":
            test(arguments)
        elif arguments.verb == "cluster":
            # Other files import packages that these tests do not need.
            arguments.pytest = arguments.pytest or ["tests/test_cluster.py"]
            test(arguments, "sweeping", "cluster")
        elif arguments.verb == "ready":
            environment("requirements")
            environment("sweeping")
        elif arguments.verb == "figures":
            run(python(environment("requirements")), ROOT / "scripts" / "findings" / "figures.py")
        elif arguments.verb == "wheel":
            built = wheel(arguments.profile)
            tried(built)
            print(built)
        elif arguments.verb == "sdist":
            print(sdist())
        else:
            words = ["uv", "pip", "compile", "--universal", "--python-version", "3.11", "--generate-hashes", "--upgrade"]
            words += ["--custom-compile-command", "scripts/python.py lock"]
            for name in ("requirements", "sweeping", "packaging"):
                run(*words, f"{name}.in", "-o", f"{name}.txt", cwd=CRATE)
    except Missing as missing:
        tests = arguments.verb in ("test", "cluster", "ready")
        what = "sweeps on a cluster are" if arguments.verb == "cluster" else "the package for Python is"
        print(f"python: missing: {missing}: {what} not {'tested' if tests else 'built'}")
        sys.exit(0 if tests else 1)
    except Wrong as wrong:
        sys.exit(f"python: {wrong}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)


if __name__ == "__main__":
    main()
