//! Tables that are published, each in the words of a user ([`Columns`](crate::Columns), [`Units`](crate::Units)).

use super::table::{Preset, named, plain};

/// Li et al., "An In-Depth Analysis of Cloud Block Storage Workloads in Large-Scale Production", IISWC 2020.
pub(crate) const ALIBABA: Preset =
    plain("volume=1,op=2,offset=3,size=4,time=5", "time=us,op=read:R/r+write:W/w,volume=number", b',', 5);

/// SPC Trace File Format Specification 1.0.1: application storage unit, block of 512 bytes, bytes, opcode, seconds, and more.
pub(crate) const SPC: Preset = Preset {
    width: None,
    ..plain(
        "volume=1,offset=2,size=3,op=4,time=5",
        "time=s,offset=sectors,op=read:R/r+write:W/w,volume=number",
        b',',
        0,
    )
};

/// Zhang et al., "OSCA", USENIX ATC 2020. All requests of a second have the same time.
pub(crate) const TENCENT: Preset = plain(
    "time=1,offset=2,size=3,op=4,volume=5",
    "time=s,offset=sectors,size=sectors,op=read:0+write:1,volume=number",
    b',',
    5,
);

/// Lee et al., "Understanding storage traffic characteristics on enterprise virtual desktop infrastructure", SYSTOR 2017.
pub(crate) const SYSTOR17: Preset =
    plain("time=1,latency=2,op=3,volume=4,offset=5,size=6", "time=s,latency=s,volume=number", b',', 6);

/// Fujitsu's cloud service K5 (SNIA IOTTA): volume, seconds, R or W, bytes, bytes.
pub(crate) const K5CLOUD: Preset = plain("volume=1,time=2,op=3,offset=4,size=5", "time=s,volume=number", b',', 5);

/// <https://trace.camelab.org>: process, R or W, sector, sectors, seconds.
pub(crate) const CAMELAB: Preset = plain("op=2,offset=3,size=4,time=5", "time=s,offset=sectors,size=sectors", b' ', 5);

/// SimpleSSD's trace generator, and `blkparse -f "%t %S %n %d\n"`: nanoseconds, sector, sectors, operation.
pub(crate) const SIMPLESSD: Preset =
    plain("time=1,offset=2,size=3,op=4", "time=ns,offset=sectors,size=sectors", b' ', 4);

/// Google's synthetic traces of disks (Phothilimthana et al., "Thesios", ASPLOS 2024). A volume is a file.
pub(crate) const THESIOS: Preset = named(
    "time=start_time,op=op_type,offset=file_offset,size=request_io_size_bytes,volume=filename",
    "time=s,volume=name",
    b',',
);

/// Meta's Tectonic (Wong et al., "Baleen", FAST 2024). A volume is a block of up to 8 MiB; 1, 2 and 5 get, 3, 4 and 6 put.
pub(crate) const TECTONIC: Preset = named(
    "volume=block_id,offset=io_offset,size=io_size,time=op_time,op=op_name",
    "time=s,op=read:1/2/5+write:3/4/6,volume=name",
    b' ',
);

/// Open CAS' iotrace, as `iotrace --csv` prints it.
pub(crate) const IOTRACE: Preset = named(
    "time=header.timestamp,op=io.operation,offset=io.lba,size=io.len,volume=io.deviceId",
    "time=ns,offset=sectors,size=sectors,volume=number",
    b',',
);

/// IBM's object store (Eytan et al., "It's Time to Revisit LRU vs. FIFO", HotStorage 2020): ms, request, object, bytes, range.
pub(crate) const IBM_COS: Preset = Preset {
    width: None,
    ..plain(
        "time=1,op=2,id=3,size=4",
        "time=ms,op=read:REST.GET.OBJECT+write:REST.PUT.OBJECT/REST.COPY.OBJECT+discard:REST.DELETE.OBJECT+none:REST.HEAD.OBJECT",
        b' ',
        0,
    )
};

/// The same as others distribute it: with numbers for requests, and words for objects.
pub(crate) const IBM_COS_CSV: Preset = Preset {
    begins: "# timestamp (ms), op type",
    ..plain("time=1,op=2,id=3,size=4", "time=ms,op=read:1+write:0/4+discard:2+none:3", b',', 4)
};

/// Yang et al., "A large scale analysis of hundreds of in-memory cache clusters at Twitter", OSDI 2020.
pub(crate) const TWITTER: Preset = plain("time=1,id=2,size=3+4,op=6", "time=s", b',', 7);

/// Meta's key-value caches (CacheLib, Berg et al., OSDI 2020), since 2022.
pub(crate) const META_KV: Preset = named("time=op_time,id=key,op=op,size=key_size+size,count=op_count", "time=s", b',');

/// Meta's key-value caches before: without times.
pub(crate) const META_KV_1: Preset = named("id=key,op=op,size=size+key_size,count=op_count", "", b',');

/// Meta's content delivery network (CacheLib).
pub(crate) const META_CDN: Preset = named("time=timestamp,id=cacheKey,size=objectSize", "time=s", b',');

/// webcachesim and LRB (Song et al., NSDI 2020): time, object, size, and features.
pub(crate) const WEBCACHESIM: Preset =
    Preset { recognised: false, width: None, ..plain("time=1,id=2,size=3", "time=s", b' ', 0) };

/// The replayer of FEMU and IODA (Li et al., SOSP 2021): DiskSim's columns in bytes.
pub(crate) const REPLAYER: Preset = Preset {
    recognised: false,
    ..plain("time=1,volume=2,offset=3,size=4,op=5", "time=ms,op=read:1+write:0,volume=number", b' ', 5)
};

/// FlashNet's replayer: time of the trace in ms, measured latency in us, 1 read or 0 write, bytes, offset, submission in ms,
/// bytes. A request arrives when it was submitted.
pub(crate) const FLASHNET: Preset = Preset {
    spaced: Some(false),
    ..plain("latency=2,op=3,size=4,offset=5,time=6", "time=ms,latency=us,op=read:1+write:0", b',', 7)
};

/// fio's log of latencies with `log_offset=1` (fio(1), "Log file formats"): the time of the end in ms, ns, direction, bytes, offset.
pub(crate) const FIO_LOG: Preset = Preset {
    width: None,
    spaced: Some(true),
    ..plain("end=1,latency=2,op=3,size=4,offset=5", "time=ms,latency=ns,op=read:0+write:1+discard:2", b',', 0)
};
