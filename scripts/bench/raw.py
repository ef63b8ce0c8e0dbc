#!/usr/bin/env python3
"""Compares the drive, over NBD, with the bare file beneath it and with qemu-nbd: the same fio jobs in turn, in one run.

usage: scripts/bench/raw.py [--peryton BINARY[,ARGUMENT...]]... [--seconds N] [--rounds N] [--directory DIR] [--json OUT]
                            [--cores N] [--connections N] [--only NAME]

All of them read the same part of one file, preallocated and written once, one after the other and with O_DIRECT: fio by io_uring, Peryton
with the file as the one device of a volume (`mode = "single"`), qemu-nbd with --cache=none --aio=io_uring. Fio and qemu-nbd write to
another such file, because Peryton would notice that its own was written to. Several --peryton compare
builds or arguments. --cores 1 keeps everything on one processor, the client too. --connections: clients at once, each with the depth.
A directory in /dev/shm measures a RAM disk.
Figures are medians over the rounds, with the least and the most in brackets. Needs fio and qemu-nbd (Debian: fio, qemu-utils).
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from nbd import MIB, Server

SIZE = 1024 * MIB
# What lies before it in the file is the volume's.
START = 64 * MIB

DESIGN = """
[devices.disk]
size = "{mib}MiB"
path = "{file}"

[placement]
mode = "single"
device = "disk"
"""

LINES = [
    ("4 KiB read, depth 32", "randread", "4k", 32),
    ("4 KiB write, depth 32", "randwrite", "4k", 32),
    ("4 KiB read, depth 1", "randread", "4k", 1),
    ("4 KiB write, depth 1", "randwrite", "4k", 1),
    ("1 MiB read, depth 4", "read", "1m", 4),
    ("1 MiB write, depth 4", "write", "1m", 4),
]


class Raw:
    """The file itself. What a request costs is the client's processor time alone."""

    name = "file"

    def __init__(self, path):
        self.engine = ["--ioengine=io_uring", "--direct=1", f"--filename={path}"]

    def cpu_s(self):
        return 0.0

    def stop(self):
        pass


def fio(server, rw, bs, depth, seconds, connections=1):
    engine = getattr(server, "engine", None) or ["--ioengine=nbd", f"--uri=nbd+unix:///?socket={server.socket}"]
    before = server.cpu_s()
    command = ["fio", "--name=t", *engine, f"--rw={rw}", f"--bs={bs}", f"--iodepth={depth}", f"--size={SIZE}", f"--offset={START}",
               f"--numjobs={connections}", "--group_reporting", "--output-format=json"]
    if connections > 1 and "rand" not in rw:
        command += [f"--offset_increment={SIZE // connections}", f"--size={SIZE // connections}"]
    command += ["--time_based", f"--runtime={seconds}", "--ramp_time=0.3"] if seconds else []
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode != 0:
        ended = server.process.poll() if server.name != "file" else None
        said = "" if ended is None else f"; it ended with {ended}: {server.process.stderr.read().strip()}"
        sys.exit(f"fio on {server.name}: {(out.stderr or out.stdout).strip()}{said}")
    job = json.loads(out.stdout[out.stdout.index("{"):])["jobs"][0]
    side = job["read" if "read" in rw else "write"]
    # The processor time includes the time before the count begins.
    ran = (seconds + 0.3) / seconds if seconds else 1
    per = 1e6 / max(1, side["total_ios"] * ran)
    client = (job["usr_cpu"] + job["sys_cpu"]) / 100 * side["runtime"] / 1e3 * connections * ran
    return {"iops": side["iops"], "server_us": (server.cpu_s() - before) * per, "client_us": client * per}


def servers(args, directory):
    """For each name, how to start it."""
    file, other, design, socket = (os.path.join(directory, name) for name in ("disk.img", "other.img", "disk.toml", "sock"))
    mib = (SIZE + 2 * START) // MIB
    open(design, "w").write(DESIGN.format(mib=mib, file=file))
    for path in (file, other):
        subprocess.run(["fallocate", "-l", f"{mib}MiB", path], check=True)

    def peryton(what):
        program, *arguments = what.split(",")
        name = " ".join([os.path.basename(program), *arguments])

        return name, lambda rw: Server(name, [program, "serve", design, "--nbd", socket, *arguments], socket, directory)

    def qemu(rw):
        path = file if "read" in rw else other
        return Server("qemu-nbd", ["qemu-nbd", "-f", "raw", "--cache=none", "--aio=io_uring", "-k", socket, "-t", "-e", "16", path],
                      socket, directory)

    subprocess.run([args.peryton[0].split(",")[0], "create", design], check=True, capture_output=True)
    all_of_them = [("file", lambda rw: Raw(file if "read" in rw else other)), *map(peryton, args.peryton)]
    return all_of_them + ([] if args.without_qemu else [("qemu-nbd", qemu)])


def written(server, rw):
    """Every byte of a file is written once, so that it is allocated and reads find it on the disk."""
    running = server(rw)
    fio(running, "write", "1m", 4, None)
    running.stop()


def measure(args, directory):
    starts = servers(args, directory)
    written(starts[0][1], "write")
    written(starts[1][1], "write")
    results = {}
    for name, rw, bs, depth in LINES:
        if args.only and args.only not in name:
            continue
        runs = {server: [] for server, _ in starts}
        for _ in range(args.rounds):
            for server, start in starts:
                running = start(rw)
                try:
                    runs[server].append(fio(running, rw, bs, depth, args.seconds, args.connections))
                finally:
                    running.stop()
        results[name] = runs
    return results


def show(results):
    for name, runs in results.items():
        print(name)
        middle = {server: {key: statistics.median(run[key] for run in ran) for key in ran[0]} for server, ran in runs.items()}
        for server, ran in runs.items():
            figures, raw = middle[server], middle["file"]["iops"]
            least, most = min(run["iops"] for run in ran), max(run["iops"] for run in ran)
            print(f"  {server:32} {figures['iops']:>9.0f}/s [{least:.0f}..{most:.0f}]  {figures['iops'] / raw:>5.2f} of the file"
                  f"  server {figures['server_us']:>7.1f} us  client {figures['client_us']:>7.1f} us", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peryton", action="append")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", help="where the files go; a temporary directory otherwise")
    parser.add_argument("--json", help="write all figures to a file")
    parser.add_argument("--cores", type=int, help="keep servers and clients on this many processors")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--without-qemu", action="store_true")
    parser.add_argument("--only", help="lines with this in their name")
    args = parser.parse_args()
    args.peryton = args.peryton or ["target/release/peryton"]
    args.peryton = [os.path.abspath(what.split(",")[0]) + what[len(what.split(",")[0]):] for what in args.peryton]
    if args.cores:
        os.sched_setaffinity(0, range(args.cores))
    for tool in ["fio", "fallocate", *([] if args.without_qemu else ["qemu-nbd"])]:
        if not shutil.which(tool):
            print(f"skipped: {tool} is not installed (Debian: fio, qemu-utils)")
            return
    with tempfile.TemporaryDirectory(dir=args.directory) as directory:
        results = measure(args, directory)
    if args.json:
        json.dump(results, open(args.json, "w"), indent=1)
    show(results)


if __name__ == "__main__":
    main()
