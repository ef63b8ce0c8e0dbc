#!/usr/bin/env python3
"""Packages for release, in target/dist; docs/install.md describes them.

    scripts/dist.py build             builds the command, the wheel, the source distribution, the crates, a list of all parts
                                      (SBOM), the Debian package, and checksums
    scripts/dist.py try               installs them on a clean Debian 12 (debootstrap, as root), and simulates
    scripts/dist.py try-source        the same from the crates and the source distribution, by Cargo and pip, which compile them there
    scripts/dist.py publish           goes through `cargo publish` for every crate, without publishing

The same commit gives the same names and times in the archives. A tool that is missing and that Cargo or pip can install is
installed below target/tools, at the version that is written here.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tools import CARGO, ROOT, TARGET, tool

DIST = TARGET / "dist"
CYCLONEDX = "0.5.9"
# What a program for Debian 12 may need: its glibc, and libraries of the base system alone.
NEWEST_GLIBC = (2, 36)
LIBRARIES = {"ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1", "libm.so.6"}
SUITE = "bookworm"
# What a clean system has, and what it has besides where something is compiled.
INSTALLED, COMPILER = ["python3", "python3-venv"], ["gcc", "libc6-dev", "make"]
# The packages have no symbols for debuggers, so none are made, which shortens the optimisation of the whole program.
os.environ.setdefault("CARGO_PROFILE_RELEASE_DEBUG", "false")

# What is done with a package to see that it works.
TRACE = "sqlite-ext4.parquet"
DESIGN = "caching-back.toml"
IN_PYTHON = f"""
import sys, peryton
report = peryton.simulate("{DESIGN}", "{TRACE}", replay="qd=8")
assert report["requests"] == 15066, report
curve = peryton.size("{DESIGN}", "{TRACE}", points=3)
print(sys.version.split()[0], peryton.__version__, repr(report), repr(curve))
"""
SIMULATE = f"sim {DESIGN} --trace {TRACE} --replay qd=8 > table && head -8 table"
PIP_INSTALL = "/venv/bin/pip install --quiet --disable-pip-version-check --no-index --find-links ."
# Makes Cargo take what is on crates.io from a folder.
FROM_A_FOLDER = """
[source.crates-io]
replace-with = "built"

[source.built]
directory = "/opt/registry"
"""


class Wrong(Exception):
    """What was built is not what it should be, or something is missing."""


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, **options)


def output(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout


def version():
    return re.search(r'(?m)^version = "(.*)"', (ROOT / "Cargo.toml").read_text()).group(1)


def commit_time():
    """The time of the commit, which the files of an archive have."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "log", "-1", "--format=%ct", cwd=ROOT))


def needs(program):
    """The newest glibc whose symbols a program or library needs, and the libraries that it loads."""
    symbols = output("objdump", "-T", program)
    found = [tuple(map(int, name.split("."))) for name in re.findall(r"\bGLIBC_(\d+(?:\.\d+)+)", symbols)]
    if not found:
        raise Wrong(f"{program}: objdump finds no symbol of glibc in it")
    return max(found), set(re.findall(r"NEEDED\s+(\S+)", output("objdump", "-p", program)))


def checked(program):
    """Fails if a program cannot run on Debian 12; returns what it needs in words."""
    glibc, libraries = needs(program)
    if glibc > NEWEST_GLIBC or libraries - LIBRARIES:
        more = ", ".join(sorted(libraries - LIBRARIES)) or "no other library"
        raise Wrong(f"{program}: it needs glibc {'.'.join(map(str, glibc))} and {more}: Debian 12 does not have that")
    return f"glibc {'.'.join(map(str, glibc))} or later; {', '.join(sorted(libraries))}"


def command():
    """Builds the command and packs it with manual pages, completions and documents."""
    run(CARGO, "build", "--release", "--locked", "--package", "peryton", cwd=ROOT)
    name = f"peryton-{version()}-x86_64-linux"
    folder = DIST / name
    program = folder / "bin" / "peryton"
    program.parent.mkdir(parents=True)
    run("strip", "--strip-debug", "-o", program, TARGET / "release" / "peryton")
    print(f"{program.name}: {program.stat().st_size / 1e6:.1f} MB; needs {checked(program)}")
    run(program, "man", "--out", folder / "share" / "man" / "man1")
    places = {
        "bash": "bash-completion/completions/peryton",
        "zsh": "zsh/site-functions/_peryton",
        "fish": "fish/vendor_completions.d/peryton.fish",
    }
    for shell, place in places.items():
        path = folder / "share" / place
        path.parent.mkdir(parents=True)
        path.write_text(output(program, "completions", shell))
    about = folder / "share" / "doc" / "peryton"
    about.mkdir(parents=True)
    for document in ("README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"):
        shutil.copy(ROOT / document, about)
    shutil.copytree(ROOT / "examples" / "designs", about / "designs")
    packed = pack(folder, DIST / f"{name}.tar.gz")
    shutil.rmtree(folder)
    return packed


def pack(folder, archive):
    """Packs a folder so that the same files give the same bytes."""
    time, buffer = commit_time(), io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted([folder, *folder.rglob("*")]):
            entry = tar.gettarinfo(path, arcname=path.relative_to(folder.parent))
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = time, 0, 0, "root", "root"
            entry.mode = 0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644
            with path.open("rb") if path.is_file() else io.BytesIO() as content:
                tar.addfile(entry, content if path.is_file() else None)
    with archive.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=time, filename="") as packed:
        packed.write(buffer.getvalue())
    return archive


def python_packages():
    """The wheel and the source distribution; scripts/python.py checks the wheel and tries it."""
    for verb in ("wheel", "sdist"):
        run(sys.executable, ROOT / "scripts" / "python.py", verb)
    return [shutil.copy(path, DIST) for path in sorted((TARGET / "wheels").glob("peryton-*"))]


def crates():
    """The crates as they would be published, in the order in which they would be. (What is built of them is tried by `try`.)"""
    run(CARGO, "package", "--workspace", "--locked", "--no-verify", "--quiet", cwd=ROOT)
    folder = DIST / "crates"
    folder.mkdir()
    for name in published():
        shutil.copy(TARGET / "package" / f"{name}-{version()}.crate", folder)
    return sorted(folder.iterdir())


def published():
    """The names of the crates that are for crates.io."""
    about = json.loads(output(CARGO, "metadata", "--no-deps", "--format-version", "1", "--locked", cwd=ROOT))
    return sorted(package["name"] for package in about["packages"] if package["publish"] != [])


def sbom():
    """A list of everything that is compiled into the command and the module for Python, in the format CycloneDX."""
    program = tool("cargo-cyclonedx", CYCLONEDX)
    made = []
    for package, crate in (("peryton", "peryton"), ("peryton-python", "python")):
        manifest = ROOT / "crates" / crate / "Cargo.toml"
        words = ["cyclonedx", "--manifest-path", manifest, "--format", "json", "--spec-version", "1.5"]
        words += ["--target", "x86_64-unknown-linux-gnu", "--no-build-deps", "--override-filename", "sbom.cdx", "--quiet"]
        before = set(ROOT.glob("**/sbom.cdx.json"))
        try:
            run(program, *words, cwd=ROOT, env={**os.environ, "SOURCE_DATE_EPOCH": str(commit_time())})
            listed = manifest.parent / "sbom.cdx.json"
            made.append(Path(shutil.copy(listed, DIST / f"{package}-{version()}.cdx.json")))
        finally:
            # The tool writes one beside the manifest of each crate of the workspace.
            for path in set(ROOT.glob("**/sbom.cdx.json")) - before:
                path.unlink()
        complete(made[-1], package)
    return made


def complete(listed, package):
    """Compares a list with what Cargo would compile."""
    about = json.loads(listed.read_text())
    if about.get("bomFormat") != "CycloneDX":
        raise Wrong(f"{listed.name}: it is no list in the format CycloneDX")
    have = {(part["name"], part["version"]) for part in [*about["components"], about["metadata"]["component"]]}
    words = ["tree", "--locked", "--package", package, "--edges", "normal", "--prefix", "none", "--format", "{p}"]
    words += ["--target", "x86_64-unknown-linux-gnu"]
    lines = output(CARGO, *words, cwd=ROOT).splitlines()
    wanted = {(words[0], words[1].removeprefix("v")) for words in (line.split() for line in lines) if len(words) > 1}
    if missing := wanted - have:
        raise Wrong(f"{listed.name}: it lacks {', '.join(' '.join(part) for part in sorted(missing))}")
    print(f"{listed.name}: {len(have)} parts")


def debian():
    """The Debian package."""
    run("make", "deb", cwd=ROOT)
    for path in (TARGET / "debian").glob("*.deb"):
        shutil.copy(path, DIST)


def checksums():
    files = sorted(path for path in DIST.rglob("*") if path.is_file())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(DIST)}\n" for path in files]
    (DIST / "SHA256SUMS").write_text("".join(lines))
    run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=DIST)
    for path in files:
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.relative_to(DIST)}")


def build():
    if os.uname().machine != "x86_64":
        raise Wrong(f"packages are made on x86-64; this machine is {os.uname().machine}")
    for program in ("objdump", "strip"):
        if not shutil.which(program):
            raise Wrong(f"{program} is missing (Debian: binutils)")
    if changed := output("git", "status", "--porcelain", cwd=ROOT).strip():
        raise Wrong(f"packages are made of a commit; commit or remove first:\n{changed}")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(parents=True)
    command()
    python_packages()
    crates()
    sbom()
    debian()
    checksums()


def publish():
    """Goes through publishing for every crate; Cargo stops before the upload. (`cargo package --workspace` compiles them.)"""
    run(CARGO, "publish", "--workspace", "--dry-run", "--no-verify", "--locked", cwd=ROOT)


class CleanSystem:
    """A fresh Debian 12 with these packages and nothing else; it is made once, and copied for each try. No program in it has a network."""

    def __init__(self, name, packages):
        if os.geteuid() != 0:
            raise Wrong("a clean system is made by debootstrap, as root")
        if not shutil.which("debootstrap"):
            run("apt-get", "install", "-y", "-qq", "debootstrap")
        base, self.folder = TARGET / "clean" / f"{SUITE}-{name}", TARGET / "clean" / f"try-{name}"
        if not (base / "complete").is_file():
            shutil.rmtree(base, ignore_errors=True)
            base.mkdir(parents=True)
            run("debootstrap", "--variant=minbase", f"--include={','.join(packages)}", SUITE, base, stdout=subprocess.DEVNULL)
            (base / "complete").touch()
        shutil.rmtree(self.folder, ignore_errors=True)
        run("cp", "-a", base, self.folder)
        self.work = self.folder / "work"
        self.work.mkdir()
        # A program finds its own libraries by /proc.
        self.mounts = [f"mount -t proc proc '{self.folder / 'proc'}'"]
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
        for path in (ROOT / "examples" / "traces" / TRACE, ROOT / "examples" / "papers" / DESIGN):
            shutil.copy(path, self.work)
        (self.work / "in_python.py").write_text(IN_PYTHON)

    def mount(self, outside, inside):
        """Shows a folder of this machine in it, for reading only."""
        (self.folder / inside).mkdir(parents=True, exist_ok=True)
        self.mounts.append(f"mount --bind --options ro '{outside}' '{self.folder / inside}'")

    def run(self, text):
        """Runs a command there; its mounts end with it."""
        print(f"$ {text}", flush=True)
        entered = " && ".join([*self.mounts, f"exec chroot '{self.folder}' /bin/sh -ec 'cd /work; {text}'"])
        run("unshare", "--mount", "--net", "/bin/sh", "-c", entered, env=self.environment)

    def remove(self):
        shutil.rmtree(self.folder)


def built():
    """Checks that there is something to try."""
    if not (DIST / "SHA256SUMS").is_file():
        raise Wrong("there is nothing to try: scripts/dist.py build")
    run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=DIST)


def tried():
    """Installs what was built on a clean system, and uses it there."""
    built()
    system = CleanSystem("plain", INSTALLED)
    for path in DIST.iterdir():
        if path.is_file():
            shutil.copy(path, system.work)
    system.run("cat /etc/debian_version; python3 --version; ldd --version | head -1; ! command -v cc")
    name = f"peryton-{version()}-x86_64-linux"
    system.run(f"tar -xzf {name}.tar.gz && {name}/bin/peryton --version")
    system.run(f"{name}/bin/peryton {SIMULATE}")
    system.run(f"python3 -m venv /venv && {PIP_INSTALL} --only-binary peryton peryton && /venv/bin/python in_python.py")
    system.run("dpkg --install ./*.deb && cd / && peryton --version && dpkg --verify peryton")
    system.run(f"peryton {SIMULATE}; dpkg --remove peryton")
    system.remove()


def tried_from_source():
    """Compiles the crates and the source distribution on a clean system, as Cargo and pip do that get them from a registry. The registry is
    a folder that has what was built besides the crates that they depend on, and the toolchain is that of this machine."""
    built()
    system = CleanSystem("compiler", [*INSTALLED, *COMPILER])
    registry = TARGET / "clean" / "registry"
    shutil.rmtree(registry, ignore_errors=True)
    run(CARGO, "vendor", "--locked", "--versioned-dirs", "--quiet", registry, cwd=ROOT, stdout=subprocess.DEVNULL)
    for crate in sorted((DIST / "crates").glob("*.crate")):
        with tarfile.open(crate) as packed_crate:
            packed_crate.extractall(registry, filter="data")
        about = {"files": {}, "package": hashlib.sha256(crate.read_bytes()).hexdigest()}
        (registry / crate.stem / ".cargo-checksum.json").write_text(json.dumps(about))
    (sdist,) = DIST.glob(f"peryton-{version()}.tar.gz")
    shutil.copy(sdist, system.work)
    # pip builds the wheel by maturin, which it looks for beside the source distribution.
    wanted = re.search(r"(?m)^maturin==\S+", (ROOT / "crates" / "python" / "packaging.txt").read_text()).group(0)
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", system.work, wanted)
    system.mount(output("rustc", "--print", "sysroot", cwd=ROOT).strip(), "opt/rust")
    system.mount(registry, "opt/registry")
    cargo = system.folder / "root" / ".cargo"
    cargo.mkdir()
    (cargo / "config.toml").write_text(FROM_A_FOLDER)
    system.environment["PATH"] += ":/opt/rust/bin:/root/.cargo/bin"
    # What both need is compiled once, optimised as Cargo does for those who install a program, not as a whole program.
    system.environment |= {"CARGO_TARGET_DIR": "/compiled", "CARGO_TERM_PROGRESS_WHEN": "never", "CARGO_PROFILE_RELEASE_DEBUG": "false"}
    system.environment |= {"CARGO_PROFILE_RELEASE_LTO": "false", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
    system.run("cat /etc/debian_version; cc --version | head -1; cargo --version")
    system.run("cargo install --locked --quiet peryton && cd / && peryton --version")
    system.run(f"peryton {SIMULATE}")
    system.run(f"python3 -m venv /venv && {PIP_INSTALL} --no-binary peryton peryton && /venv/bin/python in_python.py")
    system.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["build", "try", "try-source", "publish"])
    try:
        verbs = {"build": build, "try": tried, "try-source": tried_from_source, "publish": publish}
        verbs[parser.parse_args().verb]()
    except Wrong as wrong:
        sys.exit(f"dist: {wrong}")
    except subprocess.CalledProcessError as error:
        if error.stderr:
            sys.stderr.write(error.stderr)
        sys.exit(f"dist: {' '.join(map(str, error.cmd))} failed")


if __name__ == "__main__":
    main()
