//! A small trace of each format, written by hand from the description of the format, and the requests in it.

use peryton_recording::{Flags, chunk};
use peryton_trace::{Format, Request};
use peryton_units::{
    Bytes, Nanos,
    Op::{self, Discard, Flush, Read, Write},
};

pub struct Sample {
    pub name: &'static str,
    pub format: Format,
    pub bytes: Vec<u8>,
    pub requests: Vec<Request>,
}

/// (ns, volume, op, offset, length)
type Row = (u64, u32, Op, u64, u64);

fn sample(name: &'static str, format: Format, bytes: impl Into<Vec<u8>>, rows: &[Row]) -> Sample {
    let requests = rows.iter().map(|&(at, volume, op, offset, len)| Request {
        at: Nanos(at),
        offset: Bytes(offset),
        len: Bytes(len),
        volume,
        op,
    });
    Sample { name, format, bytes: bytes.into(), requests: requests.collect() }
}

/// The device number of 8,0 in Linux.
const SDA: u32 = 8 << 20;

pub fn all() -> Vec<Sample> {
    let mut samples = text();
    samples.extend(published());
    samples.extend(linux());
    samples.extend(binary());
    samples
}

/// The formats that are not recognised, because too many others look like them.
#[allow(dead_code, reason = "not every test that uses the samples needs it")]
pub const NAMED_ONLY: [Format; 2] = [Format::Replayer, Format::Webcachesim];

fn text() -> Vec<Sample> {
    vec![
        sample(
            "msr",
            Format::Msr,
            "128166372003061629,src1,0,Read,383496192,32768,413\n\
             128166372016382155,src1,1,Write,2822144,4096,1500\r\n\
             128166372016382154,src1,0,Write,0,512,26\n",
            &[
                (0, 0, Read, 383_496_192, 32_768),
                (1_332_052_500, 0, Write, 0, 512),
                (1_332_052_600, 1, Write, 2_822_144, 4_096),
            ],
        ),
        sample(
            "msr of two hosts",
            Format::Msr,
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
             128166372000000000,hm,1,Read,512,512,1\n128166372000000001,mds,1,Read,512,512,1\n\
             128166372000000002,hm,0,Write,512,512,1\n",
            &[(0, 1, Read, 512, 512), (100, 1001, Read, 512, 512), (200, 0, Write, 512, 512)],
        ),
        sample(
            "spc",
            Format::Spc,
            "0,303567,3584,w,0.026214\n1, 55590, 3072, R, 0.078643, 7, x\n",
            &[(0, 0, Write, 155_426_304, 3_584), (52_429_000, 1, Read, 28_462_080, 3_072)],
        ),
        sample(
            "fiu with digests",
            Format::Fiu,
            "89966104 4892 syslogd 904265560 8 W 6 0 531e779f6f1a5b4b1a9d1a3c1a9f7c55\n\
             89967104 1 Web Content 2 8 16 R 6 1 00000000000000000000000000000000\n",
            &[(0, 6 << 20, Write, 904_265_560 * 512, 4_096), (1_000, 6 << 20 | 1, Read, 8 * 512, 8_192)],
        ),
        sample(
            "fiu without digests",
            Format::Fiu,
            "1000 42 httpd 100 8 R 8 0\n4000 42 httpd 108 8 W 8 0\n",
            &[(0, SDA, Read, 51_200, 4_096), (3_000, SDA, Write, 55_296, 4_096)],
        ),
        sample(
            "alibaba",
            Format::Alibaba,
            "419,W,8792731648,16384,1577808000000046\n725,R,4096,0,1577808000000146\n",
            &[(0, 419, Write, 8_792_731_648, 16_384), (100_000, 725, Read, 4_096, 0)],
        ),
        sample(
            "lis",
            Format::Lis,
            "230027 8 0 0\n1842745 64 0 1\n216082 8 1 2\n",
            &[
                (0, 0, Read, 230_027 * 512, 4_096),
                (1_000, 0, Read, 1_842_745 * 512, 32_768),
                (2_000, 0, Read, 216_082 * 512, 4_096),
            ],
        ),
        sample(
            "tencent",
            Format::Tencent,
            "1538323200,12910952,128,0,1063\n1538323200,6265104,8,1,1064\n1538323201,1,1,1,1063\n",
            &[
                (0, 1063, Read, 12_910_952 * 512, 65_536),
                (0, 1064, Write, 6_265_104 * 512, 4_096),
                (1_000_000_000, 1063, Write, 512, 512),
            ],
        ),
        sample(
            "systor17",
            Format::Systor17,
            "Timestamp,Response,IOType,LUN,Offset,Size\n1455592211.097187000,0.000276,R,4,27918336,4096\n\
             1455592211.097187001,,W,1,4096,8192\n",
            &[(0, 4, Read, 27_918_336, 4_096), (1, 1, Write, 4_096, 8_192)],
        ),
        sample(
            "disksim of MQSim",
            Format::Disksim,
            "11413000 0 657728 16 1\n11565000 1 31244784 64 0\n",
            &[(0, 0, Read, 657_728 * 512, 8_192), (152_000, 1, Write, 31_244_784 * 512, 32_768)],
        ),
        sample(
            "disksim of DiskSim",
            Format::Disksim,
            "13.191135 30 0 5 1\n17.829285 20 576560 6 0\n",
            &[(0, 30, Read, 0, 2_560), (4_638_150, 20, Write, 576_560 * 512, 3_072)],
        ),
        sample(
            "disksim-validate",
            Format::DisksimValidate,
            "W Hit    4583176   4    663.00000  45422.50000\nR Miss   3962268  12   6657.00000  64047.00000\n",
            &[(0, 0, Write, 4_583_176 * 512, 2_048), (46_085_500, 0, Read, 3_962_268 * 512, 6_144)],
        ),
        sample(
            "fio 2",
            Format::Fio,
            "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 4096 8192\n/dev/sda wait 250 0\n\
             /dev/sdb add\n/dev/sdb read 0 512\n/dev/sda wait 240 0\n/dev/sda datasync 0 0\n/dev/sda wait 900 0\n\
             /dev/sda trim 0 1048576\n/dev/sda close\n",
            &[
                (0, 0, Write, 4_096, 8_192),
                (250_000_000, 1, Read, 0, 512),
                (250_000_000, 0, Flush, 0, 0),
                (900_000_000, 0, Discard, 0, 1 << 20),
            ],
        ),
        sample(
            "fio 3",
            Format::Fio,
            "fio version 3 iolog\n0 f add\n4 f open\n103 f read 4096 4096\n151 f sync 0 0\n160 f close\n",
            &[(0, 0, Read, 4_096, 4_096), (48_000, 0, Flush, 0, 0)],
        ),
        sample(
            "csv",
            Format::Csv,
            "time_us,op,offset,length\n10,R,4096,512\n12.5,write,0,1024\n13,D,0,4096\n14,F,,\n",
            &[
                (0, 0, Read, 4_096, 512),
                (2_500, 0, Write, 0, 1_024),
                (3_000, 0, Discard, 0, 4_096),
                (4_000, 0, Flush, 0, 0),
            ],
        ),
        sample(
            "csv in another dress",
            Format::Csv,
            "\u{feff}\"volume\";\"sectors\";\"comment\";\"op\";\"sector\";\"Time_s\"\r\n\
             \"7\";\"8\";\"a;b\";\"Read\";\"16\";\"1e-05\"\r\n3;1;;W;0;0.00002\r\n",
            &[(0, 7, Read, 8_192, 4_096), (10_000, 3, Write, 0, 512)],
        ),
        sample(
            "tab-separated",
            Format::Csv,
            "time_ns\top\toffset\tlength\n5\tr\t0\t1\n6\tFLUSH\t0\t0\n",
            &[(0, 0, Read, 0, 1), (1, 0, Flush, 0, 0)],
        ),
    ]
}

/// Tables that others publish.
fn published() -> Vec<Sample> {
    vec![
        sample(
            "k5cloud",
            Format::K5cloud,
            "1274,0.000100,W,4096,8192\n12,0.5001,R,0,512\n",
            &[(0, 1274, Write, 4_096, 8_192), (500_000_000, 12, Read, 0, 512)],
        ),
        sample(
            "camelab",
            Format::Camelab,
            "1 R 100 4 0.000000\n1 R 102 4 0.001000\n1 W 200 8 0.002000\n",
            &[(0, 0, Read, 51_200, 2_048), (1_000_000, 0, Read, 52_224, 2_048), (2_000_000, 0, Write, 102_400, 4_096)],
        ),
        sample(
            "simplessd",
            Format::Simplessd,
            "1 0 48 W\n200 80 8 W\n15000 80 8 R\n",
            &[(0, 0, Write, 0, 24_576), (199, 0, Write, 40_960, 4_096), (14_999, 0, Read, 40_960, 4_096)],
        ),
        sample(
            "blkparse with nanoseconds, sector, sectors and letters",
            Format::Simplessd,
            "1427376394 274432 8 WS\n1428376394 8 16 RAM\n",
            &[(0, 0, Write, 274_432 * 512, 4_096), (1_000_000, 0, Read, 4_096, 8_192)],
        ),
        sample(
            "thesios",
            Format::Thesios,
            "filename,file_offset,application,op_type,cache_hit,request_io_size_bytes,start_time\n\
             1002466513447037024,8388608,bigtable,READ,0,65536,1705305600.000312\n\
             7702466513447037024,0,spanner,WRITE,0,4096,1705305600.010312\n",
            &[(0, 0, Read, 8 << 20, 65_536), (10_000_000, 1, Write, 0, 4_096)],
        ),
        sample(
            "tectonic",
            Format::Tectonic,
            "# block_id io_offset io_size op_time op_name user_namespace\n\
             102644117 4063232 131072 1570147200.017 1 6\n99644117 0 8388608 1570147201.217 3 6\n",
            &[(0, 0, Read, 4_063_232, 131_072), (1_200_000_000, 1, Write, 0, 8 << 20)],
        ),
        sample(
            "iotrace",
            Format::Iotrace,
            "\"header.sid\",\"header.timestamp\",\"io.lba\",\"io.len\",\"io.deviceId\",\"io.operation\"\n\
             1,1000000,274432,8,2049,Write\n2,2000000,8,16,2049,Read\n3,3000000,0,262144,2049,Discard\n",
            &[
                (0, 2049, Write, 274_432 * 512, 4_096),
                (1_000_000, 2049, Read, 4_096, 8_192),
                (2_000_000, 2049, Discard, 0, 128 << 20),
            ],
        ),
        sample(
            "flashnet",
            Format::Flashnet,
            "5.000,134,1,4096,8192,7.100,4096\n6.000,10,0,512,0,8.100,512\n",
            &[(0, 0, Read, 8_192, 4_096), (1_000_000, 0, Write, 0, 512)],
        ),
        sample(
            "fio's latency log",
            Format::FioLog,
            "7, 134000, 0, 4096, 8192, 0\n9, 1000000, 1, 512, 0, 0\n",
            &[(0, 0, Read, 8_192, 4_096), (1_134_000, 0, Write, 0, 512)],
        ),
        // Objects have slots of 4 KiB where they are read as blocks.
        sample(
            "ibm-cos",
            Format::IbmCos,
            "0 REST.PUT.OBJECT 17 1056\n9 REST.HEAD.OBJECT 18 528\n32 REST.GET.OBJECT 18 9000 0 8999\n40 REST.DELETE.OBJECT 17\n",
            &[
                (0, 0, Write, 17 << 12, 1_056),
                (32_000_000, 0, Read, 18 << 12, 4_096),
                (40_000_000, 0, Discard, 17 << 12, 0),
            ],
        ),
        sample(
            "ibm-cos-csv",
            Format::IbmCosCsv,
            "# timestamp (ms), op type [Put:0, Get:1, Delete:2, Head: 3, Copy: 4], object id, object size (byte)\n\
             0,1,10,8371\n103,0,11,31\n",
            &[(0, 0, Read, 10 << 12, 4_096), (103_000_000, 0, Write, 11 << 12, 31)],
        ),
        sample(
            "twitter",
            Format::Twitter,
            "5,17,17,213,4,get,0\n6,18,27,27,6,set,86400\n",
            &[(0, 0, Read, 17 << 12, 230), (1_000_000_000, 0, Write, 18 << 12, 54)],
        ),
        sample(
            "meta-kv",
            Format::MetaKv,
            "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase\n\
             1679090400,21,34,GET_LEASE,2,0,0,0,1,1\n1679090401,21,34,SET_LEASE,1,66,0,86400,1,1\n",
            &[(0, 0, Read, 21 << 12, 34), (0, 0, Read, 21 << 12, 34), (1_000_000_000, 0, Write, 21 << 12, 100)],
        ),
        sample(
            "meta-kv-1",
            Format::MetaKv1,
            "key,op,size,op_count,key_size\n57,SET,82,1,40\n57,GET,0,1,40\n",
            &[(0, 0, Write, 57 << 12, 122), (1_000, 0, Read, 57 << 12, 40)],
        ),
        sample(
            "meta-cdn",
            Format::MetaCdn,
            "timestamp,cacheKey,OpType,objectSize,responseSize,rangeStart\n1678863569,1001,1,54321,54321,-\n1678863570,7,1,9,9,-\n",
            &[(0, 0, Read, 1_001 << 12, 4_096), (1_000_000_000, 0, Read, 7 << 12, 9)],
        ),
    ]
}

fn linux() -> Vec<Sample> {
    // The same two requests, as `blkparse -f` prints them.
    let custom = [(0, SDA | 16, Write, 274_432 * 512, 4_096), (1_000_000, SDA | 16, Read, 4_096, 8_192)];
    let mut samples = vec![
        sample(
            "blkparse",
            Format::Blkparse,
            "  8,0    3        1     0.000000000   697  A   W 223490 + 8 <- (8,8) 223458\n\
             \x20 8,0    3        2     0.000001829   697  Q   W 223490 + 8 [kjournald]\n\
             \x20 8,0    3        3     0.000005213   697  G   W 223490 + 8 [kjournald]\n\
             \x20 8,0    3        4     0.000010000   697  D   W 223490 + 8 [kjournald]\n\
             \x20 8,0    1        1     0.001001829   698  Q FWFSM 100 + 8 [jbd2/sda1-8]\n\
             \x20 8,0    1        2     0.001101829   698  Q FWS [jbd2/sda1-8]\n\
             \x20 8,0    1        3     0.001201829   698  P   N [jbd2/sda1-8]\n\
             \x20 8,0    1        4     0.001201830   698  U   N [jbd2/sda1-8] 1\n\
             \x20 8,0    1        5     0.001201831     0  m   N cfq698 slice expired t=0\n\
             \x20 8,0    1        6     0.002001829   698  Q   D 2048 + 2048 [fstrim]\n\
             \x20 8,0    1        7     0.002101829     0  C   W 223490 + 8 [0]\n\
             CPU0 (8,0):\n Reads Queued:           0,        0KiB\n\nThroughput (R/W): 0KiB/s / 4KiB/s\n",
            &[
                (0, SDA, Write, 223_490 * 512, 4_096),
                (1_000_000, SDA, Flush, 0, 0),
                (1_000_000, SDA, Write, 51_200, 4_096),
                (1_100_000, SDA, Flush, 0, 0),
                (2_000_000, SDA, Discard, 1 << 20, 1 << 20),
            ],
        ),
        sample(
            "blkparse of a driver trace",
            Format::Blkparse,
            "  8,16   0        1     5.000000000     0  C   R 8 + 8 [0]\n\
             \x20 8,16   0        2     5.000001000   100  D   R 16 + 8 [fio]\n\
             \x20 8,16   0        3     5.000002000   100  D   R 36 (12 00 00 00 24 00) [smartd]\n\
             \x20 8,16   0        4     5.000003000   100  D FFN [kworker/0:1H]\n",
            &[(0, SDA | 16, Read, 8_192, 4_096), (2_000, SDA | 16, Flush, 0, 0)],
        ),
        sample(
            "ftrace",
            Format::Ftrace,
            "# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n\
             \x20 block_bio_queue: -15776   [001] .....  7079.382691: block_bio_queue: 7,0 RM 20971776 + 8 [x]\n\
             \x20             rm-15776   [001] .....  7079.382700: block_rq_issue: 7,0 RM 4096 () 20971776 + 8 none,0,0 [rm]\n\
             CPU:0 [LOST 3 EVENTS]\n\
             \x20   jbd2/loop0-8-5856    [000] d..1.  7084.397774: sched_switch: prev_comm=x\n\
             \x20   jbd2/loop0-8-5856    [000] .....  7084.397774: block_bio_queue: 7,0 FWFSM 8 + 8 [jbd2/loop0-8]\n",
            &[
                (0, 7 << 20, Read, 20_971_776 * 512, 4_096),
                (5_015_083_000, 7 << 20, Flush, 0, 0),
                (5_015_083_000, 7 << 20, Write, 4_096, 4_096),
            ],
        ),
        sample(
            "trace-cmd of issues",
            Format::Ftrace,
            "cpus=2\n             fio-1234  [002]  1234.567890123: block_rq_issue:       8,0 W 4096 () 1024 + 8 [fio]\n\
             \x20         <idle>-0     [002]  1234.567899123: block_rq_complete:    8,0 W () 1024 + 8 [0]\n\
             \x20            fio-1234  [002]  1234.567890124: block_rq_issue:       8,0 FF 0 () 18446744073709551615 + 0 [fio]\n",
            &[(0, SDA, Write, 1 << 19, 4_096), (1, SDA, Flush, 0, 0)],
        ),
        sample(
            "perf script",
            Format::Ftrace,
            "fio  1234 [002]  1234.567890:      block:block_bio_queue: 8,0 WS 1024 + 8 [fio]\n\
             \tffffffff8148c1 submit_bio+0x1 ([kernel.kallsyms])\n\n\
             fio  1234 [002]  1234.567891:      block:block_bio_queue: 8,0 DS 0 + 2048 [fio]\n",
            &[(0, SDA, Write, 1 << 19, 4_096), (1_000, SDA, Discard, 0, 1 << 20)],
        ),
        sample(
            "biosnoop",
            Format::Biosnoop,
            "TIME(s)        COMM           PID    DISK    T  SECTOR    BYTES   LAT(ms)\n\
             0.004000000    dd             24852  sda     W  26236512  8192       3.00\n\
             0.004329000    supervise 1    809    sdb     RM 13092560  4096       0.23\n\
             0.006000000    ?              0              R  0         8          1.00\n",
            &[
                (0, 0, Write, 26_236_512 * 512, 8_192),
                (3_099_000, 1, Read, 13_092_560 * 512, 4_096),
                (4_000_000, 2, Read, 0, 8),
            ],
        ),
        sample(
            "biosnoop of libbpf-tools with the time of day",
            Format::Biosnoop,
            "TIMESTAMP    COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)\n\
             17:58:57.814 mount          163467  sde     WSM  41944043   524288  0.578   1.422\n\
             17:58:57.815 mount          163467  sde     WSM  41945067   524288  0.500   1.500\n",
            &[(0, 0, Write, 41_944_043 * 512, 524_288), (1_000_000, 0, Write, 41_945_067 * 512, 524_288)],
        ),
    ];
    for (name, text) in [
        ("blkparse without processes", "8,16 1 1 1.427376394 Q WS 274432 + 8\n8,16 1 2 1.428376394 Q R 8 + 16\n"),
        ("blkparse with commas", "8,16,1,1,1.427376394,5529,Q,WS,274432,8\n8,16,1,2,1.428376394,5529,Q,R,8,16\n"),
        ("blkparse in bytes", "8,16 1 1 1.427376394 5529 Q WS 274432 4096\n8,16 1 2 1.428376394 5529 Q R 8 8192\n"),
    ] {
        samples.push(sample(name, Format::Blkparse, text, &custom));
    }
    samples
}

fn binary() -> Vec<Sample> {
    let vscsi_rows = [(0, 0, Write, 8_192, 512), (28_000, 0, Read, 4_096, 6_656), (29_000, 0, Flush, 0, 0)];
    let blktrace_rows = [
        (0, SDA, Write, 223_490 * 512, 4_096),
        (1_000_000, SDA, Flush, 0, 0),
        (1_000_000, SDA, Write, 51_200, 4_096),
        (2_000_000, SDA, Discard, 1 << 20, 1 << 20),
    ];
    // Block, length, SCSI command, µs; 0x12 is an inquiry.
    let commands = [(16u64, 512u32, 0x2au16, 10u64), (0, 36, 0x12, 11), (8, 6_656, 0x28, 38), (0, 0, 0x35, 39)];
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for (serial, (block, length, command, us)) in (0u32..).zip(commands) {
        let words = |out: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|word| out.extend(word.to_le_bytes()));
        words(&mut one, &[serial, length, 1, u32::from(command) | 0x0100 << 16]);
        one.extend(block.to_le_bytes().into_iter().chain(us.to_le_bytes()));
        words(&mut two, &[u32::from(command) | 0x0200 << 16, serial, length, 1]);
        two.extend(block.to_le_bytes().into_iter().chain(us.to_le_bytes()).chain(7u64.to_le_bytes()));
    }
    let mut recorded = peryton_recording::Rows::default();
    // Recorded when they are answered: the second arrived first, and was to be durable.
    for (at, op, flags, offset, len) in [
        (9_000, Read, Flags::NONE, 8_192, 512),
        (7_000, Write, Flags::DURABLE, 0, 4_096),
        (9_500, Flush, Flags::NONE, 0, 0),
    ] {
        let (at, offset, len) = (Nanos(at), Bytes(offset), Bytes(len));
        recorded.push(&peryton_recording::Row { at, op, flags, offset, len, latency: Nanos(1_000) });
    }
    let recording = [
        chunk::chunk(chunk::HEAD, 0, 0, b"{}"),
        chunk::chunk(chunk::REQUESTS, 1, 0, &recorded.take()),
        chunk::chunk(chunk::END, 2, 0, b"{}"),
    ];
    let mut oracle = Vec::new();
    for (seconds, object, size, next) in
        [(5u32, 7u64, 4_096u32, 2i64), (5, 1 << 40, 100_000, -1), (9, 7, 512, i64::MAX)]
    {
        oracle.extend(seconds.to_le_bytes());
        oracle.extend(object.to_le_bytes());
        oracle.extend(size.to_le_bytes());
        oracle.extend(next.to_le_bytes());
    }
    let lcs_header = |version: u64, len: usize| {
        let magic = 0x1234_5678_9abc_def0u64.to_le_bytes();
        let mut header = [&magic[..], &version.to_le_bytes()].concat();
        header.resize(len - 8, 0);
        header.extend(magic);
        header
    };
    let mut lcs_1 = lcs_header(1, 1_024);
    lcs_1.extend(&oracle);
    let mut lcs_3 = lcs_header(3, 8_192);
    let mut lcs_5 = lcs_header(5, 8_192);
    // A read, a set of tenant 7, and a deletion.
    for (seconds, object, size, op) in [(5u32, 7u64, 4_096i64, 1u32), (6, 8, 100_000, 3 | 7 << 8), (9, 7, 512, 9)] {
        let mut record = seconds.to_le_bytes().to_vec();
        record.extend(object.to_le_bytes());
        record.extend(size.to_le_bytes());
        record.extend(op.to_le_bytes());
        record.extend(60u32.to_le_bytes());
        record.extend((-1i64).to_le_bytes());
        lcs_3.extend(&record);
        lcs_5.extend(record.into_iter().chain([1, 0, 0, 0, 2, 0, 0, 0]));
    }
    let objects = [(0, 0, Read, 28_672, 4_096), (0, 0, Read, 1 << 52, 4_096), (4_000_000_000, 0, Read, 28_672, 512)];
    let kinds = [
        (0, 0, Read, 28_672, 4_096),
        (1_000_000_000, 0, Write, 32_768, 4_096),
        (4_000_000_000, 0, Discard, 28_672, 512),
    ];
    vec![
        sample(
            "recording",
            Format::Recording,
            recording.concat(),
            &[(0, 0, Write, 0, 4_096), (0, 0, Flush, 0, 0), (2_000, 0, Read, 8_192, 512), (2_500, 0, Flush, 0, 0)],
        ),
        sample("lcs 1 with the older header", Format::Lcs, lcs_1, &objects),
        sample("lcs 3", Format::Lcs, lcs_3, &kinds),
        sample("lcs 5", Format::Lcs, lcs_5, &kinds),
        sample("vscsi 1", Format::Vscsi, one, &vscsi_rows),
        sample("vscsi 2", Format::Vscsi, two, &vscsi_rows),
        sample("blktrace", Format::Blktrace, blktrace(7, false), &blktrace_rows),
        sample("blktrace of a big-endian machine", Format::Blktrace, blktrace(7, true), &blktrace_rows),
        sample("blktrace 8", Format::Blktrace, blktrace(8, false), &blktrace_rows),
        sample("blktrace 8 of a big-endian machine", Format::Blktrace, blktrace(8, true), &blktrace_rows),
        sample("oracle-general", Format::OracleGeneral, oracle, &objects),
    ]
}

/// A notification, queue, issue and completion events, and a command of a program.
pub fn blktrace(version: u8, big_endian: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let (write, flush, queue, issue) = (1u32 << 17, 1u32 << 18, 1u32 << 20, 1u32 << 22);
    let (complete, pc, notify, discard) = (1u32 << 23, 1u32 << 25, 1u32 << 26, 1u32 << 29);
    for (time, sector, bytes, action, pdu) in [
        (1_000u64, 0u64, 0u32, notify, &b"kjournald"[..]),
        (1_829, 223_490, 4_096, 1 | queue | write, b""),
        (1_900, 223_490, 4_096, 7 | issue | write, b""),
        (1_001_829, 100, 4_096, 1 | queue | write | flush, b"12345678"),
        (1_001_830, 0, 36, 1 | queue | pc, b"\x12\0\0\0\x24\0"),
        (1_001_999, 223_490, 4_096, 8 | complete | write, b""),
        // Bit 8: a control group's id follows.
        (2_001_829, 2_048, 1 << 20, 1 | 1 << 8 | queue | write | discard, b""),
    ] {
        let mut put = |value: u64, size: usize| {
            if big_endian {
                out.extend(&value.to_be_bytes()[8 - size..])
            } else {
                out.extend(&value.to_le_bytes()[..size])
            }
        };
        put(0x6561_7400 | u64::from(version), 4);
        put(1, 4);
        put(time, 8);
        put(sector, 8);
        put(u64::from(bytes), 4);
        // Version 8 has a wider action, and the process before it.
        if version == 7 {
            put(u64::from(action), 4);
            put(697, 4);
        } else {
            put(697, 4);
            put(u64::from(action), 8);
        }
        put(u64::from(SDA), 4);
        put(3, 4);
        put(0, 2);
        put(pdu.len() as u64, 2);
        if version == 8 {
            out.extend([0; 12]);
        }
        out.extend(pdu);
    }
    out
}
