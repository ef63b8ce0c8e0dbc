#!/usr/bin/env python3
"""A Debian with systemd boots in a virtual machine and gets Peryton's package. Two volumes are formatted; one has an ext4 that
/etc/fstab mounts at boot. A program writes files with known contents to it and reports each that it has fsynced; it must go on, and
nothing may be lost, while

* the servers and their supervisors are killed, and stopped with SIGSTOP,
* the package is upgraded,
* the machine is started again, in good order and by a power reset.

The package refuses to be removed as long as volumes are served, and leaves designs and data alone. Every shutdown has a bound.

The Debian is made by mmdebstrap, once, in target/boot-1. Without a /dev/kvm that works the processor is emulated.
"""

import glob
import json
import os
import shutil
import socket
import subprocess
import sys
import time

import files
from drive import MIB, PATIENCE, Failed
from machine import VM, Monitor

ROOT = os.path.dirname(os.path.dirname(VM))
PACKAGES = "systemd,systemd-sysv,udev,kmod,e2fsprogs,python3"
MADE = "boot-1"  # The number changes when what is made changes.
OLD, NEW = "0.1.0-1", "0.1.1-1"
FAST, SLOW = 64, 256  # MiB
# Seconds from the command to the end of the machine: 90 for the unit's own bound, and what Debian needs.
SHUTDOWN = 120
# A supervisor that hangs is noticed after 60 s and killed 10 s later; a server after 30 s.
HANGS = 240
FSTAB = "/dev/peryton/data /data ext4 x-systemd.after=peryton@data.service 0 2"

AGENT = '''
import json, os, subprocess
os.makedirs("/run/agent", exist_ok=True)
port = open("/dev/virtio-ports/agent", "r+b", buffering=0)
port.write(b'{"booted": true}\\n')
waiting = b""
while True:
    part = os.read(port.fileno(), 65536)
    waiting += part
    while b"\\n" in waiting:
        line, waiting = waiting.split(b"\\n", 1)
        request = json.loads(line)
        with open("/run/agent/out", "wb") as out:
            process = subprocess.Popen(["sh", "-c", request["run"]], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        try:
            code = process.wait(request["within"])
        except subprocess.TimeoutExpired:
            code = None
        text = open("/run/agent/out", errors="replace").read()[-20000:]
        answer = json.dumps({"number": request["number"], "code": code, "out": text}).encode() + b"\\n"
        while answer:
            answer = answer[port.write(answer):]
    if not part:
        import time
        time.sleep(0.1)
'''

WRITER = '''
import os, sys
sys.path.insert(0, "/usr/local/lib/test")
import files
number = int(sys.argv[1])
port = os.open("/dev/virtio-ports/journal", os.O_WRONLY)
while True:
    number += 1
    files.write("/data", number)
    os.write(port, b"s %d\\n" % number)
'''

CHECK = '''
import sys
sys.path.insert(0, "/usr/local/lib/test")
import files
wrong = files.wrong("/data", int(sys.argv[1]))
print(wrong or "nothing is lost")
sys.exit(bool(wrong))
'''

AGENT_UNIT = '''
[Unit]
Description=Runs what the test asks for
[Service]
ExecStart=/usr/bin/python3 /usr/local/lib/test/agent.py
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
'''

INIT = '''#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
for m in $(cat /modules/order); do insmod /modules/$m; done 2>/dev/null
waited=0
while [ ! -b /dev/vda ] && [ $waited -lt 100 ]; do sleep 0.1; waited=$((waited + 1)); done
mount -t ext4 /dev/vda /root || poweroff -f
umount /proc /sys
mount --move /dev /root/dev
exec switch_root /root /sbin/init
'''


def sh(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command[:3])} ended with {done.returncode}: {' / '.join(done.stdout.strip().splitlines()[-5:])}")
    return done.stdout


def put(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text.lstrip("\n"))
    os.chmod(path, mode)


def make(home):
    """Makes the disk with Debian and the initial file system, unless they are there; returns their paths."""
    made = f"{os.environ.get('CARGO_TARGET_DIR', f'{ROOT}/target')}/{MADE}"
    disk, initrd = f"{made}/debian.img", f"{made}/initrd.gz"
    if os.path.exists(disk) and os.path.exists(initrd):
        return disk, initrd
    print("  a Debian is made; this is done once", flush=True)
    if not shutil.which("mmdebstrap"):
        sh("apt-get", "install", "-y", "-qq", "--no-install-recommends", "mmdebstrap", env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    shutil.rmtree(made, ignore_errors=True)
    os.makedirs(made)
    version = os.listdir(f"{home}/kernel/lib/modules")[0]
    modules = f"{home}/kernel/lib/modules/{version}"
    codename = next(line.split("=")[1] for line in open("/etc/os-release").read().splitlines() if line.startswith("VERSION_CODENAME="))
    root = f"{made}/root"
    sh("mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", "--aptopt=Acquire::Languages \"none\"", "--dpkgopt=path-exclude=/usr/share/doc/*",
       "--dpkgopt=path-exclude=/usr/share/locale/*", codename, root, "/etc/apt/sources.list.d/debian.sources")
    # Only the modules that are needed, with those that they need.
    for module in ["virtio_blk", "virtio_pci", "virtio_console", "ext4", "ublk_drv", "autofs4"]:
        shown = subprocess.run(["modprobe", "-d", f"{home}/kernel", "-S", version, "--show-depends", module], capture_output=True, text=True)
        for path in [line.split()[1] for line in shown.stdout.splitlines() if line.startswith("insmod")]:
            to = f"{root}/lib/modules/{version}/{os.path.relpath(path, modules)}"
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(path, to)
    for path in glob.glob(f"{modules}/modules.builtin*") + glob.glob(f"{modules}/modules.order"):
        shutil.copy(path, f"{root}/lib/modules/{version}/")
    sh("depmod", "-b", root, version)
    for name, text in (("agent", AGENT), ("writer", WRITER), ("check", CHECK)):
        put(f"{root}/usr/local/lib/test/{name}.py", text)
    shutil.copy(files.__file__, f"{root}/usr/local/lib/test/files.py")
    put(f"{root}/etc/systemd/system/agent.service", AGENT_UNIT)
    put(f"{root}/etc/fstab", "/dev/vda / ext4 errors=remount-ro 0 1\n")
    put(f"{root}/etc/hostname", "boot\n")
    os.makedirs(f"{root}/var/log/journal", exist_ok=True)
    os.makedirs(f"{root}/data", exist_ok=True)
    sh("chroot", root, "systemctl", "enable", "agent.service")
    # What a machine without a network and a person need not wait for.
    for unit in ("systemd-networkd-wait-online.service", "apt-daily.timer", "apt-daily-upgrade.timer", "getty@.service", "serial-getty@.service",
                 "systemd-binfmt.service", "proc-sys-fs-binfmt_misc.automount", "proc-sys-fs-binfmt_misc.mount", "getty-static.service", "getty.target", "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service", "fstrim.timer", "e2scrub_all.timer", "e2scrub_reap.service", "systemd-timesyncd.service"):
        sh("chroot", root, "systemctl", "mask", unit)
    with open(f"{disk}.new", "wb") as file:
        file.truncate(1200 * MIB)
    sh("mkfs.ext4", "-q", "-F", "-d", root, f"{disk}.new")
    first = f"{made}/first"
    for folder in ("bin", "proc", "sys", "dev", "root", "modules"):
        os.makedirs(f"{first}/{folder}")
    shutil.copy(shutil.which("busybox"), f"{first}/bin/busybox")
    order = []
    for module in ("virtio_pci", "virtio_blk", "ext4"):
        shown = subprocess.run(["modprobe", "-d", f"{home}/kernel", "-S", version, "--show-depends", module], capture_output=True, text=True)
        order += [line.split()[1] for line in shown.stdout.splitlines() if line.startswith("insmod") and line.split()[1] not in order]
    for path in order:
        shutil.copy(path, f"{first}/modules/")
    put(f"{first}/modules/order", "\n".join(map(os.path.basename, order)) + "\n")
    put(f"{first}/init", INIT, 0o755)
    sh("sh", "-c", f"cd {first} && find . | cpio -o -H newc --quiet | gzip -1 > {initrd}")
    shutil.rmtree(root)
    shutil.rmtree(first)
    os.rename(f"{disk}.new", disk)
    return disk, initrd


def has_kvm():
    """Whether QEMU can use this machine's processor: the device may be there, and not work."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    tried = subprocess.run(["qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-nodefaults", "-display", "none", "-monitor", "stdio"],
                           input="quit\n", capture_output=True, text=True, timeout=60)
    return tried.returncode == 0


class Debian:
    """The machine."""

    def __init__(self, folder, kernel, initrd, disks):
        self.folder, self.kernel, self.initrd, self.disks = folder, kernel, initrd, disks
        self.kvm = has_kvm()
        self.process, self.agent, self.number = None, None, 0
        self.journal = f"{folder}/journal"
        open(self.journal, "w").close()

    def start(self):
        for name in ("monitor", "agent"):
            if os.path.exists(f"{self.folder}/{name}"):
                os.remove(f"{self.folder}/{name}")
        accelerator = ["-accel", "kvm", "-cpu", "host"] if self.kvm else ["-accel", "tcg,thread=multi", "-cpu", "max"]
        command = ["qemu-system-x86_64", *accelerator, "-smp", "2", "-m", "1024", "-display", "none", "-nodefaults",
                   "-kernel", self.kernel, "-initrd", self.initrd, "-append",
                   "console=ttyS0 quiet loglevel=4 panic=-1 no_timer_check mitigations=off tsc=reliable net.ifnames=0 systemd.show_status=yes",
                   "-chardev", f"file,id=console,path={self.folder}/console,append=on", "-serial", "chardev:console",
                   "-qmp", f"unix:{self.folder}/monitor,server=on,wait=off", "-device", "virtio-serial-pci",
                   "-chardev", f"socket,id=agent,path={self.folder}/agent,server=on,wait=off", "-device", "virtserialport,chardev=agent,name=agent",
                   "-chardev", f"file,id=journal,path={self.journal},append=on", "-device", "virtserialport,chardev=journal,name=journal"]
        for number, path in enumerate(self.disks):
            command += ["-blockdev", f"driver=file,node-name=node{number},cache.no-flush=on,filename={path},discard=unmap",
                        "-device", f"virtio-blk-pci,drive=node{number},serial=disk{number}"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=open(f"{self.folder}/qemu", "a"))
        self.monitor = Monitor(f"{self.folder}/monitor")
        self.agent = socket.socket(socket.AF_UNIX)
        self.agent.connect(f"{self.folder}/agent")
        self.agent.settimeout(PATIENCE)
        self.lines = self.agent.makefile("r")
        self.booted()

    def answer(self, wanted):
        """The next line from the agent that has this key."""
        while True:
            try:
                line = self.lines.readline()
            except TimeoutError:
                raise Failed(f"the machine does not answer; its console: {self.last_words()}") from None
            if not line:
                raise Failed(f"the machine ended; its console: {self.last_words()}")
            answer = json.loads(line)
            if wanted(answer):
                return answer

    def booted(self):
        self.answer(lambda answer: "booted" in answer)
        # Everything that boot starts has been started, or has failed.
        state = "starting"
        while state in ("initializing", "starting"):
            time.sleep(0.5)
            state = self.run("systemctl is-system-running", check=False)[1].strip()
        if state != "running":
            failed = self.run("systemctl list-units --failed --no-legend --plain; journalctl -b -p warning --no-pager | tail -20", check=False)[1]
            raise Failed(f"the system is {state}: {failed}")

    def last_words(self):
        with open(f"{self.folder}/console", errors="replace") as console:
            return " / ".join(console.read().strip().splitlines()[-15:])

    def run(self, command, check=True, within=300):
        self.number += 1
        request = {"number": self.number, "run": command, "within": within}
        self.agent.sendall(json.dumps(request).encode() + b"\n")
        answer = self.answer(lambda answer: answer.get("number") == self.number)
        if answer["code"] is None:
            raise Failed(f"'{command}' does not end within {within} s: {answer['out'][-500:]}")
        if check and answer["code"] != 0:
            raise Failed(f"'{command}' ended with {answer['code']}: {' / '.join(answer['out'].strip().splitlines()[-12:])}")
        return answer["code"], answer["out"]

    def says(self, command):
        return self.run(command)[1].strip()

    def until(self, condition, otherwise, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Failed(f"{otherwise}: {self.says('systemctl status --no-pager -n 15 peryton@data || true')}")
            time.sleep(0.3)

    def shut_down(self, reboot):
        """Ends the machine in good order; returns how many seconds that took."""
        # Events that came before the answer are those of earlier ends.
        self.monitor.ask("query-status")
        self.monitor.events.clear()
        began = time.monotonic()
        self.run(f"systemd-run --quiet --on-active=0.1 --timer-property=AccuracySec=1ms systemctl {'reboot' if reboot else 'poweroff'}")
        self.monitor.socket.settimeout(SHUTDOWN + 60)
        try:
            self.monitor.wait_for("RESET" if reboot else "SHUTDOWN")
        except TimeoutError:
            raise Failed(f"it does not shut down; its console: {self.last_words()}") from None
        finally:
            self.monitor.socket.settimeout(PATIENCE)
        took = time.monotonic() - began
        if took > SHUTDOWN:
            raise Failed(f"it took {took:.0f} s to shut down, the bound is {SHUTDOWN}")
        if not reboot:
            self.process.wait(60)
        return took

    def cut_power(self):
        self.monitor.quit()
        self.process.wait(60)

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    # What there is of Peryton.

    def devices(self):
        return {one["name"]: one for one in json.loads(self.says("peryton list --json"))}

    def server(self, name="data"):
        """The process that serves, or None."""
        device = self.devices().get(name)
        return device["pid"] if device and device["state"] == "served" else None

    def supervisor(self, name="data"):
        return int(self.says(f"systemctl show --property=MainPID --value peryton@{name}"))

    def status(self, name="data"):
        return self.says(f"systemctl show --property=StatusText --value peryton@{name}")

    def keeps_memory(self, name="data"):
        """systemd has the memory for the next server, should the supervisor be killed with its server."""
        kept = self.says(f"systemctl show --property=NFileDescriptorStore --value peryton@{name}")
        if kept != "1":
            raise Failed(f"systemd keeps {kept} descriptors of {name}, and not the memory for the next server")

    def mount(self):
        """What the kernel calls the mount of /data; another one has another number."""
        lines = [line.split() for line in self.says("cat /proc/self/mountinfo").splitlines()]
        found = [line[0] for line in lines if line[4] == "/data"]
        return found[0] if found else None

    # The writer.

    def written(self):
        with open(self.journal) as journal:
            lines = [line for line in journal.read().split("\n")[:-1] if line.startswith("s ")]
        return int(lines[-1].split()[1]) if lines else 0

    def write(self):
        self.run(f"systemctl reset-failed writer 2>/dev/null; systemd-run --quiet --unit=writer python3 /usr/local/lib/test/writer.py {self.written()}")

    def goes_on(self, what, seconds=PATIENCE):
        """Waits until three more files are fsynced; returns after how many seconds."""
        before, began = self.written(), time.monotonic()

        def more():
            if self.run("systemctl is-active --quiet writer", check=False)[0] != 0:
                raise Failed(f"{what}: the writer ended: {self.says('journalctl -u writer -n 5 --no-pager')}")
            return self.written() >= before + 3
        self.until(more, f"{what}: nothing is written any more", seconds)
        return time.monotonic() - began

    def nothing_is_lost(self, when):
        """Reads every file from the device."""
        self.run("sync; echo 3 > /proc/sys/vm/drop_caches")
        code, output = self.run(f"python3 /usr/local/lib/test/check.py {self.written()}", check=False)
        if code != 0:
            raise Failed(f"{when}: {output.strip()}")


def say(text):
    print(f"  {text}", flush=True)


def install(vm):
    vm.run("mkdir -p /packages && mount -o ro /dev/vdf /packages")
    vm.run(f"dpkg -i /packages/peryton_{OLD}.deb")
    vm.run("test -x /usr/bin/peryton -a -e /usr/share/man/man1/peryton-supervise.1.gz -a -e /usr/share/bash-completion/completions/peryton -a -d /etc/peryton")
    for name, fast, slow, mode in (("data", "vdb", "vdc", "caching"), ("second", "vdd", "vde", "tiering")):
        vm.run(f"peryton create /etc/peryton/{name}.toml --fast /dev/{fast} --slow /dev/{slow} --mode {mode}")
    vm.run("modprobe ublk_drv; systemctl enable --now peryton@data peryton@second")
    for name in ("data", "second"):
        if vm.server(name) is None or "is served by process" not in vm.status(name):
            raise Failed(f"systemd believes that {name} is served, but: {vm.devices()} {vm.status(name)}")
        vm.keeps_memory(name)
    if set(vm.says("udevadm settle; cat /sys/block/ublkb*/queue/io_timeout").split()) != {"1000"}:
        raise Failed("a server that is killed amid requests is noticed only after half a minute: queue/io_timeout")
        vm.run(f"udevadm settle; test -b /dev/peryton/{name}")
    vm.run("mkfs.ext4 -q /dev/peryton/data")
    vm.run(f"echo '{FSTAB}' >> /etc/fstab; systemctl daemon-reload")
    # A design that names a device that is not there fails with a clear line, within the unit's bound.
    vm.run("sed s,/dev/disk/by-id/[^\\\"]*,/dev/nowhere, /etc/peryton/second.toml > /etc/peryton/broken.toml; "
           "mkdir -p /run/systemd/system/peryton@broken.service.d; "
           "printf '[Service]\\nExecStart=\\nExecStart=/usr/bin/peryton supervise /etc/peryton/broken.toml --wait-for-devices 2s\\n' "
           "> /run/systemd/system/peryton@broken.service.d/a.conf; systemctl daemon-reload")
    code, _ = vm.run("systemctl start peryton@broken", check=False)
    log = vm.says("journalctl -u peryton@broken --no-pager -o cat; rm /etc/peryton/broken.toml; systemctl reset-failed peryton@broken")
    if code == 0 or "/dev/nowhere is not there after 2s" not in log:
        raise Failed(f"a volume without its devices: {code} {log}")
    say(f"installed {OLD}, two volumes served")


def boots(vm, why):
    """The file system is mounted before local-fs.target, and after its volume was served."""
    times = [int(vm.says(f"systemctl show --property=ActiveEnterTimestampMonotonic --value {unit}")) for unit in
             ("peryton@data.service", "data.mount", "local-fs.target")]
    if times != sorted(times) or 0 in times or vm.mount() is None:
        raise Failed(f"{why}: volume, mount and local-fs.target at {times}")
    if vm.server("second") is None or vm.run("test -b /dev/peryton/second", check=False)[0] != 0:
        raise Failed(f"{why}: the second volume is not served")


def kills(vm, count):
    device, mount, waits = vm.devices()["data"]["path"], vm.mount(), []
    for _ in range(count):
        supervisor, server = vm.supervisor(), vm.server()
        vm.run(f"kill -9 {server}")
        waits.append(vm.goes_on("after the server was killed"))
        if vm.supervisor() != supervisor or vm.server() == server:
            raise Failed("the supervisor has not started the server again")
    say(f"{count} servers killed, three files were written {max(waits):.1f} s later at most")
    supervisor = vm.supervisor()
    vm.run(f"kill -9 {supervisor}")
    wait = vm.goes_on("after the supervisor was killed")
    vm.until(lambda: vm.run("systemctl is-active --quiet peryton@data", check=False)[0] == 0, "it is not active again", 60)
    if vm.supervisor() == supervisor or vm.says("systemctl show --property=NRestarts --value peryton@data") != "1":
        raise Failed("systemd has not started the supervisor again")
    if (vm.devices()["data"]["path"], vm.mount()) != (device, mount):
        raise Failed("the file system was mounted again, or is on another device")
    log = vm.says("journalctl -b -u peryton@data --no-pager -o cat")
    if log.count("its acknowledged writes are kept") != count + 1:
        raise Failed(f"a server has not taken over what the one before had answered: {log}")
    vm.keeps_memory()
    say(f"supervisor killed, three files were written {wait:.1f} s later; still the same mount")


def stops(vm):
    """A volume is stopped whose server was just killed, or hangs: another server closes it with what had been answered."""
    vm.run("head -c 4M /dev/urandom > /root/pattern")
    for how in ("KILL", "STOP"):
        # Nothing of this is flushed.
        vm.run("dd if=/root/pattern of=/dev/peryton/second bs=16k oflag=direct conv=notrunc status=none")
        server = vm.server("second")
        vm.run(f"kill -{how} {server}; systemctl stop peryton@second")
        if vm.run(f"test -e /proc/{server} -o -e /dev/peryton/second", check=False)[0] == 0:
            raise Failed(f"after kill -{how} and a stop there is still a server or a device")
        vm.run("systemctl start peryton@second; udevadm settle; echo 3 > /proc/sys/vm/drop_caches")
        log = vm.says("journalctl -u peryton@second --no-pager -o cat | tail -30")
        if vm.run("cmp -n 4194304 /root/pattern /dev/peryton/second", check=False)[0] != 0:
            raise Failed(f"kill -{how}, stop and start: what had been answered is lost: {log}")
        vm.run("head -c 4M /dev/urandom > /root/pattern")
    say("stopped after a kill and amid a hang: the volume was closed, with what had been answered")


def hangs(vm, whom):
    mount, process = vm.mount(), vm.server() if whom == "server" else vm.supervisor()
    began = time.monotonic()
    vm.run(f"kill -STOP {process}")
    vm.until(lambda: vm.run(f"test -e /proc/{process}", check=False)[0] != 0, f"the {whom} that hangs is left alone", HANGS)
    took = time.monotonic() - began
    vm.goes_on(f"after the {whom} hung")
    vm.until(lambda: "is served by process" in vm.status(), "it is not served again", 60)
    if vm.mount() != mount:
        raise Failed("the file system was mounted again")
    say(f"{whom} stopped: killed and replaced after {took:.0f} s")


def upgrade(vm):
    supervisors = {name: vm.supervisor(name) for name in ("data", "second")}
    servers, mount = {name: vm.server(name) for name in supervisors}, vm.mount()
    # A program that has the other volume open, which is not mounted, notices nothing either.
    vm.run("systemd-run --quiet --unit=reader sh -c 'while :; do dd if=/dev/peryton/second of=/dev/null bs=64k count=16 iflag=direct 2>/dev/null || exit 1; sleep 0.1; done'")
    output = vm.says(f"dpkg -i /packages/peryton_{NEW}.deb")
    wait = vm.goes_on("after the upgrade")
    for name in supervisors:
        programs = [vm.says(f"readlink /proc/{pid}/exe") for pid in (vm.supervisor(name), vm.server(name))]
        if programs != ["/usr/bin/peryton"] * 2:
            raise Failed(f"{name} runs {programs} after the upgrade: {output}")
        if vm.supervisor(name) != supervisors[name] or vm.server(name) == servers[name]:
            raise Failed(f"{name}: the server was not replaced beneath the same unit: {output}")
    if vm.mount() != mount or vm.run("systemctl is-active --quiet reader", check=False)[0] != 0:
        raise Failed(f"the upgrade was noticed: {output}")
    if vm.says("dpkg-query -W -f '${Version}' peryton") != NEW or output.count("is served by process") != 2:
        raise Failed(f"the upgrade: {output}")
    log = vm.says("journalctl -u peryton@data --no-pager -o cat | tail -30")
    if "closed in good order" not in log:
        raise Failed(f"the server before did not end in good order: {log}")
    vm.run("systemctl stop reader")
    say(f"upgraded to {NEW} beneath the writer and a reader, three files were written {wait:.1f} s later")


def refuses_removal(vm):
    code, output = vm.run("dpkg -r peryton", check=False)
    if code == 0 or "not removed, because volumes are served" not in output or "peryton@data.service" not in output:
        raise Failed(f"removal: {code} {output}")
    vm.goes_on("after a removal that was refused")
    say("removal refused while volumes are served")


def removal(vm):
    vm.run("systemctl stop writer; umount /data; systemctl disable --now peryton@data peryton@second")
    # A volume that has a name is listed as well.
    left = {name: one for name, one in vm.devices().items() if one["state"] != "not served"}
    if left:
        raise Failed(f"devices stay although nobody uses them: {left}")
    vm.run("sed -i /peryton/d /etc/fstab; dpkg -r peryton; dpkg -P peryton")
    vm.run("test ! -e /usr/bin/peryton -a -e /etc/peryton/data.toml -a -e /etc/peryton/second.toml")
    vm.run(f"dpkg -i /packages/peryton_{NEW}.deb; systemctl start peryton@data; udevadm settle; mount /dev/peryton/data /data")
    vm.nothing_is_lost("after the package was purged and installed again")
    vm.run("umount /data; e2fsck -fn /dev/peryton/data; systemctl stop peryton@data; dpkg -P peryton")
    say("removed, purged, installed again: designs and data are there")


def packages(peryton, folder):
    """Builds both packages from this program; returns a disk that has them."""
    profile = os.path.basename(os.path.dirname(peryton)).replace("debug", "dev")
    os.makedirs(f"{folder}/packages")
    for version in (OLD, NEW):
        sh(f"{ROOT}/scripts/deb", "--built", "--profile", profile, "--version", version, "--out", f"{folder}/packages/peryton_{version}.deb", cwd=ROOT)
    size = sum(os.path.getsize(path) for path in glob.glob(f"{folder}/packages/*"))
    with open(f"{folder}/packages.img", "wb") as file:
        file.truncate(size + 16 * MIB)
    sh("mkfs.ext4", "-q", "-F", "-d", f"{folder}/packages", f"{folder}/packages.img")
    return f"{folder}/packages.img"


def host(_machine, peryton, folder, cut):
    home = os.environ.get("VMRUN_HOME", "/var/tmp/vmrun")
    debian, initrd = make(home)
    with_packages = packages(peryton, folder)
    disks = [f"{folder}/root.img"]
    sh("cp", "--reflink=auto", "--sparse=always", debian, disks[0])
    for name in ("data", "second"):
        for part, mib in (("fast", FAST), ("slow", SLOW)):
            disks.append(f"{folder}/{name}-{part}.img")
            with open(disks[-1], "wb") as file:
                file.truncate(mib * MIB)
    vm = Debian(folder, glob.glob(f"{home}/kernel/boot/vmlinuz-*")[0], initrd, [*disks, with_packages])
    say("with KVM" if vm.kvm else "without KVM: the processor is emulated")
    try:
        vm.start()
        install(vm)
        took = vm.shut_down(reboot=True)
        vm.booted()
        boots(vm, "the first boot")
        say(f"the file system was mounted at boot (the shutdown before took {took:.0f} s)")
        vm.run("mount -o ro /dev/vdf /packages")
        vm.write()
        vm.goes_on("at the start")
        kills(vm, 1 if cut else 3)
        stops(vm)
        hangs(vm, "server")
        if not cut:
            hangs(vm, "supervisor")
        upgrade(vm)
        refuses_removal(vm)
        # Mounted by hand: no line of fstab says that it is unmounted before the volume stops.
        vm.run("mkfs.ext4 -q /dev/peryton/second; mkdir -p /by-hand; mount /dev/peryton/second /by-hand")
        digest = vm.says("cd /by-hand; head -c 48M /dev/urandom > file; sha256sum file")
        took = vm.shut_down(reboot=True)
        vm.booted()
        vm.run("mount /dev/peryton/second /by-hand")
        if vm.says("cd /by-hand; sha256sum file") != digest:
            raise Failed("a file that was not flushed is lost in a shutdown, because the volume stopped before it was unmounted")
        vm.run("umount /by-hand")
        boots(vm, "after a shutdown beneath the writer")
        vm.nothing_is_lost("after a shutdown beneath the writer")
        log = vm.says("journalctl -b -1 -u peryton@data --no-pager -o cat | tail -5")
        if "closed in good order" not in log or " recover" in vm.says("journalctl -b -u peryton@data --no-pager -o cat"):
            raise Failed(f"the volume was not closed in good order at the shutdown: {log}")
        say(f"shut down beneath the writer in {took:.0f} s, {vm.written()} files, nothing is lost")
        for number in range(1 if cut else 3):
            vm.write()
            vm.goes_on("before the power fails")
            vm.cut_power()
            vm.start()
            boots(vm, f"after power reset {number + 1}")
            vm.nothing_is_lost(f"after power reset {number + 1}")
        say(f"{number + 1} power resets beneath the writer, {vm.written()} files, nothing is lost")
        vm.run("mount -o ro /dev/vdf /packages")
        removal(vm)
        say(f"powered off in {vm.shut_down(reboot=False):.0f} s")
    finally:
        vm.end()


if __name__ == "__main__":
    sys.exit("run it by scripts/kernel/run.py boot")
