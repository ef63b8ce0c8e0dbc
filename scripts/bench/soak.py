#!/usr/bin/env python3
"""Runs volumes for a long time under everything at once, and says whether memory and descriptors of the servers stay flat.

usage: scripts/bench/soak.py [--peryton BINARY] [--minutes N] [--folder FOLDER] [--csv FILE]

For each placement a server runs. One client verifies what it reads: a block holds what was written last, or, if it was not flushed
and a flush failed since, what it held before. Clients come and go, some in the middle of a request. Settings change at random,
and drills make devices lag, fail, lack space or go away for seconds. Every ten seconds a line goes to the CSV file. It fails if
anything that is read is wrong, if a server ends, or if the memory (without shared pages) or the number of descriptors of the last
third is above the first third's by more than a tenth and 4 MiB, or by more than a tenth and 8 descriptors."""

import argparse, json, os, random, shutil, signal, socket, statistics, subprocess, sys, tempfile, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from attacks import FLUSH, READ, WRITE, connect, exactly, request

BLOCK = 4096
VERIFIED = 2048
DESIGN = """[devices.small]
profile = 'fixed'
size = '64MiB'
path = 'small.img'
[devices.large]
profile = 'fixed'
size = '256MiB'
path = 'large.img'
[failure]
patience = '30s'
[placement]
"""
PAIR = "mode = '{}'\nfast = 'small'\nslow = 'large'\nextent = '16KiB'\n"
PLACEMENTS = {
    "tiering": PAIR.format("tiering"),
    "caching-back": PAIR.format("caching") + "write = 'back'\n",
    "caching-part": PAIR.format("caching") + "write = 'back'\n",
    "partitioned": PAIR.format("partitioned"),
    "logging": "mode = 'logging'\nlog = 'small'\nprimary = 'large'\nblock = '4KiB'\n",
}
SETTINGS = {
    "logging": ["triggers.size={}MiB", "triggers.timeout={}s"],
    "other": ["placement.max_moves={}", "placement.commit_interval={}ms"],
}


class Volume:
    """A server, and what is known of the blocks that are verified."""

    def __init__(self, name, peryton, folder, seconds):
        self.name, self.ends, self.folder = name, time.monotonic() + seconds, os.path.join(folder, name)
        os.mkdir(self.folder)
        self.design = os.path.join(self.folder, "volume.toml")
        with open(self.design, "w") as file:
            file.write(DESIGN + PLACEMENTS[name])
        subprocess.run([peryton, "create", self.design], check=True, stdout=subprocess.DEVNULL)
        self.nbd, self.control = os.path.join(self.folder, "nbd"), os.path.join(self.folder, "volume.control")
        self.log = open(os.path.join(self.folder, "log"), "w")
        self.server = subprocess.Popen([peryton, "serve", "--drills", self.design, "--nbd", self.nbd], stderr=self.log,
                                       stdout=self.log)
        until = time.monotonic() + 30
        while not os.path.exists(self.nbd):
            if time.monotonic() > until or self.server.poll() is not None:
                sys.exit(f"{name}: the server does not start: {open(self.log.name).read().strip()}")
            time.sleep(0.05)
        # A flush that fails stands for all clients, so flushes and what follows from them come one after another.
        self.flushes = threading.Lock()
        self.allowed = [{bytes(8)} for _ in range(VERIFIED)]
        self.before = {}
        self.counts = dict.fromkeys(["verified", "errors", "clients", "sets", "drills", "failed_flushes"], 0)
        self.wrong = []
        self.threads = [threading.Thread(target=self.guarded, args=(work,), daemon=True)
                        for work in (self.verify, self.come_and_go, self.change, self.drill)]
        for thread in self.threads:
            thread.start()

    def goes_on(self):
        return time.monotonic() < self.ends and not self.wrong

    def guarded(self, work):
        try:
            work()
        except Exception as error:  # Whatever it is, the run has failed.
            if self.goes_on():
                self.wrong.append(f"{work.__name__}: {type(error).__name__}: {error}")

    def ask(self, line):
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(self.control)
            control.sendall(json.dumps(line).encode() + b"\n")
            return json.loads(control.makefile().readline())

    def flush(self, sock):
        with self.flushes:
            sock.sendall(request(FLUSH, 0, 0))
            if int.from_bytes(exactly(sock, 16)[4:8], "big") == 0:
                self.before.clear()
            else:
                self.counts["failed_flushes"] += 1
                self.doubt()

    def doubt(self):
        for block, values in self.before.items():
            self.allowed[block] |= values
        self.before.clear()

    def verify(self):
        sock, choose, stamp = connect(self.nbd), random.Random(1), 0
        while self.goes_on():
            # Long, not busy: others may use the machine.
            time.sleep(0.002)
            block, kind = choose.randrange(VERIFIED), choose.randrange(100)
            if kind < 4:
                self.flush(sock)
            elif kind < 50:
                stamp += 1
                value = stamp.to_bytes(8, "little")
                with self.flushes:
                    old = self.before.get(block, set()) | self.allowed[block]
                    sock.sendall(request(WRITE, block * BLOCK, BLOCK) + value * (BLOCK // 8))
                    failed = int.from_bytes(exactly(sock, 16)[4:8], "big")
                    self.before[block] = old
                    self.allowed[block] = old | {value} if failed else {value}
                    self.counts["errors"] += bool(failed)
            else:
                with self.flushes:
                    sock.sendall(request(READ, block * BLOCK, BLOCK))
                    if int.from_bytes(exactly(sock, 16)[4:8], "big"):
                        self.counts["errors"] += 1
                        continue
                    data = exactly(sock, BLOCK)
                    # Until the host's next flush, what was in doubt may read as it was before.
                    possible = self.allowed[block] | self.before.get(block, set())
                    sectors = {data[at:at + 8] for at in range(0, BLOCK, 512)}
                    if not sectors <= possible or any(data[at:at + 8] * 64 != data[at:at + 512] for at in range(0, BLOCK, 512)):
                        self.wrong.append(f"block {block} holds {sorted(sectors)}, not one of {sorted(possible)[-3:]}")
                    self.counts["verified"] += 1

    def come_and_go(self):
        choose = random.Random(2)
        while self.goes_on():
            socks = [connect(self.nbd) for _ in range(choose.randrange(1, 6))]
            self.counts["clients"] += len(socks)
            for sock in socks:
                sock.settimeout(60)
                for _ in range(choose.randrange(1, 40)):
                    offset, size = (VERIFIED + choose.randrange(30000)) * BLOCK, choose.choice([512, 4096, 65536])
                    if choose.randrange(2):
                        sock.sendall(request(WRITE, offset, size) + os.urandom(size))
                        exactly(sock, 16)
                    else:
                        sock.sendall(request(READ, offset, size))
                        if int.from_bytes(exactly(sock, 16)[4:8], "big") == 0:
                            exactly(sock, size)
                if choose.randrange(3) == 0:
                    # It leaves in the middle of a request.
                    sock.sendall(request(WRITE, VERIFIED * BLOCK, 1 << 20) + bytes(choose.randrange(1 << 18)))
                elif choose.randrange(3) == 0:
                    self.flush(sock)
                sock.close()
            time.sleep(choose.random())

    def change(self):
        choose = random.Random(3)
        keys = SETTINGS["logging" if self.name == "logging" else "other"]
        while self.goes_on():
            answer = self.ask({"verb": "set", "settings": [choose.choice(keys).format(choose.randrange(1, 64))]})
            outage = self.ask({"verb": "status"})["status"]["state"] != "healthy"
            if not answer["ok"] and not outage and "not kept" not in answer["error"]:
                self.wrong.append(answer["error"])
            self.counts["sets"] += 1
            time.sleep(choose.random() * 4)

    def drill(self):
        choose = random.Random(4)
        while self.goes_on():
            time.sleep(choose.random() * 20)
            fault = {"device": choose.randrange(2), "effect": choose.choice(["outage", "full", "lag", "fail"])}
            if fault["effect"] == "lag":
                fault["lag_us"] = choose.randrange(1, 50_000)
            if fault["effect"] == "fail":
                fault["times"] = 2
            self.ask({"verb": "fault", "fault": fault})
            time.sleep(choose.random() * 5)
            self.ask({"verb": "heal"})
            self.counts["drills"] += 1

    def figures(self):
        pid = self.server.pid
        with open(f"/proc/{pid}/status") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        memory = sum(int(lines[key].split()[0]) for key in ("RssAnon", "RssFile"))
        return memory, len(os.listdir(f"/proc/{pid}/fd")), int(lines["Threads"])


def flat(values, slack):
    third = max(1, len(values) // 3)
    first, last = statistics.median(values[:third]), statistics.median(values[-third:])
    return first, last, last <= first * 1.1 + slack


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peryton", default="target/release/peryton")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--folder", help="where the volumes are [default: a temporary folder]")
    parser.add_argument("--csv", default="soak.csv")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(dir=args.folder)
    volumes = [Volume(name, os.path.abspath(args.peryton), folder, args.minutes * 60) for name in PLACEMENTS]
    rows = {volume.name: [] for volume in volumes}
    began, failed = time.monotonic(), False
    with open(args.csv, "w") as csv:
        print("minutes,placement,memory_kib,descriptors,threads," + ",".join(volumes[0].counts), file=csv)
        while any(volume.goes_on() for volume in volumes):
            time.sleep(10)
            for volume in volumes:
                if volume.server.poll() is not None:
                    volume.wrong.append(f"the server ended with {volume.server.returncode}")
                    continue
                figures = volume.figures()
                rows[volume.name].append(figures)
                columns = [f"{(time.monotonic() - began) / 60:.2f}", volume.name, *figures, *volume.counts.values()]
                print(",".join(map(str, columns)), file=csv, flush=True)
    for volume in volumes:
        for thread in volume.threads:
            thread.join(30)
        stopped = time.monotonic()
        volume.server.send_signal(signal.SIGTERM)
        code = volume.server.wait(60)
        memory, descriptors = zip(*[row[:2] for row in rows[volume.name][min(6, len(rows[volume.name]) // 4):]])
        (m0, m1, m_flat), (d0, d1, d_flat) = flat(memory, 4096), flat(descriptors, 8)
        well = m_flat and d_flat and not volume.wrong
        failed |= not well
        counts = ", ".join(f"{count} {name}" for name, count in volume.counts.items())
        print(f"{'ok  ' if well else 'FAIL'} {volume.name}: memory {m0:.0f} then {m1:.0f} KiB, descriptors {d0:.0f} then {d1:.0f}; "
              f"{counts}; SIGTERM took {time.monotonic() - stopped:.1f} s (exit {code})")
        for wrong in volume.wrong:
            print(f"     {wrong}")
    shutil.rmtree(folder) if not failed else print(f"kept: {folder}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
