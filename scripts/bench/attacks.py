#!/usr/bin/env python3
"""Measures the latencies of an honest client alone and during each of several attacks by other clients, and the time that the
server takes to end after SIGTERM while the attack goes on.

usage: scripts/bench/attacks.py [--peryton BINARY] [--requests N] [--folder FOLDER]

The honest client has one request in flight: reads and writes of 4 KiB in turn. All clients use unix sockets. Rounds with and
without the attack alternate, because other programs may use the machine; figures are medians of the rounds."""

import argparse, multiprocessing, os, random, signal, socket, statistics, struct, subprocess, tempfile, threading, time

READ, WRITE, FLUSH, ZEROES, STATUS = 0, 1, 3, 6, 7
DESIGN = """[devices.small]
profile = 'fixed'
size = '256MiB'
path = 'small.img'
[devices.large]
profile = 'fixed'
size = '8GiB'
path = 'large.img'
[placement]
mode = 'caching'
fast = 'small'
slow = 'large'
extent = '64KiB'
"""


def exactly(sock, count):
    data = bytearray()
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise ConnectionError("the server hung up")
        data += part
    return bytes(data)


def request(command, offset, length, cookie=0):
    return struct.pack(">IHHQQI", 0x25609513, 0, command, cookie, offset, length)


def connect(path, structured=False):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    exactly(sock, 18)
    option = lambda kind, data=b"": b"IHAVEOPT" + struct.pack(">II", kind, len(data)) + data
    if not structured:
        sock.sendall(struct.pack(">I", 3) + option(1))
        exactly(sock, 10)
        return sock
    context = struct.pack(">III", 0, 1, 15) + b"base:allocation"
    sock.sendall(struct.pack(">I", 3) + option(8) + option(10, context) + option(7, bytes(6)))
    exactly(sock, 20 + 39 + 20 + 32 + 20)
    return sock


def honest(path, requests):
    sock, times, data = connect(path), [], os.urandom(4096)
    choose = random.Random(7)
    for number in range(requests):
        offset = choose.randrange(4096) * 4096
        began = time.perf_counter()
        if number % 2:
            sock.sendall(request(READ, offset, 4096))
            exactly(sock, 16 + 4096)
        else:
            sock.sendall(request(WRITE, offset, 4096) + data)
            exactly(sock, 16)
        times.append((time.perf_counter() - began) * 1e6)
    sock.close()
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100]


def drain(sock):
    try:
        while sock.recv(1 << 16):
            pass
    except OSError:
        pass


def again_and_again(sock, bytes_, stop):
    threading.Thread(target=drain, args=(sock,), daemon=True).start()
    try:
        while not stop.is_set():
            sock.sendall(bytes_)
    except OSError:
        pass


def trickle(path, stop):
    socks = [connect(path) for _ in range(8)]
    for sock in socks:
        sock.sendall(request(WRITE, (1 << 30) + 1, 32 << 20) + bytes(1000))
    while not stop.wait(0.1):
        for sock in socks:
            try:
                sock.sendall(bytes(10))
            except OSError:
                pass


def block_status(path, stop):
    again_and_again(connect(path, True), request(STATUS, 0, 0xffff_f000) * 2304, stop)


def one_byte_writes(path, stop):
    choose = random.Random(3)
    writes = b"".join(request(WRITE, (1 << 30) + choose.randrange(1 << 20), 1) + b"x" for _ in range(16384))
    again_and_again(connect(path), writes, stop)


def zeroes(path, stop):
    again_and_again(connect(path), request(ZEROES, 1 << 30, 0xffff_f000) * 200, stop)


def flushes(path, stop):
    again_and_again(connect(path), request(FLUSH, 0, 0) * 4096, stop)


def unread(path, stop):
    socks = [connect(path) for _ in range(20)]
    for sock in socks:
        sock.sendall(b"".join(request(READ, n << 20, 1 << 20) for n in range(100)))
    stop.wait()


def empty_connections(path, stop):
    while not stop.is_set():
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(path)
        except OSError:
            pass
        sock.close()


ATTACKS = [trickle, block_status, one_byte_writes, zeroes, flushes, unread, empty_connections]


def serve(peryton, folder):
    log = open(os.path.join(folder, "log"), "ab")
    server = subprocess.Popen([peryton, "serve", "v.toml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=log)
    path = os.path.join(folder, "v.nbd")
    for _ in range(1000):
        try:
            connect(path).close()
            return server, path
        except OSError:
            time.sleep(0.02)
    raise SystemExit("the server does not listen")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peryton", default="target/release/peryton")
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--attacks", default=",".join(attack.__name__ for attack in ATTACKS))
    parser.add_argument("--folder")
    args = parser.parse_args()
    peryton = os.path.abspath(args.peryton)
    print("| attack | alone p50 us | p99 us | attacked p50 us | p99 us | p99 ratio | SIGTERM s |\n|---|---|---|---|---|---|---|")
    for attack in [attack for attack in ATTACKS if attack.__name__ in args.attacks.split(",")]:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            with open(os.path.join(folder, "v.toml"), "w") as design:
                design.write(DESIGN)
            subprocess.run([peryton, "create", "v.toml"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            server, path = serve(peryton, folder)
            honest(path, args.requests)
            rounds = []
            for number in range(args.rounds):
                alone = honest(path, args.requests)
                stop = multiprocessing.Event()
                attacker = multiprocessing.Process(target=attack, args=(path, stop), daemon=True)
                attacker.start()
                time.sleep(0.5)
                rounds.append([*alone, *honest(path, args.requests)])
                if number + 1 < args.rounds:
                    attacker.kill()
                    attacker.join()
                    time.sleep(0.5)
            began = time.perf_counter()
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=120)
            ended = time.perf_counter() - began
            attacker.kill()
            figures = [statistics.median(column) for column in zip(*rounds)]
            print(f"| {attack.__name__} | " + " | ".join(f"{figure:.0f}" for figure in figures)
                  + f" | {figures[3] / figures[1]:.1f} | {ended:.1f} |", flush=True)


if __name__ == "__main__":
    main()
