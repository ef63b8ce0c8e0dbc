"""fio over NBD and over the block device (ublk) of one drive in turn, for information. It runs only if it is named."""

import block_device


def host(machine, peryton, folder, cut):
    block_device.run(machine, peryton, folder, [("speed", 1 if cut else 4)])
