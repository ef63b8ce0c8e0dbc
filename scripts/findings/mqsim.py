#!/usr/bin/env python3
"""Replays the same requests on MQSim and on Peryton's flash model, with the same geometry and latencies, and sets the distributions of
their response times side by side: docs/findings/mqsim.md.

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

CHANNELS, CHIPS, BLOCKS, PAGES, PAGE = 4, 2, 256, 256, 8192
DIES = CHANNELS * CHIPS
READ_US, PROGRAM_US, ERASE_US = 75, 750, 3800
CHANNEL_MB, HOST_MB = 333, 4000
SECTOR = 512
SECTORS = PAGE // SECTOR
OVER_PROVISIONING = 0.28
LOGICAL_PAGES = int(DIES * BLOCKS * PAGES * (1 - OVER_PROVISIONING)) // 2 * 2
# MQSim's time for a command over its channel beside the page and for the host's protocol, measured with reads that are alone; Peryton is
# given it as `read_overhead` and `write_overhead`.
QUANTILES = (0.5, 0.9, 0.99, 0.999)

MQSIM_DEVICE = f"""<?xml version="1.0" encoding="us-ascii"?>
<Execution_Parameter_Set><Host_Parameter_Set>
<PCIe_Lane_Bandwidth>1.0</PCIe_Lane_Bandwidth><PCIe_Lane_Count>{HOST_MB // 1000}</PCIe_Lane_Count>
<SATA_Processing_Delay>400000</SATA_Processing_Delay><Enable_ResponseTime_Logging>true</Enable_ResponseTime_Logging>
<ResponseTime_Logging_Period_Length>0</ResponseTime_Logging_Period_Length>
</Host_Parameter_Set><Device_Parameter_Set>
<Seed>321</Seed><Enabled_Preconditioning>{{steady}}</Enabled_Preconditioning><Memory_Type>FLASH</Memory_Type>
<HostInterface_Type>NVME</HostInterface_Type><IO_Queue_Depth>65535</IO_Queue_Depth><Queue_Fetch_Size>512</Queue_Fetch_Size>
<Caching_Mechanism>ADVANCED</Caching_Mechanism><Data_Cache_Sharing_Mode>SHARED</Data_Cache_Sharing_Mode>
<Data_Cache_Capacity>{{buffer}}</Data_Cache_Capacity><Data_Cache_DRAM_Row_Size>8192</Data_Cache_DRAM_Row_Size>
<Data_Cache_DRAM_Data_Rate>800</Data_Cache_DRAM_Data_Rate><Data_Cache_DRAM_Data_Busrt_Size>4</Data_Cache_DRAM_Data_Busrt_Size>
<Data_Cache_DRAM_tRCD>13</Data_Cache_DRAM_tRCD><Data_Cache_DRAM_tCL>13</Data_Cache_DRAM_tCL><Data_Cache_DRAM_tRP>13</Data_Cache_DRAM_tRP>
<Address_Mapping>PAGE_LEVEL</Address_Mapping><Ideal_Mapping_Table>true</Ideal_Mapping_Table><CMT_Capacity>2097152</CMT_Capacity>
<CMT_Sharing_Mode>SHARED</CMT_Sharing_Mode><Plane_Allocation_Scheme>CWDP</Plane_Allocation_Scheme>
<Transaction_Scheduling_Policy>PRIORITY_OUT_OF_ORDER</Transaction_Scheduling_Policy>
<Overprovisioning_Ratio>{OVER_PROVISIONING}</Overprovisioning_Ratio><GC_Exec_Threshold>0.03</GC_Exec_Threshold>
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
interface_mb_per_s = {host}
full_duplex = true
read_overhead = "{read_overhead}ns"
write_overhead = "{write_overhead}ns"
cycles = 10000
over_provisioning = {spare}
gc_low = {gc_low}
gc_high = {gc_low}
precondition = "{precondition}"
{more}
idle_w = 1
standby_w = 1
"""


class Scenario:
    """Requests, and how both devices are set up for them."""

    def __init__(self, name, requests, *, steady=False, buffer=0, suspend=False):
        self.name, self.requests = name, requests
        self.steady, self.buffer, self.suspend = steady, buffer, suspend


def drawn(seed, count, gap_us, reads, *, turns=False, span=LOGICAL_PAGES // 2):
    """Requests of a page each at random times, `gap_us` apart on average and at least 2 us; with `turns` the dies of writes take turns."""
    rng, now, requests, writes = random.Random(seed), 0, [], 0
    for _ in range(count):
        now += 2000 + int(rng.expovariate(1 / max(gap_us - 2, 1e-6)) * 1000)
        read = rng.random() < reads
        page = rng.randrange(span)
        if turns and not read:
            page = page // DIES * DIES + writes % DIES
        writes += not read
        requests.append((now, "r" if read else "w", page * SECTORS, SECTORS))
    return requests


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
        for at, op, first, sectors in scenario.requests:
            file.write(f"{at} 0 {first} {sectors} {int(op == 'r')}\n")
    device = MQSIM_DEVICE.format(
        steady="true" if scenario.steady else "false",
        buffer=max(scenario.buffer, 1 << 20),
        suspend="PROGRAM_ERASE" if scenario.suspend else "NONE",
    )
    (folder / "device.xml").write_text(device, encoding="ascii")
    workload = MQSIM_WORKLOAD.format(
        caching="WRITE_CACHE" if scenario.buffer else "TURNED_OFF",
        channels=",".join(map(str, range(CHANNELS))),
        chips=",".join(map(str, range(CHIPS))),
        filled=100 if scenario.steady else 50,
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
    arrived then, which is unique, since requests arrive 2 us apart."""
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


def run_peryton(binary, folder, scenario, latencies, overheads):
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
        read_overhead=overheads[0],
        write_overhead=overheads[1],
        spare=1 / (1 - OVER_PROVISIONING) - 1,
        gc_low=int(BLOCKS * 0.03),
        precondition="random" if scenario.steady else "sequential",
        more="\n".join(more),
    )
    path = folder / "as-mqsim.toml"
    path.write_text(profile, encoding="ascii")
    command = [binary, "devices", path, "--validate", measured, "--format", "csv", "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def scenarios(trace):
    """What is compared."""
    yield Scenario("reads alone", drawn(1, 5000, 2000, 1.0))
    yield Scenario("reads, loaded", drawn(2, 20000, 20, 1.0))
    yield Scenario("writes alone", drawn(3, 3000, 4000, 0.0))
    yield Scenario("writes, dies in turn", drawn(4, 20000, 160, 0.0, turns=True))
    yield Scenario("writes, dies at random", drawn(5, 20000, 160, 0.0))
    yield Scenario("7 reads to 3 writes, dies in turn", drawn(6, 30000, 100, 0.7, turns=True))
    yield Scenario("7 reads to 3 writes, dies at random", drawn(7, 30000, 100, 0.7))
    yield Scenario("the same, suspending", drawn(7, 30000, 100, 0.7), suspend=True)
    yield Scenario("7 to 3 with a write cache", drawn(8, 30000, 100, 0.7), buffer=64 << 20)
    yield Scenario("7 to 3, cleaning", drawn(9, 60000, 400, 0.7, span=LOGICAL_PAGES), steady=True)
    if trace:
        yield Scenario(pathlib.Path(trace).name, of_trace(trace))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("mqsim", help="MQSim's program")
    parser.add_argument("--peryton", default="target/release/peryton", help="the command [default: %(default)s]")
    parser.add_argument("--only", help="the scenarios whose name this pattern matches")
    parser.add_argument("--trace", help="also replay a trace in MQSim's format (its traces/tpcc-small.trace)")
    parser.add_argument("--csv", help="write the table's rows there")
    parser.add_argument("--keep", help="leave all files in this folder")
    parser.add_argument("--overheads", default="2000,2000", help="of a read and of a write in ns [default: %(default)s]")
    args = parser.parse_args()
    for program in (args.mqsim, args.peryton):
        if not os.access(program, os.X_OK):
            sys.exit(f"mqsim.py: {program}: no program there: build it, or name where it is")
    mqsim, peryton = (os.path.abspath(program) for program in (args.mqsim, args.peryton))
    overheads = [int(part) for part in args.overheads.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        table = []
        for number, scenario in enumerate(scenarios(args.trace)):
            if args.only and not re.search(args.only, scenario.name):
                continue
            folder = pathlib.Path(args.keep or temporary) / f"{number:02}"
            folder.mkdir(parents=True, exist_ok=True)
            latencies, own_mean, counted = run_mqsim(mqsim, folder, scenario)
            missing = sum(latency is None for latency in latencies)
            if missing > len(latencies) / 50:
                sys.exit(f"mqsim.py: {scenario.name}: {missing} of {len(latencies)} requests were not found in MQSim's log")
            result = run_peryton(peryton, folder, scenario, latencies, overheads)
            show(scenario, result, own_mean, counted, missing, table)
    if args.csv:
        with open(args.csv, "w", encoding="ascii", newline="") as file:
            csv.writer(file).writerows([["requests", "class", "quantity", "mqsim_us", "peryton_us"], *table])


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
    for share in QUANTILES:
        theirs, ours = (at(result[key], share) for key in ("measured_cdf", "modelled_cdf"))
        print(f"  {share * 100:5g} %      {theirs * 1e3:9.1f} {ours * 1e3:9.1f} {(ours / theirs - 1) * 100:+7.1f}%")
        table.append([scenario.name, "all", f"quantile {share}", round(theirs * 1e3, 1), round(ours * 1e3, 1)])


def at(cdf, share):
    """The quantile of a distribution that is given by evenly spaced ones."""
    return cdf[min(int(share * len(cdf)), len(cdf) - 1)]


if __name__ == "__main__":
    main()
