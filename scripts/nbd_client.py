"""A client of NBD for scripts: libnbd, with the exports' sizes and errors in the form that they need."""

import sys

try:
    import nbd
except ImportError:
    # Debian's package (python3-libnbd) is for Debian's Python, which may not be the first one in the search path.
    sys.path.append("/usr/lib/python3/dist-packages")
    try:
        import nbd
    except ImportError:
        sys.exit("libnbd for Python is missing (Debian: python3-libnbd; scripts/setup.sh test installs it)")

# The longest request that libnbd sends.
LONGEST = 32 << 20


class Nbd:
    """A connection to an export at a unix socket, with one request at a time."""

    def __init__(self, path, export=""):
        self.handle = nbd.NBD()
        self.handle.set_export_name(export)
        self.handle.connect_unix(path)
        self.size = self.handle.get_size()

    def read(self, offset, length):
        """The data, or None if the drive answers with an error."""
        assert length <= LONGEST
        try:
            return self.handle.pread(length, offset)
        except nbd.Error:
            if self.handle.aio_is_dead():
                raise
            return None

    def write(self, offset, data):
        self.handle.pwrite(data, offset)

    def flush(self):
        self.handle.flush()

    def close(self):
        self.handle.shutdown()
