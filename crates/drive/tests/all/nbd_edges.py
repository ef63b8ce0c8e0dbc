# Run by nbdsh; `socket` and `size` come before it. What libnbd can be made to ask of a server, at the edges.
import errno
import random


def connect(**how):
    handle = nbd.NBD()
    # What the client would refuse by itself is the server's to refuse.
    handle.set_strict_mode(0)
    handle.set_export_name(how.get("name", "volume"))
    handle.set_request_structured_replies(how.get("structured", True))
    handle.set_handshake_flags(how.get("flags", nbd.HANDSHAKE_FLAG_MASK))
    if how.get("structured", True):
        handle.add_meta_context("base:allocation")
        handle.add_meta_context("x-peryton:place")
    handle.connect_unix(socket)
    return handle


def refused(what, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except nbd.Error as error:
        assert error.errnum == what, f"{call.__name__}{arguments}: {error}"
    else:
        raise AssertionError(f"{call.__name__}{arguments} was not refused")


noise = random.Random(1)
MiB = 1 << 20

# Every kind of client reads and writes; the newest ones first, down to one of ten years ago.
clients = [
    connect(),
    connect(structured=False),
    connect(name=""),
    connect(flags=nbd.HANDSHAKE_FLAG_FIXED_NEWSTYLE),
    connect(flags=0, structured=False),
    connect(flags=nbd.HANDSHAKE_FLAG_NO_ZEROES, structured=False),
]
for number, h in enumerate(clients):
    assert h.get_size() == size
    data = noise.randbytes(70_000)
    h.pwrite(data, number * 100_000 + 77)
    assert h.pread(70_000, number * 100_000 + 77) == data
    # Another connection sees what was answered, and a flush on any covers it.
    assert clients[0].pread(70_000, number * 100_000 + 77) == data
    clients[-1].flush()

for h in clients[:2]:
    # Odd places and lengths, and their neighbours left alone.
    h.pwrite(b"\x11" * 16384, 4 * MiB)
    for offset, length in [(1, 1), (511, 2), (512, 511), (4095, 4098), (100, 9000)]:
        data = noise.randbytes(length)
        before = bytearray(h.pread(16384, 4 * MiB))
        h.pwrite(data, 4 * MiB + offset, nbd.CMD_FLAG_FUA)
        before[offset : offset + length] = data
        assert h.pread(16384, 4 * MiB) == before, (offset, length)
    # The last byte, and the first that is not there.
    h.pwrite(b"z", size - 1)
    assert h.pread(1, size - 1) == b"z"
    refused(errno.EINVAL, h.pread, 1, size)
    refused(errno.EINVAL, h.pread, 2, size - 1)
    refused(errno.ENOSPC, h.pwrite, b"ab", size - 1)
    refused(errno.ENOSPC, h.zero, 2, size - 1)
    refused(errno.EINVAL, h.trim, 2, size - 1)
    refused(errno.EINVAL, h.cache, 2, size - 1)
    refused(errno.EINVAL, h.pread, 1, (1 << 63) - 1)
    # Flags that a command does not have.
    refused(errno.EINVAL, h.pwrite, b"x", 0, nbd.CMD_FLAG_DF)
    refused(errno.EINVAL, h.pread, 1, 0, nbd.CMD_FLAG_NO_HOLE)
    refused(errno.EINVAL, h.trim, 1, 0, nbd.CMD_FLAG_FAST_ZERO)
    # Nothing is no error.
    h.pwrite(b"", 0)
    h.trim(0, 0)
    assert h.pread(1, size - 1) == b"z", "still in step after all that"
    # The largest request, and one that is larger.
    largest = h.get_block_size(nbd.SIZE_MAXIMUM)
    assert largest >= MiB
    data = noise.randbytes(largest)
    h.pwrite(data, 0)
    assert h.pread(largest, 0) == data
    refused(errno.EINVAL, h.pread, largest + 1, 0)
    refused(errno.EINVAL, h.pwrite, bytes(largest + 1), 0)
    assert h.pread(4096, largest - 4096) == data[-4096:]
    # Zeros, with room and without, fast if need be.
    h.pwrite(b"\x22" * MiB, 2 * MiB)
    h.zero(100_001, 2 * MiB + 99)
    h.zero(4096, 2 * MiB + 512 * 1024, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
    expected = bytearray(b"\x22" * MiB)
    expected[99 : 99 + 100_001] = bytes(100_001)
    expected[512 * 1024 : 516 * 1024] = bytes(4096)
    assert h.pread(MiB, 2 * MiB) == expected
    try:
        h.zero(MiB, 2 * MiB, nbd.CMD_FLAG_FAST_ZERO)
        assert h.pread(MiB, 2 * MiB) == bytes(MiB)
    except nbd.Error as error:
        assert error.errnum == errno.ENOTSUP
        assert h.pread(MiB, 2 * MiB) == expected, "a refusal changes nothing"
    h.trim(MiB, 2 * MiB, nbd.CMD_FLAG_FUA)
    h.pwrite(b"\x33" * 4096, 2 * MiB)
    assert h.pread(4096, 2 * MiB) == b"\x33" * 4096
    h.cache(MiB, 0)

# Many requests at once, answered in any order.
h = clients[0]
blocks = [noise.randbytes(4096) for _ in range(256)]
place = 10 * MiB
pending = [h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b)), place + i * 4096) for i, b in enumerate(blocks)]
while pending:
    h.poll(-1)
    pending = [cookie for cookie in pending if not h.aio_command_completed(cookie)]
buffers = [nbd.Buffer(4096) for _ in blocks]
pending = [h.aio_pread(b, place + i * 4096) for i, b in enumerate(buffers)]
while pending:
    h.poll(-1)
    pending = [cookie for cookie in pending if not h.aio_command_completed(cookie)]
assert [bytes(b.to_bytearray()) for b in buffers] == blocks

# Structured reads in chunks, unfragmented, and block status.
chunks = []
data = h.pread_structured(MiB, place, lambda part, offset, status, error: chunks.append((offset, len(part))))
assert data == b"".join(blocks) and sum(length for _, length in chunks) == MiB
assert h.pread_structured(65536, place, lambda *_: 0, nbd.CMD_FLAG_DF) == data[:65536]
runs = {}
status = lambda context, offset, entries, error: runs.update({context: (offset, list(entries))})
h.block_status(8 * MiB, place, status)
assert set(runs) == {"base:allocation", "x-peryton:place"}
for offset, entries in runs.values():
    assert offset == place and sum(entries[::2]) == 8 * MiB
assert runs["base:allocation"][1][1] == 0, "what was written is allocated"
h.block_status(4096, place + 100, status, nbd.CMD_FLAG_REQ_ONE)
assert all(len(entries) == 2 and entries[0] <= 4096 for _, entries in runs.values())
refused(errno.EINVAL, h.block_status, 4096, size, status)

# Options, one by one.
h = nbd.NBD()
h.set_opt_mode(True)
h.connect_unix(socket)
names = []
h.opt_list(lambda name, description: names.append(name))
assert names == ["volume"]
h.set_export_name("other")
refused(errno.ENOENT, h.opt_info)
refused(errno.ENOENT, h.opt_go)
contexts = []
h.set_export_name("volume")
h.opt_list_meta_context(contexts.append)
assert contexts == ["base:allocation", "x-peryton:place"]
h.opt_info()
assert h.get_size() == size and h.can_multi_conn()
h.opt_abort()

for h in clients:
    h.shutdown()
print("all is well")
