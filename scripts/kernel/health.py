#!/usr/bin/env python3
"""Health and standby of QEMU's NVMe, ATA and SCSI drives, under a real kernel.

`peryton health` reads each of them, and through the device mapper; a served volume puts its slow device into standby and wakes it;
a warning that the NVMe drive gives becomes an event. QEMU counts what is read and written, and takes commands for standby, but has no
motor: its ATA drive goes on saying that it is active. The script in the machine asks for a warning by a line `warn N`, and the one
outside makes it through QEMU's monitor.
"""

import json
import re
import socket
import subprocess
import sys

from drive import MIB, PATIENCE, Drive, Failed, Nbd, design
from machine import Monitor, end

FAST, SLOW = 64, 160  # MiB
TEMPERATURE = 2  # The bit of the critical warning.


def ask(peryton, *paths, code):
    """What `peryton health --json` says of these paths."""
    done = subprocess.run([peryton, "health", *paths, "--json"], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != code:
        raise Failed(f"peryton health {paths} ended with {done.returncode}: {done.stderr.strip()} {done.stdout.strip()}")
    return json.loads(done.stdout)


def expect(what, is_so):
    if not is_so:
        raise Failed(what)


def one(path):
    """The only drive beneath a path."""
    expect(f"one drive, not {path}", len(path["drives"]) == 1)
    return path["drives"][0]


def disks_by_kind():
    """The paths of the ATA and of the SCSI disk: which of them Linux finds first, and calls sda, varies."""
    found = {}
    for name in ("sda", "sdb"):
        with open(f"/sys/block/{name}/device/vendor") as file:
            found["ATA" if file.read().strip() == "ATA" else "SCSI"] = f"/dev/{name}"
    expect(f"an ATA and a SCSI disk, not {found}", len(found) == 2)
    return found["ATA"], found["SCSI"]


def read_once(vm, peryton, *disks):
    nvme, ata, scsi = (one(path) for path in ask(peryton, "/dev/nvme0n1", *disks, code=0))
    expect(f"QEMU's NVMe drive, not {nvme}", (nvme["protocol"], nvme["serial"]) == ("nvme", "disk0"))
    expect(f"50 °C, not {nvme}", (nvme["temperature_c"], nvme["percentage_used"], nvme["passed"]) == (50, 0, True))
    expect(f"no log of OCP, not {nvme}", "nand_bytes_written" not in nvme and any("OCP" in line for line in nvme["not_read"]))
    expect(f"QEMU's ATA drive, not {ata}", (ata["protocol"], ata["serial"], ata["passed"], ata["power"]) == ("ata", "disk1", True, "active"))
    expect(f"attributes of SMART, not {ata}", "power_on_hours" in ata and "reallocated_sectors" in ata)
    expect(f"QEMU's SCSI drive, not {scsi}", (scsi["protocol"], scsi["model"]) == ("scsi", "QEMU QEMU HARDDISK"))
    vm.sh("dd", "if=/dev/urandom", "of=/dev/nvme0n1", "bs=1M", "count=32", "oflag=direct")
    mapped = one(ask(peryton, vm.dm("above", vm.linear(8, "/dev/nvme0n1", 0)), code=0)[0])
    vm.dm_remove("above")
    written = mapped["bytes_written"] - nvme["bytes_written"]
    expect(f"{written} bytes written, not 32 MiB", 30 * MIB < written < 40 * MIB)
    nothing = ask(peryton, "/dev/null", code=1)[0]
    expect(f"no drive, not {nothing}", not nothing["drives"] and nothing["not_read"])
    vm.say(f"read once: {nvme['model']} at {nvme['temperature_c']} °C, {ata['model']} ({ata['power_on_hours']} h), {scsi['model']}; "
           f"{written >> 20} MiB of 32 written are seen through the device mapper")


def standby(vm, peryton, slow, kind):
    """The slow device rests when nothing is asked of it, and wakes when something is."""
    text = design("caching-through", FAST, SLOW) + '[power.slow]\nspin_down_after = "3s"\n[power.fast]\nspin_down_after = "3s"\n'
    drive = Drive(peryton, f"/run/{kind}", text, "/dev/nvme0n1", slow)
    drive.run("create", "--force")
    drive.start("--health", "10s", "--metrics", f"unix:{drive.folder}/metrics")
    device = lambda name: json.loads(drive.status())["devices"][name]
    nbd = Nbd(drive.nbd)
    for cycle in (1, 2):
        expect(f"{kind}: zeros", nbd.read(cycle * 40 * MIB, 4096) == bytes(4096))
        vm.wait(lambda: device("slow")["rest"]["resting"], f"{kind}: {device('slow')['rest']} although nothing is asked of it")
        cycles = device("slow")["rest"]["cycles"]
        expect(f"{kind}: put into standby {cycles} times, not {cycle}", cycles >= cycle)
    expect(f"{kind}: zeros", nbd.read(100 * MIB, 4096) == bytes(4096))
    rest, fast = device("slow")["rest"], device("fast")["rest"]
    expect(f"{kind}: awake, not {rest}", not rest["resting"] and rest["total_s"] > 0)
    expect(f"{kind}: an NVMe drive is served without, not {fast}", "NVMe" in fast["cannot"] and fast["cycles"] == 0)
    expect("one line about it", "fast is served without standby" in open(drive.log).read())
    vm.wait(lambda: "temperature_c" in (device("fast")["health"]["drives"][0]["health"] or {}), "the health is not read")
    scraped(drive, slow.split("/")[-1], kind, rest)
    vm.say(f"{kind}: put into standby {rest['cycles']} times, for {rest['total_s']:.1f} s, and awake again")
    nbd.close()
    return drive


def scraped(drive, slow, kind, rest):
    """The metrics of both drives, each family once."""
    with socket.socket(socket.AF_UNIX) as scraper:
        scraper.settimeout(PATIENCE)
        scraper.connect(f"{drive.folder}/metrics")
        scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\nConnection: close\r\n\r\n")
        page = b"".join(iter(lambda: scraper.recv(65536), b"")).decode()
    lines = page.splitlines()
    kinds = [line for line in lines if line.startswith("# TYPE")]
    expect(f"{kind}: each family once, not {kinds}", len(kinds) == len(set(kinds)) and lines[-1] == "# EOF")
    volume = re.search(r'volume="([^"]*)"', page)[1]
    fast = f'{{volume="{volume}",device="fast",drive="nvme0n1"'
    for sample in (f'peryton_drive_info{fast},model="QEMU NVMe Ctrl",serial="disk0"}} 1', f"peryton_drive_temperature_celsius{fast}}} 50.0",
                   f"peryton_drive_life_used_ratio{fast}}} 0.0", f'peryton_drive_warning{fast},warning="temperature"}} 0.0'):
        expect(f"{kind}: {sample} among {[line for line in lines if line.startswith(sample.split('{')[0])]}", sample in lines)
    # It may have been put into standby once more meanwhile.
    cycles = int(re.search(r'^peryton_device_standbys_total\{[^}]*device="slow"\} (\d+)$', page, re.MULTILINE)[1])
    expect(f"{kind}: put into standby {rest['cycles']} times, not {cycles}", cycles >= rest["cycles"] > 0)
    expect(f"{kind}: the power state of {slow}", f'peryton_drive_power_state{{volume="{volume}",device="slow",drive="{slow}"' in page)


def warned(vm, peryton, drive):
    """A warning of a drive is an event, and in the status."""
    vm.say("warn 0")
    events = lambda: subprocess.run([peryton, "events", drive.file, "--control", drive.control, "--json"], capture_output=True, text=True, check=True).stdout
    about = lambda: [event for event in map(json.loads, events().splitlines()) if event["event"] == "drive_health"]
    vm.wait(about, "the warning is no event")
    event = about()[0]
    expect(f"the warning of nvme0n1, not {event}", (event["drive"], event["devices"], event["about"]) == ("nvme0n1", ["fast"], "temperature"))
    hot = one(ask(peryton, "/dev/nvme0n1", code=1)[0])
    expect(f"the warning, not {hot}", hot["warnings"] == ["temperature"])
    shown = subprocess.run([peryton, "status", drive.file, "--control", drive.control], capture_output=True, text=True, check=True).stdout
    expect(f"WARNS, not {shown}", "WARNS of temperature" in shown)
    vm.say("a warning of the drive became an event")


def guest(peryton):
    import guest as vm
    vm.modules("nvme", "ahci", "virtio_scsi", "sd_mod", "dm-mod")
    import os
    vm.wait(lambda: all(os.path.exists(path) for path in ("/dev/nvme0n1", "/dev/sda", "/dev/sdb")), "a drive is not there", 60)
    ata, scsi = disks_by_kind()
    read_once(vm, peryton, ata, scsi)
    for slow, kind in ((scsi, "SCSI"), (ata, "ATA")):
        drive = standby(vm, peryton, slow, kind)
        if kind == "ATA":
            warned(vm, peryton, drive)
        if drive.stop() != 0:
            raise Failed(f"the drive did not close in good order: {drive.last_words()}")


# Outside.

def host(machine, peryton, folder, cut):
    disks = []
    for number, (mib, bus) in enumerate(((FAST, "nvme"), (SLOW, "ata"), (SLOW, "scsi"))):
        path = f"{folder}/{number}.img"
        with open(path, "wb") as file:
            file.truncate(mib * MIB)
        disks.append(f"{path},bus={bus}")
    process = machine.start(disks, __file__, peryton, monitor=True)
    lines = []
    try:
        for line in process.stdout:
            if line.split()[:1] == ["warn"]:
                monitor = Monitor(f"{folder}/monitor")
                monitor.ask("qom-set", path=f"/machine/peripheral/disk{line.split()[1]}", property="smart_critical_warning", value=TEMPERATURE)
            else:
                lines.append(line.rstrip())
                print(f"  {line.rstrip()}", flush=True)
        if process.wait() != 0:
            raise Failed(f"in the machine: {' / '.join(lines[-8:])}")
    finally:
        end(process)


if __name__ == "__main__":
    import guest as vm
    vm.main(guest, sys.argv[1])
