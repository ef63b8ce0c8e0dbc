#!/usr/bin/env python3
"""Replays the same requests on MQSim and on Peryton's flash model, with the same geometry and latencies, and sets the distributions of
their response times side by side: docs/findings/models.md.

It needs MQSim (github.com/CMU-SAFARI/MQSim), built as its README says, and the built command. MQSim is run as it is: its log of
response times, with a period of 0 ns, has a line for every request, in whole microseconds.

usage: scripts/findings/mqsim.py MQSIM [--peryton BINARY] [--only NAME] [--trace FILE] [--csv FILE] [--keep FOLDER]
"""

import argparse
import csv
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

CHANNELS, CHIPS, BLOCKS, PAGES, PAGE = 4, 2, 256, 64, 8192
DIES = CHANNELS * CHIPS
# Free blocks of a plane below which cleaning begins. MQSim stops the writes of its host below ten (a constant of `SSD_Device.cpp`), so that
# cleaning must begin before that.
FREE_BLOCKS, MQSIM_STOPS = 12, 10
READ_US, PROGRAM_US, ERASE_US = 75, 750, 3800
CHANNEL_MB, HOST_MB = 333, 4000
QUEUE = 512
SECTOR = 512
SECTORS = PAGE // SECTOR
OVER_PROVISIONING = 0.28
LOGICAL_PAGES = int(DIES * BLOCKS * PAGES * (1 - OVER_PROVISIONING)) // 2 * 2
# Time of a command on the channel, and of the host's protocol beside its data: what a read and a write that are alone take in MQSim beyond
# sensing or programming and the two transfers.
COMMAND_NS, READ_OVERHEAD_NS, WRITE_OVERHEAD_NS = 300, 700, 400
QUANTILES = (0.5, 0.9)

MQSIM_DEVICE = f"""<?xml version="1.0" encoding="us-ascii"?>
<Execution_Parameter_Set><Host_Parameter_Set>
<PCIe_Lane_Bandwidth>1.0</PCIe_Lane_Bandwidth><PCIe_Lane_Count>{HOST_MB // 1000}</PCIe_Lane_Count>
<SATA_Processing_Delay>400000</SATA_Processing_Delay><Enable_ResponseTime_Logging>true</Enable_ResponseTime_Logging>
<ResponseTime_Logging_Period_Length>0</ResponseTime_Logging_Period_Length>
</Host_Parameter_Set><Device_Parameter_Set>
<Seed>321</Seed><Enabled_Preconditioning>false</Enabled_Preconditioning><Memory_Type>FLASH</Memory_Type>
<HostInterface_Type>NVME</HostInterface_Type><IO_Queue_Depth>65535</IO_Queue_Depth><Queue_Fetch_Size>{QUEUE}</Queue_Fetch_Size>
<Caching_Mechanism>ADVANCED</Caching_Mechanism><Data_Cache_Sharing_Mode>SHARED</Data_Cache_Sharing_Mode>
<Data_Cache_Capacity>{{buffer}}</Data_Cache_Capacity><Data_Cache_DRAM_Row_Size>8192</Data_Cache_DRAM_Row_Size>
<Data_Cache_DRAM_Data_Rate>800</Data_Cache_DRAM_Data_Rate><Data_Cache_DRAM_Data_Busrt_Size>4</Data_Cache_DRAM_Data_Busrt_Size>
<Data_Cache_DRAM_tRCD>13</Data_Cache_DRAM_tRCD><Data_Cache_DRAM_tCL>13</Data_Cache_DRAM_tCL><Data_Cache_DRAM_tRP>13</Data_Cache_DRAM_tRP>
<Address_Mapping>PAGE_LEVEL</Address_Mapping><Ideal_Mapping_Table>true</Ideal_Mapping_Table><CMT_Capacity>2097152</CMT_Capacity>
<CMT_Sharing_Mode>SHARED</CMT_Sharing_Mode><Plane_Allocation_Scheme>CWDP</Plane_Allocation_Scheme>
<Transaction_Scheduling_Policy>PRIORITY_OUT_OF_ORDER</Transaction_Scheduling_Policy>
<Overprovisioning_Ratio>{OVER_PROVISIONING}</Overprovisioning_Ratio><GC_Exec_Threshold>{{threshold}}</GC_Exec_Threshold>
<GC_Block_Selection_Policy>GREEDY</GC_Block_Selection_Policy><Use_Copyback_for_GC>false</Use_Copyback_for_GC>
<Preemptible_GC_Enabled>false</Preemptible_GC_Enabled><GC_Hard_Threshold>0.005</GC_Hard_Threshold>
<Dynamic_Wearleveling_Enabled>true</Dynamic_Wearleveling_Enabled><Static_Wearleveling_Enabled>false</Static_Wearleveling_Enabled>
<Static_Wearleveling_Threshold>100</Static_Wearleveling_Threshold>
<Preferred_suspend_erase_time_for_read>700000</Preferred_suspend_erase_time_for_read>
<Preferred_suspend_erase_time_for_write>700000</Preferred_suspend_erase_time_for_write>
<Preferred_suspend_write_time_for_read>100000</Preferred_suspend_write_time_for_read>
<Flash_Channel_Count>{CHANNELS}</Flash_Channel_Count><Flash_Channel_Width>1</Flash_Channel_Width>
<Channel_Transfer_Rate>{CHANNEL_MB}</Channel_Transfer_Rate><Chip_No_Per_Channel>{CHIPS}</Chip_No_Per_Channel>
<Flash_Comm_Protocol>NVDDR2</Flash_Comm_Protocol><Flash_Parameter_Set>
<Flash_Technology>SLC</Flash_Technology><CMD_Suspension_Support>{{suspend}}</CMD_Suspension_Support>
<Page_Read_Latency_LSB>{READ_US}000</Page_Read_Latency_LSB><Page_Read_Latency_CSB>{READ_US}000</Page_Read_Latency_CSB>
<Page_Read_Latency_MSB>{READ_US}000</Page_Read_Latency_MSB><Page_Program_Latency_LSB>{PROGRAM_US}000</Page_Program_Latency_LSB>
<Page_Program_Latency_CSB>{PROGRAM_US}000</Page_Program_Latency_CSB><Page_Program_Latency_MSB>{PROGRAM_US}000</Page_Program_Latency_MSB>
<Block_Erase_Latency>{ERASE_US}000</Block_Erase_Latency><Block_PE_Cycles_Limit>10000</Block_PE_Cycles_Limit>
<Suspend_Erase_Time>100000</Suspend_Erase_Time><Suspend_Program_Time>100000</Suspend_Program_Time>
<Die_No_Per_Chip>1</Die_No_Per_Chip><Plane_No_Per_Die>1</Plane_No_Per_Die><Block_No_Per_Plane>{BLOCKS}</Block_No_Per_Plane>
<Page_No_Per_Block>{PAGES}</Page_No_Per_Block><Page_Capacity>{PAGE}</Page_Capacity><Page_Metadat_Capacity>448</Page_Metadat_Capacity>
</Flash_Parameter_Set></Device_Parameter_Set></Execution_Parameter_Set>
"""

MQSIM_WORKLOAD = """<?xml version="1.0" encoding="us-ascii"?>
<MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Trace_Based><Priority_Class>HIGH</Priority_Class>
<Device_Level_Data_Caching_Mode>{caching}</Device_Level_Data_Caching_Mode>
<Channel_IDs>{channels}</Channel_IDs><Chip_IDs>{chips}</Chip_IDs><Die_IDs>0</Die_IDs><Plane_IDs>0</Plane_IDs>
<Initial_Occupancy_Percentage>{filled}</Initial_Occupancy_Percentage><File_Path>{trace}</File_Path>
<Percentage_To_Be_Executed>100</Percentage_To_Be_Executed><Relay_Count>1</Relay_Count><Time_Unit>NANOSECOND</Time_Unit>
</IO_Flow_Parameter_Set_Trace_Based></IO_Scenario></MQSim_IO_Scenarios>
"""

PROFILE = """name = "as-mqsim"
description = "The geometry of a run of MQSim"
class = "ssd"
capacity = "{capacity}B"
sources = ["scripts/findings/mqsim.py"]

[flash]
channels = {channels}
dies_per_channel = {chips}
page = "{page}B"
mapping_unit = "{page}B"
pages_per_block = {pages}
read = "{read}us"
program = "{program}us"
erase = "{erase}us"
channel_mb_per_s = {channel}
channel_command = "{command}ns"
interface_mb_per_s = {host}
full_duplex = true
read_overhead = "{read_overhead}ns"
write_overhead = "{write_overhead}ns"
cycles = 10000
over_provisioning = {spare}
gc_low = {gc_low}
gc_high = {gc_low}
collect_at_once = true
{queue}placement = "{placement}"
precondition = "{precondition}"
{more}
idle_w = 1
standby_w = 1
"""


class Scenario:
    """Requests, and how both devices are set up for them. Only `requests` are compared; `before` brings MQSim into a steady state."""

    def __init__(self, name, requests, *, before=(), free=FREE_BLOCKS, buffer=0, suspend=False, placement="address", queue=QUEUE):
        # The last request touches the end of the device, so that Peryton models all of it and not the part that is used.
        last = (requests[-1][0] + 10_000_000, "r", (LOGICAL_PAGES - 1) * SECTORS, SECTORS)
        self.name, self.requests, self.before = name, [*requests, last], list(before)
        self.buffer, self.suspend, self.placement, self.queue = buffer, suspend, placement, queue
        self.steady, self.free = bool(before), free


def drawn(seed, count, gap_us, reads, *, turns=False, half=False, span=LOGICAL_PAGES // 2, now=0):
    """Requests of a page each at random times, `gap_us` apart on average and at least 2 us; with `turns` the dies of writes take turns, with
    `half` only one die of each channel is used."""
    rng, requests, writes = random.Random(seed), [], 0
    for _ in range(count):
        now += 2000 + int(rng.expovariate(1 / max(gap_us - 2, 1e-6)) * 1000)
        read = rng.random() < reads
        page = rng.randrange(span)
        if turns and not read:
            page = page // DIES * DIES + writes % DIES
        if half:
            page = page // DIES * DIES + page % CHANNELS
        writes += not read
        requests.append((now, "r" if read else "w", page * SECTORS, SECTORS))
    return requests


def overwritten(seed, gap_us):
    """Every page in order, and then as many again as there are, three times, at random: the state that Peryton's precondition makes."""
    rng, order = random.Random(seed), list(range(LOGICAL_PAGES))
    order += [rng.randrange(LOGICAL_PAGES) for _ in range(3 * LOGICAL_PAGES)]
    return [(index * gap_us * 1000, "w", page * SECTORS, SECTORS) for index, page in enumerate(order)]


def of_trace(path):
    """Requests of a trace in MQSim's format: time in ns, device, first sector, sectors, 1 (read) or 0. Times are moved apart to 2 us."""
    requests, last = [], 0
    with open(path, encoding="ascii") as file:
        for line in file:
            at, _, first, sectors, read = line.split()[:5]
            last = max(last + 2000, int(at))
            requests.append((last, "r" if read == "1" else "w", int(first) % (LOGICAL_PAGES * SECTORS // 2), int(sectors)))
    return requests


def run_mqsim(binary, folder, scenario):
    """The latency in us of each request, in order, and MQSim's own mean in us."""
    trace = folder / "requests.trace"
    with open(trace, "w", encoding="ascii") as file:
        for at, op, first, sectors in scenario.before + scenario.requests:
            file.write(f"{at} 0 {first} {sectors} {int(op == 'r')}\n")
    device = MQSIM_DEVICE.format(
        buffer=max(scenario.buffer, 1 << 20),
        suspend="PROGRAM_ERASE" if scenario.suspend else "NONE",
        threshold=scenario.free / BLOCKS + 0.0001,
    )
    (folder / "device.xml").write_text(device, encoding="ascii")
    workload = MQSIM_WORKLOAD.format(
        caching="WRITE_CACHE" if scenario.buffer else "TURNED_OFF",
        channels=",".join(map(str, range(CHANNELS))),
        chips=",".join(map(str, range(CHIPS))),
        filled=50,
        trace=trace,
    )
    (folder / "work.xml").write_text(workload, encoding="ascii")
    command = [binary, "-i", "device.xml", "-w", "work.xml"]
    subprocess.run(command, cwd=folder, input=b"\n", stdout=subprocess.DEVNULL, check=True)
    report = xml.parse(folder / "work_scenario_1.xml").getroot()
    flow = next(element for element in report.iter() if element.tag.endswith("IO_Flow"))
    mean = float(flow.find("End_to_End_Request_Delay").text)
    lines = (folder / "work.IO_Flow.No_0.log").read_text(encoding="ascii").splitlines()[1:]
    ends = [tuple(map(int, line.split())) for line in lines]
    return matched(scenario.requests, ends), mean, counts(report)


def counts(report):
    """What MQSim counts of its flash: erases, and commands that were suspended."""
    names = ("Issued_Flash_Erase_CMD", "Issued_Flash_Suspend_Program_CMD", "Issued_Flash_Suspend_Erase_CMD")
    found = {name: 0 for name in names}
    for element in report.iter():
        for name in names:
            found[name] += int(element.get(name, 0))
            child = element.find(name)
            found[name] += int(float(child.text)) if child is not None else 0
    return found


def matched(requests, ends):
    """The latency of each request. A line of the log has the end and how long it took, both cut to us: it is of the request that
    arrived then, which is unique, since requests arrive 2 us apart. Requests that end in the same nanosecond share a line, with their
    mean, so that they are not found."""
    by_arrival = {}
    for index, (at, _, _, _) in enumerate(requests):
        by_arrival[at // 1000] = index
    latencies = [None] * len(requests)
    for end, _, took in ends:
        for arrival in (end - took, end - took - 1):
            index = by_arrival.get(arrival)
            if index is not None and latencies[index] is None:
                latencies[index] = took + 0.5
                break
    return latencies


def run_peryton(binary, folder, scenario, latencies):
    """The validation of Peryton's model against these latencies."""
    measured = folder / "measured.csv"
    with open(measured, "w", encoding="ascii", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time_us", "op", "offset", "length", "latency_us"])
        for (at, op, first, sectors), latency in zip(scenario.requests, latencies):
            if latency is not None:
                writer.writerow([at / 1000, op, first * SECTOR, sectors * SECTOR, latency])
    more = []
    if scenario.buffer:
        more += [f'write_buffer = "{scenario.buffer}B"', "buffer_serves_reads = true"]
    if scenario.suspend:
        more.append('suspend = "100us"')
    profile = PROFILE.format(
        capacity=LOGICAL_PAGES * PAGE,
        channels=CHANNELS,
        chips=CHIPS,
        page=PAGE,
        pages=PAGES,
        read=READ_US,
        program=PROGRAM_US,
        erase=ERASE_US,
        channel=CHANNEL_MB,
        host=HOST_MB,
        command=COMMAND_NS,
        queue=f"queue_depth = {scenario.queue}\n" if scenario.queue else "",
        read_overhead=READ_OVERHEAD_NS,
        write_overhead=WRITE_OVERHEAD_NS,
        placement=scenario.placement,
        spare=1 / (1 - OVER_PROVISIONING) - 1,
        gc_low=scenario.free - 1 if scenario.steady else 1,
        precondition="random" if scenario.steady else "sequential",
        more="\n".join(more),
    )
    path = folder / "as-mqsim.toml"
    path.write_text(profile, encoding="ascii")
    command = [binary, "profiles", path, "--validate", measured, "--format", "csv", "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def scenarios(trace):
    """What is compared."""
    yield Scenario("reads alone, every 2 ms", drawn(1, 5000, 2000, 1.0))
    yield Scenario("reads, every 80 µs", drawn(11, 10000, 80, 1.0))
    yield Scenario("reads, every 40 µs", drawn(12, 10000, 40, 1.0))
    yield Scenario("reads, every 40 µs, one die on each channel", drawn(13, 10000, 40, 1.0, half=True))
    yield Scenario("reads, every 20 µs", drawn(2, 20000, 20, 1.0))
    yield Scenario("writes alone, every 8 ms, no cache", drawn(3, 3000, 8000, 0.0))
    yield Scenario("writes, every 160 µs, no cache", drawn(5, 10000, 160, 0.0))
    yield Scenario('the same with `placement = "turns"` in Peryton', drawn(5, 10000, 160, 0.0), placement="turns")
    yield Scenario("writes to dies in turn, every 160 µs, no cache", drawn(4, 10000, 160, 0.0, turns=True), placement="turns")
    yield Scenario("7 reads to 3 writes, every 100 µs, no cache", drawn(7, 30000, 100, 0.7))
    yield Scenario("the same, programs and erases may be suspended", drawn(7, 30000, 100, 0.7), suspend=True)
    yield Scenario("7 reads to 3 writes, every 100 µs, write cache of 64 MiB", drawn(8, 30000, 100, 0.7), buffer=64 << 20)
    before = overwritten(9, 800)
    after = drawn(10, 60000, 400, 0.7, span=LOGICAL_PAGES, now=before[-1][0] + 1_000_000_000)
    yield Scenario("7 reads to 3 writes, every 400 µs, cleaning", after, before=before)
    yield Scenario("the same, MQSim stops writes while it cleans", after, before=before, free=MQSIM_STOPS)
    if trace:
        yield Scenario(f"`{pathlib.Path(trace).name}`, no cache", of_trace(trace))
        yield Scenario("the same, without `queue_depth` in Peryton", of_trace(trace), queue=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("mqsim", help="MQSim's program")
    parser.add_argument("--peryton", default="target/release/peryton", help="the command [default: %(default)s]")
    parser.add_argument("--only", help="the scenarios whose name this pattern matches")
    parser.add_argument("--trace", help="also replay a trace in MQSim's format (its traces/tpcc-small.trace)")
    parser.add_argument("--csv", help="write all figures there, the quantiles too")
    parser.add_argument("--keep", help="leave all files in this folder")
    args = parser.parse_args()
    for program in (args.mqsim, args.peryton):
        if not os.access(program, os.X_OK):
            sys.exit(f"mqsim.py: {program}: no program there: build it, or name where it is")
    mqsim, peryton = (os.path.abspath(program) for program in (args.mqsim, args.peryton))
    with tempfile.TemporaryDirectory() as temporary:
        table, page = [], []
        for number, scenario in enumerate(scenarios(args.trace)):
            if args.only and not re.search(args.only, scenario.name):
                continue
            folder = pathlib.Path(args.keep or temporary) / f"{number:02}"
            folder.mkdir(parents=True, exist_ok=True)
            latencies, own_mean, counted = run_mqsim(mqsim, folder, scenario)
            missing = sum(latency is None for latency in latencies)
            if missing > len(latencies) / 5:
                sys.exit(f"mqsim.py: {scenario.name}: {missing} of {len(latencies)} requests were not found in MQSim's log")
            result = run_peryton(peryton, folder, scenario, latencies)
            show(scenario, result, own_mean, counted, missing, table)
            page += markdown(scenario, result)
    print("\n| requests, µs | MQSim, mean | Peryton, mean | off | MQSim, p99 | Peryton, p99 | demerit |\n|---|--:|--:|--:|--:|--:|--:|")
    print("\n".join(page))
    if args.csv:
        with open(args.csv, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["requests", "class", "quantity", "mqsim_us", "peryton_us"], *table])


def markdown(scenario, result):
    """The rows of a scenario for docs/findings/models.md: of reads and writes if there are both, and of all."""
    tail = {part["share"]: (part["measured_ms"], part["modelled_ms"]) for part in result["tail"]}
    p99 = tail.get(0.99) or tuple(at(result[name], 0.99) for name in ("measured_cdf", "modelled_cdf"))
    parts = [(part["class"] + "s", part["mean_ms"], part["model_mean_ms"], part["demerit_ms"], None) for part in result["classes"] if part["requests"] > result["requests"] / 100]
    parts = parts if len(parts) > 1 else []
    parts.append(("all", result["mean_ms"], result["model_mean_ms"], result["demerit_ms"], p99))
    for index, (name, theirs, ours, demerit, tails) in enumerate(parts):
        what = scenario.name if len(parts) == 1 else f"{scenario.name}: {name}" if index == 0 else f"its {name}" if name != "all" else name
        off = f"{(ours / theirs - 1) * 100:+.1f} %".replace("-", "−")
        off = off if abs(ours / theirs - 1) < 0.1 else f"**{off}**"
        cells = [what, number(theirs), number(ours), off, *map(number, tails or ()), *([""] * (0 if tails else 2)), number(demerit)]
        yield "| " + " | ".join(cells) + " |"


def number(ms):
    """Microseconds as they are printed: whole ones from 10,000 on."""
    return f"{ms * 1e3:,.0f}" if ms >= 10 else f"{ms * 1e3:.1f}"


def show(scenario, result, own_mean, counted, missing, table):
    """One scenario's rows."""
    print(f"\n{scenario.name}: {result['requests']} requests ({missing} not matched), MQSim's own mean {own_mean:.0f} us, {counted}")
    print(f"  {'':12} {'MQSim':>9} {'Peryton':>9} {'off':>8} {'demerit':>9}  us")
    rows = [(part["class"], part["mean_ms"], part["model_mean_ms"], part["demerit_ms"]) for part in result["classes"]]
    rows.append(("all", result["mean_ms"], result["model_mean_ms"], result["demerit_ms"]))
    for name, theirs, ours, demerit in rows:
        off = (ours / theirs - 1) * 100
        print(f"  mean {name:7} {theirs * 1e3:9.1f} {ours * 1e3:9.1f} {off:+7.1f}% {demerit * 1e3:9.1f}")
        table.append([scenario.name, name, "mean", round(theirs * 1e3, 1), round(ours * 1e3, 1)])
    tail = [(part["share"], part["measured_ms"], part["modelled_ms"]) for part in result["tail"]]
    body = [(share, at(result["measured_cdf"], share), at(result["modelled_cdf"], share)) for share in QUANTILES]
    for share, theirs, ours in body + tail:
        print(f"  {share * 100:5g} %      {theirs * 1e3:9.1f} {ours * 1e3:9.1f} {(ours / theirs - 1) * 100:+7.1f}%")
        table.append([scenario.name, "all", f"quantile {share:g}", round(theirs * 1e3, 1), round(ours * 1e3, 1)])


def at(cdf, share):
    """The quantile of a distribution that is given by evenly spaced ones."""
    return cdf[min(int(share * len(cdf)), len(cdf) - 1)]


if __name__ == "__main__":
    main()
