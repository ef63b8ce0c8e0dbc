"""The fear: a command of the documents does not work: an option that is gone, an example that was renamed, a step that is missing.

Every command of every page of docs/SUMMARY.md runs here, page by page in the order of the page, in a folder that has the repository's
examples and what the page takes for granted (`GIVEN`). Servers run until their design is needed for something else. A command that
cannot run here is in `NOT_RUN` with the reason.

A block of `text` directly beneath a block of `sh` is what its commands print on a terminal of 80 columns, and is compared with that.
A line `…` stands for lines that are left out, and `…` within a line for a part of it. Of commands that measure something, times,
and what depends on them, are not compared. The traces of a page without such blocks are cut short. A block of `toml` or `python` that
begins with the comment `# NAME` is that file.
"""

import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import PERYTON, REPOSITORY

# Requests of a shipped trace, and of a workload that is drawn: enough for samples, and quick without optimisation.
OF_A_TRACE = 30_000
OF_A_WORKLOAD = 4000
# The longest that a command may take here.
PATIENCE_S = 600
# What setup.sh installs if it can; without one of them its commands are left out, and the page is reported as skipped.
PROGRAMS = ["curl", "nbdcopy", "nbdinfo", "openssl", "qemu-img", "socat"]

HOURS = "takes minutes to hours"
COMPILES = "compiles; make test compiles and runs the same"
ROOT = "changes the machine, as root"
OTHERS = "needs another machine, or a cluster"

# Commands that do not run here: pages, a pattern of the command, and why. Each is needed by some command.
NOT_RUN = [
    ("docs/findings/mixcp.md", r"^cargo run --release -p peryton-plan --example mixcp\b", HOURS),
    ("*", r"^make (demo|test|deb|dist|torture|mutants|fuzz|findings|bench)\b", HOURS),
    ("*", r"^cargo (test|install|build|run --(release -p|profile))\b", COMPILES),
        ("*", r"^(pip install maturin|maturin build)\b", COMPILES),
    ("*", r"^make wheel\b", COMPILES),
    ("*", r"^(systemctl|mkfs\.ext4 /dev|mount|umount|apt|lvconvert|mdadm|modprobe|nbd-client|vgchange|vgreduce|pvremove)\b", ROOT),
    ("*", r"^peryton (serve \S+ --ublk|list)\b", "needs root and a kernel with ublk_drv"),
    ("*", r"^peryton create \S+ --fast /dev/(md/fast|nvme0n1 --slow /dev/ublkb0)\b", ROOT),
    ("*", r"^sudo examples/traces/record-\w+\.sh", ROOT),
    ("docs/findings/models.md", r"^make mqsim\b", "needs MQSim"),
    ("*", r"^(python3 )?scripts/findings/\w+\.py\b", HOURS),
    ("docs/findings/against-kernel-caches.md", r"^scripts/vm\b", HOURS),
    ("docs/nbd.md", r"^(nbdinfo 'nbds://drive\.example|qemu-io --object tls-creds)", OTHERS),
]
PYTHON_NOT_RUN = [
    ("examples/policy-in-rust/README.md", r"import my_policies", "is tested by test_policies_in_rust.py"),
    ("docs/python-research.md", r"ray=|trials=", "needs Ray or Optuna: test_cluster.py"),
]
# What the Python of a page takes for granted.
GIVEN_IN_PYTHON = {
    "docs/parquet-trace.md": "import pandas\nframe = pandas.DataFrame({'time_s': [0.0], 'op': ['R'], 'lba': [8], 'blocks': [8]})\n",
}
# The same in a form that runs here: what Cargo would compile first, devices and folders of the reader's, warm-ups that are cut with
# the traces, and names of what the page lets the reader add.
INSTEAD = [
    (r"^cargo run --release -- ", "peryton "),
    (r"/dev/nvme0n1\b", "fast.img"),
    (r"/dev/nvme1n1\b", "fast2.img"),
    # What `calibrate` measures is not compared, so little of it is enough.
    (r"^peryton calibrate (fast\.img|/mnt/data --scratch 2GiB) ", r"peryton calibrate \1 --time 2s --tries 12 "),
    (r"^peryton calibrate --from ", "peryton calibrate --tries 12 --from "),
    (r"/mnt/data --scratch 2GiB", ". --scratch 64MiB"),
    (r"^(peryton import data --slow) /dev/sdb\b", r"\1 full.img"),
    (r"/dev/sdb\b", "slow.img"),
    (r"/dev/sdc\b", "full.img"),
    (r"--peryton target/(release|quick)/peryton\b", f"--peryton {PERYTON}"),
    (r"(^|\s)(scripts/\S+\.py)\b", rf"\1{REPOSITORY}/\2"),
    (r"/etc/peryton/", ""),
    (r" > docs/", " > "),
    (r"^(peryton (?!trace|import)\S+ )data(?=\s|$)", r"\1data.toml"),
    (r"^peryton import data ", "peryton import data.toml "),
    (r"warm_up_requests=150_000", f"warm_up_requests={OF_A_TRACE // 2}"),
    (r"requests, objects = 10_000_000, 1_000_000", "requests, objects = 20_000, 10_000"),
    (r"--replacement lru,fifo", "--replacement lru,clock_pro"),
    (r"profiles my-device\b", "profiles ./my-device.toml"),
    (r'ftl="yours"', 'ftl="page"'),
    (r"--objective yours", "--objective p99"),
]
# The same where traces are cut.
CUT = [(r"--warm-up-requests \d{5,}", f"--warm-up-requests {OF_A_WORKLOAD // 2}")]
# Latencies as one measures them, of 1,000 reads and writes.
LATENCIES = (
    "awk 'BEGIN { print \"time_us,op,offset,length,latency_us\"; for (i = 0; i < 1000; i++) "
    'printf "%d,%s,%d,4096,%d\\n", i * 300, i % 4 ? "R" : "W", i * 7919 % 65536 * 4096, i % 4 ? 90 + i % 13 : 30 + i % 7 }\' | xz'
)
# What a page takes for granted: a file of the reader's, made of a shipped one.
GIVEN = {
    "nvme.trace.xz": f"{LATENCIES} > nvme.trace.xz",
    "another.trace.xz": f"{LATENCIES} > another.trace.xz",
    "pgbench-ext4.parquet": "cp examples/traces/pgbench-ext4.parquet pgbench-ext4.parquet",
    "my.trace": "cp examples/traces/pgbench-ext4.parquet my.trace",
    "your.trace": "cp examples/traces/sqlite-ext4.ftrace your.trace",
    "my.parquet": "cp examples/traces/pgbench-ext4.parquet my.parquet",
    "five.parquet": "cp examples/traces/pgbench-ext4.parquet five.parquet",
    "pgbench-ext4.ftrace": "cp examples/traces/sqlite-ext4.ftrace pgbench-ext4.ftrace",
    "sqlite-ext4.ftrace": "cp examples/traces/sqlite-ext4.ftrace sqlite-ext4.ftrace",
    "caching.toml": "cp examples/papers/caching-back.toml caching.toml",
    "tiering.toml": "cp examples/papers/tiering.toml tiering.toml",
    "disk.raw": "truncate -s 1M disk.raw",
    "my-device.toml": f"cp {REPOSITORY}/crates/device/profiles/intel-320-300gb.toml my-device.toml",
    "fast.img": "truncate -s 64M fast.img",
    "fast2.img": "truncate -s 64M fast2.img",
    "slow.img": "truncate -s 320M slow.img",
    "full.img": "seq 9999 > full.img && truncate -s 64M full.img",
}
# Verbs whose output depends on their input alone.
EXACT = ["trace", "sim", "sweep", "plan", "size", "tune", "energy", "lifetime", "profiles", "keys", "schema", "help"]
# What is not compared of the other ones: times, rates, identities, folders.
MASKS = [
    (r"\bvolume [0-9a-f]{32}\b", "volume ID"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "DATE"),
    (r"\bprocess \d+", "process N"),
    (r"\d[\d.,]*(e-\d+)? ?(ns|us|µs|ms|s|min|h)\b", "TIME"),
    (r"\d[\d.,]* ?([KMG]i?B)/s", "RATE"),
]
# Verbs that ask the server of a volume.
LIVE = ["status", "top", "events", "set", "writeback"]
# Verbs for a volume that is not served.
CLOSED = ["check", "repair", "export", "dump"]
# A design whose devices are two small files.
A_VOLUME = (
    "peryton create - --mode caching --fast-profile intel-320-300gb --fast-size 64MiB --fast {0}-ssd.img "
    "--slow-profile seagate-st32000641as --slow {0}-hdd.img --size 320MiB > {0}.toml"
)


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    page: str
    line: int
    language: str
    text: str
    # The line of its end, and whether nothing but blank lines lies between it and the block before.
    end: int = 0
    follows: bool = False


@dataclass(frozen=True)
class Command:
    """A command of a page, whole."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def pages() -> list[str]:
    summary = (REPOSITORY / "docs" / "SUMMARY.md").read_text()
    found = [os.path.normpath(f"docs/{target}") for target in re.findall(r"\]\(([^)]+)\)", summary)]
    readmes = [path for path in (REPOSITORY / "crates").glob("*/README.md")] + [*(REPOSITORY / "examples").rglob("README.md")]
    assert {os.fspath(path.relative_to(REPOSITORY)) for path in readmes} <= set(found), "docs/SUMMARY.md lacks a README"
    return found


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page. Each has to say what it is, and code that is only indented would be overlooked."""
    found, open_, blank, between = [], None, True, True
    for number, line in enumerate((REPOSITORY / page).read_text().splitlines(), 1):
        if fence := re.fullmatch(r"(\s*)```(\S*)\s*", line):
            if open_ is None:
                assert fence[2], f"{page}:{number}: say what the block is: sh, python, toml, json, rust or text"
                open_ = (number, fence[2], len(fence[1]), [], not between)
                between = False
            else:
                start, language, _, lines, follows = open_
                found.append(Block(page, start, language, "\n".join(lines) + "\n", number, follows))
                open_ = None
        elif open_ is not None:
            open_[3].append(line[open_[2] :])
        else:
            assert not (blank and line.startswith("    ")), f"{page}:{number}: put the block between ``` and say what it is"
            blank = not line.strip()
            between |= not blank
    assert open_ is None, f"{page}: a block does not end"
    return found


def is_whole(text: str) -> bool:
    goes_on = text.rstrip("\n").endswith("\\")
    return not goes_on and subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).returncode == 0


def commands(page: str) -> list[Command]:
    return [command for session, _ in sessions(page) for command in session]


def sessions(page: str) -> list[tuple[list[Command], Block | None]]:
    """The blocks of commands, each with the block that shows what they print."""
    all_, found_ = blocks(page), []
    for index, block in enumerate(all_):
        if block.language != "sh":
            continue
        found, text = [], ""
        after = all_[index + 1] if index + 1 < len(all_) else None
        found_.append((found, after if after and after.language == "text" and after.follows else None))
        for number, line in enumerate(block.text.splitlines(), block.line + 1):
            text += line + "\n"
            if is_whole(text):
                if text.strip() and not text.startswith("#"):
                    found.append(Command(page, number - text.count("\n") + 1, text.strip()))
                text = ""
        assert not text, f"{page}:{block.line}: a command does not end: {text}"
    return found_


def reason(page: str, text: str, listed: list[tuple[str, str, str]]) -> str | None:
    """Why it is not run."""
    of_page = [entry for entry in listed if entry[0] in ("*", page)]
    return next((why for _, pattern, why in of_page if re.search(pattern, re.sub(r"\\\n\s*", "", text))), None)


def python(page: str) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python"]


def run(command: str, folder: Path, environment: dict[str, str], good: str = "0") -> str:
    """Runs a command on a terminal to its end, which has to be good; what it printed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    words = ["timeout", str(PATIENCE_S), "bash", "-o", "pipefail", "-c", command]
    said: list[str] = []
    with subprocess.Popen(
        words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE
    ) as running:
        os.close(theirs)
        reader = threading.Thread(target=lambda: said.append(running.stderr.read().decode(errors="replace")))
        reader.start()
        printed = b"".join(iter(lambda: piece(ours), b"")).decode(errors="replace")
        reader.join()
    os.close(ours)
    printed = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.replace("\r\n", "\n"))
    ran = subprocess.CompletedProcess(words, running.returncode, printed, said[0])
    # A reader that has enough (`| head`) ends the writer by SIGPIPE.
    if ran.returncode == 127 and (missing := re.search(r"(\S+): command not found", ran.stderr)) and missing[1] in PROGRAMS:
        raise Missing(missing[1])
    assert ran.returncode in (int(good), 141 if "| head" in command else 0), f"exit code {ran.returncode}:\n{ran.stdout}{ran.stderr}"
    return ran.stdout + ran.stderr


def piece(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


def masked(text: str, folder: Path, exact: bool) -> str:
    """What is compared: the lines, or the words with times and paths masked (how long a path is decides where lines are broken)."""
    text = text.replace(f"{folder}/", "").replace(os.fspath(folder), "")
    if exact:
        return "".join(f"{line.rstrip()}\n" for line in text.strip().splitlines())
    text = " ".join(text.split())
    for pattern, other in MASKS:
        text = re.sub(pattern, other, text)
    return text


def agrees(shown: str, printed: str) -> bool:
    """Whether what a page shows is what was printed, but for what it leaves out."""
    pattern = ".*".join(re.escape(part) for part in re.split(r"(?<![^\n])…\n|(?: ?…)+ ?", shown))
    return re.fullmatch(pattern, printed, flags=re.DOTALL) is not None


def instead(text: str) -> str:
    for pattern, other in INSTEAD:
        text = re.sub(pattern, other, text)
    return text


class Missing(Exception):
    """A program that is not on this machine."""


class Desk:
    """A folder in which the commands of a page run, and the servers that they started."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        self.formatted: set[str] = set()
        self.cut = True

    def carry_out(self, command: str) -> str:
        """What the command printed."""
        command = instead(command)
        for pattern, other in CUT if self.cut else ():
            command = re.sub(pattern, other, command)
        words = shlex.split(command, comments=True)
        self.provide(words)
        if words[0] == "kill" and words[-1] == "%1":
            return self.kill() if "-9" in words else self.stop(next(iter(self.servers)))
        if words[-1] == "&":
            words.pop()
        if words[:2] in (["peryton", "serve"], ["peryton", "supervise"]):
            name = words[2].removeprefix("./").removesuffix(".toml")
            self.serve(name, words)
            return (self.folder / f"{name}.out").read_text() + (self.folder / f"{name}.log").read_text()
        if (words[:2] == ["peryton", "top"] and "--once" not in words) or "--follow" in words:
            self.watch(words)
            return ""
        good = re.search(r"# exit code (\d+)$", command)
        return run(command, self.folder, self.environment, good[1] if good else "0")

    def provide(self, words: list[str]) -> None:
        """Makes what the command takes for granted, and takes away what it would find in use."""
        # What the command itself makes comes last.
        made = words[-1] if words[:3] in (["peryton", "trace", "convert"], ["peryton", "trace", "synth"]) else None
        for word in words:
            name = word.removeprefix("./")
            if name in GIVEN and word != made and words[0] != "truncate" and not (self.folder / name).exists():
                run(GIVEN[name], self.folder, self.environment)
            served = r"([\w-]+)\.(?:control|nbd|toml)\b" if words[:1] == ["peryton"] and words[1] in LIVE else r"([\w-]+)\.(?:control|nbd)\b"
            for volume in re.findall(served, word):
                if volume not in self.servers:
                    self.serve(volume, ["peryton", "serve", f"{volume}.toml"])
        if words[:2] == ["peryton", "create"]:
            self.prepare_format(words)
        elif words[0] == "peryton" and words[1] in CLOSED:
            name = words[2].removeprefix("./").removesuffix(".toml")
            self.stop(name)
            self.make(name)

    def prepare_format(self, words: list[str]) -> None:
        """A page that formats a volume again shows another way to do it: that one has new devices, too."""
        name = words[2].removeprefix("./").removesuffix(".toml")
        self.stop(name)
        design = self.folder / words[2]
        if name in self.formatted or "--fast" in words:
            design.unlink(missing_ok=True)
        if "--fast" in words:
            for image in ("fast.img", "slow.img"):
                (self.folder / image).unlink(missing_ok=True)
                run(GIVEN[image], self.folder, self.environment)
        elif not design.exists():
            run(A_VOLUME.format(name), self.folder, self.environment)
        self.formatted.add(name)

    def make(self, name: str) -> None:
        """Makes a volume that the page takes for granted."""
        design = self.folder / f"{name}.toml"
        if not design.exists() or "path =" not in design.read_text():
            design.unlink(missing_ok=True)
            run(A_VOLUME.format(name), self.folder, self.environment)
            run(f"peryton create {name}.toml", self.folder, self.environment)

    def serve(self, name: str, words: list[str]) -> None:
        """Starts a server, and waits until it answers."""
        self.stop(name)
        self.make(name)
        with (self.folder / f"{name}.log").open("wb") as log, (self.folder / f"{name}.out").open("wb") as out:
            said = {"stdout": out, "stderr": log}
            server = subprocess.Popen(words, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, **said)
        self.servers[name] = server
        deadline = time.monotonic() + PATIENCE_S
        while not self.answers(name):
            said = (self.folder / f"{name}.log").read_text(errors="replace")
            assert server.poll() is None, f"the server ended with {server.returncode}:\n{said}"
            assert time.monotonic() < deadline, f"the server does not answer:\n{said}"
            time.sleep(0.05)

    def answers(self, name: str) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                # A path of a socket is short; the folder's may be long.
                client.connect(os.fspath(Path(os.path.relpath(self.folder / f"{name}.control"))))
            except OSError:
                return False
            client.settimeout(PATIENCE_S)
            client.sendall(b'{"verb":"status"}\n')
            return bool(json.loads(client.makefile().readline())["ok"])

    def stop(self, name: str) -> str:
        """Ends a server by SIGTERM, which closes the volume in good order; what it said since."""
        server = self.servers.pop(name, None)
        if server:
            server.send_signal(signal.SIGTERM)
            code = server.wait(PATIENCE_S)
            assert code == 0, f"the server ended with {code}:\n{(self.folder / f'{name}.log').read_text(errors='replace')}"
        return ""

    def kill(self) -> str:
        """Kills the only server."""
        ((_, server),) = self.servers.items()
        self.servers.clear()
        server.kill()
        server.wait()
        return ""

    def watch(self, words: list[str]) -> None:
        """Runs a command on a terminal until it has shown something, and ends it by Ctrl-C."""
        ours, theirs = pty.openpty()
        environment = {**self.environment, "TERM": "xterm"}
        watcher = subprocess.Popen(words, cwd=self.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown = os.read(ours, 4096)
        assert shown and watcher.poll() is None, f"it ended with {watcher.returncode}: {shown!r}"
        watcher.send_signal(signal.SIGINT)
        code = watcher.wait(PATIENCE_S)
        os.close(ours)
        assert code in (0, 130, -signal.SIGINT), f"exit code {code}: {shown!r}"

    def close(self) -> None:
        for name in [*self.servers]:
            self.stop(name)


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, with fewer requests: the beginning of each trace, and as many of each workload."""
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path_factory.mktemp("documents")
    shutil.copytree(REPOSITORY / "examples", folder / "examples", ignore=shutil.ignore_patterns("target"))
    for specification in (REPOSITORY / "scripts").rglob("*.toml"):
        if "house" not in specification.parts:
            there = folder / specification.relative_to(REPOSITORY)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(specification, there)
    for trace in folder.rglob("*.parquet"):
        parquet.write_table(parquet.read_table(trace).slice(0, OF_A_TRACE), trace)
    for workload in folder.rglob("*.toml"):
        text = workload.read_text()
        workload.write_text(re.sub(r"(?m)^requests = [\d_]+$", f"requests = {OF_A_WORKLOAD}", text))
    return folder


@pytest.fixture
def desk(examples: Path, tmp_path: Path) -> Iterator[Desk]:
    assert PERYTON.is_file(), f"{PERYTON} is missing: cargo build -p peryton, or set PERYTON"
    shutil.copytree(examples, tmp_path, dirs_exist_ok=True)
    programs = tmp_path / ".programs"
    programs.mkdir()
    (programs / "peryton").symlink_to(PERYTON.resolve())
    path = os.pathsep.join([os.fspath(programs), os.fspath(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "MPLBACKEND": "Agg", "XDG_RUNTIME_DIR": os.fspath(tmp_path)}
    found = Desk(tmp_path, environment)
    try:
        yield found
        found.close()
    finally:
        for server in found.servers.values():
            server.kill()
            server.wait()


PAGES = pages()


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.language == "sh" for block in blocks(page))])
def test_every_command_of_the_page_runs(page: str, desk: Desk) -> None:
    missing, all_ = set(), sessions(page)
    if any(shown for _, shown in all_):
        shutil.copytree(REPOSITORY / "examples", desk.folder / "examples", dirs_exist_ok=True)
        desk.cut = False
    for block in blocks(page):
        if block.language in ("toml", "python") and (name := re.match(r"# ([\w.-]+\.(?:toml|py))\n", block.text)):
            (desk.folder / name[1]).write_text(instead(block.text))
    for session, shown in all_:
        printed, exact, whole = "", True, True
        for command in session:
            if reason(page, command.text, NOT_RUN):
                whole = False
                continue
            words = command.text.split()
            exact &= words[0] != "peryton" or words[1] in EXACT
            try:
                printed += desk.carry_out(command.text)
            except Missing as program:
                missing.add(str(program))
                whole = False
            except (AssertionError, subprocess.TimeoutExpired) as error:
                pytest.fail(f"{command}\n{error}", pytrace=False)
        if shown and whole:
            wanted, found = masked(instead(shown.text), desk.folder, exact), masked(printed, desk.folder, exact)
            if not agrees(wanted, found):
                pytest.fail(f"{page}:{shown.line}: the page shows\n{shown.text}\nand this was printed:\n{printed}", pytrace=False)
    if missing:
        pytest.skip(f"missing: {', '.join(sorted(missing))}: the other commands of the page ran")


@pytest.mark.parametrize("page", [page for page in PAGES if python(page)])
def test_the_python_of_the_page_runs(page: str, desk: Desk) -> None:
    program = "\n".join(block.text for block in python(page) if not reason(page, block.text, PYTHON_NOT_RUN))
    for name in GIVEN:
        if f'"{name}"' in program:
            run(GIVEN[name], desk.folder, desk.environment)
    (desk.folder / "page.py").write_text(GIVEN_IN_PYTHON.get(page, "") + instead(program))
    run("python3 -W error::DeprecationWarning page.py", desk.folder, desk.environment)


def test_the_list_of_commands_that_do_not_run_has_no_others() -> None:
    texts = {page: [command.text for command in commands(page)] for page in PAGES}
    of_python = {page: [block.text for block in python(page)] for page in PAGES}
    for listed, found in ((NOT_RUN, texts), (PYTHON_NOT_RUN, of_python)):
        used = [any(reason(page, text, [entry]) for page, all_ in found.items() for text in all_) for entry in listed]
        assert all(used), f"nothing is like {[entry for entry, is_used in zip(listed, used, strict=True) if not is_used]}"


def test_what_is_not_run_names_targets_and_options_that_exist() -> None:
    for page, command in ((page, command) for page in PAGES for command in commands(page)):
        words = shlex.split(command.text, comments=True)
        if words[0] == "peryton" and reason(page, command.text, NOT_RUN):
            helped = subprocess.run([PERYTON, "help", words[1]], capture_output=True, text=True, check=True).stdout
            options = [word.split("=")[0] for word in words if word.startswith("--")]
            assert all(option in helped for option in options), f"{command}\n{helped}"
        if words[0] == "make":
            ran = subprocess.run(["make", "--dry-run", *words[1:]], cwd=REPOSITORY, capture_output=True, text=True)
            assert ran.returncode == 0, f"{command}\n{ran.stderr}"
        if words[:2] == ["cargo", "test"] and "-p" in words:
            crate = REPOSITORY / "crates" / words[words.index("-p") + 1].removeprefix("peryton-")
            assert (crate / "Cargo.toml").is_file(), command
            if "--test" in words:
                target, *more = words[words.index("--test") + 1 :]
                files = crate / "tests" / target
                assert files.with_suffix(".rs").is_file() or (files / "main.rs").is_file(), command
                # Of a program with the tests of many files, a part of a name: of a file or of a test.
                if files.is_dir() and more and not more[0].startswith("-"):
                    names = [path.stem for path in files.glob("*.rs")]
                    texts = [path.read_text() for path in files.glob("*.rs")]
                    assert more[0] in names or any(f"fn {more[0]}" in text for text in texts), command


# The most words of each page, without code, and of all pages that are not generated.
WORDS = {
    "README.md": 700,
    "CONTRIBUTING.md": 900,
    "ARCHITECTURE.md": 3500,
    "docs/decide.md": 1000,
    "docs/run.md": 900,
    "docs/python.md": 900,
    "docs/install.md": 700,
    "docs/record.md": 500,
    "docs/planning.md": 1200,
    "docs/reports.md": 1200,
    "docs/making-a-volume.md": 1300,
    "docs/operate.md": 1500,
    "docs/failures.md": 1800,
    "docs/monitor.md": 700,
    "docs/migrating.md": 600,
    "docs/twin.md": 1200,
    "docs/comparing.md": 900,
    "docs/sampling.md": 600,
    "docs/python-research.md": 700,
    "docs/extending.md": 1400,
    "docs/how-it-works.md": 1500,
    "docs/caching.md": 2000,
    "docs/placements.md": 1600,
    "docs/durability.md": 1500,
    "docs/disk-model.md": 1300,
    "docs/flash-model.md": 2200,
    "docs/profiles.md": 900,
    "docs/format.md": 3560,
    "docs/nbd.md": 700,
    "docs/parquet-trace.md": 300,
    "docs/glossary.md": 800,
    "docs/claims.md": 1300,
    "docs/findings/against-kernel-caches.md": 1500,
    "docs/findings/models.md": 1500,
    "docs/performance.md": 1200,
    "docs/testing.md": 2500,
}
MOST_WORDS = 58_000
GENERATED = ["docs/design-keys.md", "docs/metrics.md"]


def words_of(page: str) -> int:
    text = (REPOSITORY / page).read_text()
    text = re.sub(r"(?ms)^(\s*)```.*?^\s*```$|<!--.*?-->", "", text)
    return sum(re.search(r"\w", word) is not None for word in re.sub(r"\]\([^)]*\)", "]", text).split())


# The most words of a sentence.
LONGEST_SENTENCE = 30


def sentences(page: str) -> Iterator[str]:
    """The sentences of a page. An item of a list and a cell of a table end one; a piece of code is a word."""
    text = re.sub(r"(?ms)^(\s*)```.*?^\s*```$|<!--.*?-->", "", (REPOSITORY / page).read_text())
    text = re.sub(r"(?m)^> ?", "", text)
    for part in re.split(r"\n\s*\n|\n(?=\s*[-*|#]|\s*\d+\. )", text):
        plain = re.sub(r"`[^`]*`", "CODE", re.sub(r"\]\([^)]*\)", "]", " ".join(part.split())))
        for cell in plain.split("|") if plain.startswith("|") else [plain]:
            yield from re.split(r"(?<=[.?!:])[*)]* +(?=[A-Z*\[(])", cell)


def test_sentences_are_short() -> None:
    words = {sentence: len(re.findall(r"\w[\w'’%.,/-]*", sentence)) for page in PAGES for sentence in sentences(page)}
    longer = [sentence for sentence, found in words.items() if found > LONGEST_SENTENCE]
    assert len(words) > 2000 and not longer, "\n".join(longer)


def test_pages_do_not_grow() -> None:
    words = {page: words_of(page) for page in PAGES if page not in GENERATED}
    assert sum(words.values()) <= MOST_WORDS, words
    longer = {page: (words[page], most) for page, most in WORDS.items() if words[page] > most}
    longer |= {page: (found, 1500) for page, found in words.items() if page.startswith("docs/findings/") and found > 1500}
    assert not longer, f"words, and the most of them: {longer}"


def test_lines_of_code_that_a_page_cites_are_in_the_source() -> None:
    sources = [" ".join(path.read_text().split()) for path in (REPOSITORY / "crates").glob("*/src/**/*.rs")]
    cited = [line for block in blocks("docs/extending.md") if block.language == "rust" for line in block.text.splitlines() if line.strip()]
    wrong = [line for line in cited if not any(" ".join(line.split()) in source for source in sources)]
    assert len(cited) > 4 and not wrong, "\n".join(wrong)


def leaves(table: dict[str, Any], above: str = "") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict) and key != "model":
            yield from leaves(value, f"{above}{key}.")
        else:
            yield above + key


def test_designs_of_the_pages_have_keys_that_exist() -> None:
    printed = subprocess.run([PERYTON, "keys", "--json"], capture_output=True, text=True, check=True).stdout
    keys = [key["key"] for key in json.loads(printed)]
    tables = {key.split(".")[0] for key in keys if "." in key}
    wrong, seen = [], 0
    for page in PAGES:
        for block in (block for block in blocks(page) if block.language in ("toml", "json")):
            if block.language == "json":
                for line in block.text.splitlines():
                    json.loads(line)
                continue
            design = {name: value for name, value in tomllib.loads(block.text).items() if name in tables}
            for key in leaves(design):
                seen += 1
                pattern = [re.escape(known).replace("NAME", "[^.]+") for known in keys]
                if not any(re.fullmatch(known, key) for known in pattern):
                    wrong.append(f"{page}:{block.line}: there is no key '{key}'")
    assert not wrong and seen > 10, "\n".join(wrong)


def test_a_page_has_one_name_for_a_volume() -> None:
    """A volume of /etc/peryton is `NAME`, and its sockets are in /run/peryton; one of a file is `NAME.toml`, with `NAME.control` beside it."""
    wrong, seen = [], 0
    for page in PAGES:
        texts = [command.text for command in commands(page)]
        named = {match[1] for text in texts if (match := re.match(r"peryton (?!trace|profiles|help|keys|twin|advise)[a-z-]+ ([\w-]+)(?=\s|$)", text))}
        seen += len(named)
        wrong += [f"{page}: {text}: '{name}' is no file" for text in texts for name in named if re.search(rf"\b{name}\.(toml|control|nbd)\b", text)]
    assert not wrong and seen > 5, "\n".join(wrong)


def test_commands_for_trouble_overwrite_no_device() -> None:
    texts = [command for page in PAGES for command in commands(page)]
    wrong = [f"{command}" for command in texts if re.search(r"\bof=/dev/|> */dev/(?!null\b)", command.text)]
    wrong += [f"{command}" for command in commands("docs/failures.md") if "/dev/" in command.text and "/dev/urandom" not in command.text]
    assert not wrong, "\n".join(wrong)


def test_the_package_is_not_installed_from_a_registry() -> None:
    wrong = [page for page in PAGES if re.search(r"pip install (?!-)[\"']?peryton\b", (REPOSITORY / page).read_text())]
    assert not wrong, wrong


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"(?ms)^(\s*)```.*?^\s*```$", "", page.read_text())
    headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in re.findall(r"(?m)^#+ (.*)$", text)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    wrong, seen = [], 0
    for page in PAGES:
        here = REPOSITORY / page
        text = re.sub(r"(?ms)^(\s*)```.*?^\s*```$", "", here.read_text())
        for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            there = (here.parent / path).resolve() if path else here
            seen += 1
            if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
                wrong.append(f"{page}: {target}")
    assert not wrong and seen > 200, "\n".join(wrong)


def test_keys_in_sentences_exist() -> None:
    """A word in backticks that begins like a design key is one, the beginning of one, or a table."""
    printed = subprocess.run([PERYTON, "keys", "--json"], capture_output=True, text=True, check=True).stdout
    keys = [key["key"] for key in json.loads(printed)]
    tables = {key.split(".")[0] for key in keys if "." in key} - {"devices"}
    # Some tables of a profile have the names of tables of a design.
    keys += [key for path in (REPOSITORY / "crates/device/profiles").glob("*.toml") for key in leaves(tomllib.loads(path.read_text()))]
    patterns = [re.compile(re.escape(key).replace("NAME", "[^.]+")) for key in keys]
    known = {".".join(key.split(".")[:length]) for key in keys for length in range(1, key.count(".") + 1)}
    wrong, seen = [], 0
    for page in (page for page in PAGES if page not in GENERATED):
        text = re.sub(r"(?ms)^(\s*)```.*?^\s*```$", lambda block: "\n" * block[0].count("\n"), (REPOSITORY / page).read_text())
        for span in re.finditer(r"`([a-z_]+(?:\.[a-z_]+)+)(?: ?=[^`]*)?`", text):
            name = span[1]
            if name.split(".")[0] in tables and name not in known and not name.endswith(".rs"):
                seen += 1
                if not any(pattern.fullmatch(name) for pattern in patterns):
                    wrong.append(f"{page}:{text[: span.start()].count(chr(10)) + 1}: there is no key '{name}'")
    assert not wrong and seen > 25, "\n".join(wrong)


def test_codes_of_warnings_exist() -> None:
    """A script looks for the codes that the page lists."""
    text = (REPOSITORY / "docs/reports.md").read_text()
    table = text[text.index("| code |") : text.index("A report without warnings")]
    codes = [code for row in re.findall(r"(?m)^\| (`.*?) \|", table) for code in re.findall(r"`([a-z_]+)`", row)]
    source = "".join(path.read_text() for crate in ("sim", "trace") for path in (REPOSITORY / "crates" / crate / "src").rglob("*.rs"))
    wrong = [code for code in codes if f'"{code}"' not in source]
    assert not wrong and len(codes) > 20, wrong


def spans(page: str) -> Iterator[tuple[int, str]]:
    """The commands within the sentences of a page, with their lines."""
    text = (REPOSITORY / page).read_text()
    text = re.sub(r"(?ms)^(\s*)```.*?^\s*```$", lambda block: "\n" * block[0].count("\n"), text)
    for span in re.finditer(r"`((?:target/\w+/)?peryton [^`]*)`", text):
        yield text[: span.start()].count("\n") + 1, " ".join(span[1].split())


def test_verbs_and_options_in_sentences_exist() -> None:
    helps: dict[tuple[str, ...], str | None] = {}

    def help_of(*verb: str) -> str | None:
        if verb not in helps:
            ran = subprocess.run([PERYTON, "help", *verb], capture_output=True, text=True)
            helps[verb] = ran.stdout if ran.returncode == 0 else None
        return helps[verb]

    wrong, seen = [], 0
    for page in PAGES:
        for line, span in spans(page) if page != "CHANGELOG.md" else ():
            words = span.split()[1:]
            if not re.fullmatch(r"[a-z]+", words[0]):
                continue
            verb = words[:2] if words[0] in ("trace",) and len(words) > 1 and words[1].isalpha() else words[:1]
            found, seen = help_of(*verb), seen + 1
            unknown = [option for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", span) if f"{option}" not in (found or "")]
            if found is None or unknown:
                wrong.append(f"{page}:{line}: `{span}`: {'no such verb' if found is None else ' '.join(unknown)}")
    assert not wrong and seen > 100, "\n".join(wrong)
