//! Tables that are no known format: read by their columns, doubted where numbers are many things, and refused with a guess.

use std::io::Cursor;

use peryton_trace::{Format, ObjectCharacteristics, ObjectRequest, OpenOptions, Request, Source, read};
use peryton_units::{Bytes, Nanos, Op};

fn options(columns: &str, units: &str) -> OpenOptions {
    let columns = if columns.is_empty() { None } else { Some(columns.parse().unwrap()) };
    OpenOptions { columns, units: units.parse().unwrap(), ..OpenOptions::default() }
}

fn requests(text: &str, options: &OpenOptions) -> Result<Vec<Request>, String> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    let mut reader =
        read("t", Cursor::new(text.to_owned().into_bytes()), options).map_err(|error| error.to_string())?;
    loop {
        reader.next_batch(&mut batch).map_err(|error| error.to_string())?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.append(&mut batch);
    }
}

fn objects(text: &str, options: &OpenOptions) -> Vec<ObjectRequest> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    let mut objects = read("t", Cursor::new(text.to_owned().into_bytes()), options).unwrap().into_objects().unwrap();
    loop {
        objects.next_batch(&mut batch).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.append(&mut batch);
    }
}

fn row(at: u64, volume: u32, op: Op, offset: u64, len: u64) -> Request {
    Request { at: Nanos(at), offset: Bytes(offset), len: Bytes(len), volume, op }
}

#[test]
fn one_table_in_every_dress_is_one_trace() {
    let expected = [row(0, 0, Op::Write, 8_192, 4_096), row(250_000, 1, Op::Read, 0, 512)];
    let units = "time=ms,offset=sectors,size=sectors";
    let by_number = "time=1,op=3,offset=4,size=5,volume=2";
    let from_the_end = "time=1,op=-3,offset=-2,size=-1,volume=2";
    for (text, columns) in [
        (
            "when,disk,what,lba,blocks\n0.5,sda,W,16,8\n0.75,sdb,read,0,1\n",
            "time=when,op=what,offset=lba,size=blocks,volume=disk",
        ),
        (
            "WHEN;disk;what;lba;blocks;note\n0.5;sda;W;16;8;a,b\n0.75;sdb;read;0;1;\n",
            "time=when,op=what,offset=LBA,size=blocks,volume=disk",
        ),
        (
            "\"when\",\"disk\",\"what\",\"lba\",\"blocks\"\n0.5,\"sda\",W,16,8\n0.75,sdb,read,0,1\n",
            "time=when,op=what,offset=lba,size=blocks,volume=disk",
        ),
        (
            "when disk what lba blocks\n0.5 sda W 16 8\n0.75   sdb read 0 1\n",
            "time=when,op=what,offset=lba,size=blocks,volume=disk",
        ),
        ("0.5\tsda\tW\t16\t8\n0.75\tsdb\tread\t0\t1\n", by_number),
        ("0.5 sda W 16 8\n0.75 sdb read 0 1\n", by_number),
        ("when disk what lba blocks\n0.5 sda W 16 8\n0.75 sdb read 0 1\n", by_number),
        ("0.5 sda a process W 16 8\n0.75 sdb x read 0 1\n", from_the_end),
        ("# a comment\n0.5,sda,W,16,8\n\n# another\n0.75,sdb,read,0,1\n", by_number),
    ] {
        assert_eq!(requests(text, &options(columns, units)).as_deref(), Ok(&expected[..]), "{text}");
    }
}

#[test]
fn a_header_names_what_is_not_given() {
    // A hash is no number of a volume, so volumes are named.
    let text =
        "volume,offset,op,length,time_s\n1002466513447037024,8192,READ,4096,5.5\n7702466513447037024,0,WRITE,512,6\n";
    let expected = [row(0, 0, Op::Read, 8_192, 4_096), row(500_000_000, 1, Op::Write, 0, 512)];
    assert_eq!(requests(text, &OpenOptions::default()).unwrap(), expected);
    let renamed = text.replace("time_s", "began");
    assert_eq!(requests(&renamed, &options("time=began", "time=s")).unwrap(), expected);
    let named = OpenOptions { volumes: Some(vec!["7702466513447037024".to_owned()]), ..OpenOptions::default() };
    assert_eq!(requests(text, &named).unwrap(), [row(0, 1, Op::Write, 0, 512)]);
    let message = requests(text, &OpenOptions { volumes: Some(vec!["7".to_owned()]), ..named }).unwrap_err();
    assert!(message.contains("the trace has volumes 1002466513447037024, 7702466513447037024"), "{message}");
}

#[test]
fn what_a_table_leaves_open_is_asked() {
    for (text, columns, units, part) in [
        ("t,o,s,n\n1,R,0,512\n", "time=t,op=o,offset=s,size=n", "", "--unit time="),
        ("t,o,s,n\n1,R,0,512\n", "time=t,op=o,offset=s,size=len", "time=us", "no column len"),
        ("t,o,s,n\n1,1,0,512\n", "time=t,op=o,offset=s,size=n", "time=us", "--unit op=read:1+write:0"),
        ("t,o,s\n1,R,0\n", "time=t,op=o,offset=s", "time=us", "--columns size="),
        ("t,o,s,n\n1,R,0\n", "time=t,op=o,offset=s,size=n", "time=us", "t:2: fewer columns"),
        ("t o s n\n1 R 0 512 x\n", "time=t,op=o,offset=s,size=n", "time=us", "t:2: 5 columns, not 4"),
    ] {
        let message = requests(text, &options(columns, units)).unwrap_err();
        assert!(message.contains(part) && !message.contains('\n'), "{message}");
    }
}

/// The fear: five numbers in a line are taken for DiskSim's, ids for devices and bytes for sectors.
#[test]
fn what_looks_like_disksim_is_doubted() {
    let lines = |line: fn(u64) -> String| (0..200).map(line).collect::<String>();
    let objects =
        lines(|n| format!("{n} {} {} 1 0\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51, 500 + n * 37 % 9_000));
    let message = requests(&objects, &OpenOptions::default()).unwrap_err();
    assert!(
        message.contains("might be disksim, but there would be") && message.contains("--columns time=1"),
        "{message}"
    );
    let bytes = lines(|n| format!("{}.500 0 {} 4096 {}\n", n, n * 4096, n % 2));
    let message = requests(&bytes, &OpenOptions::default()).unwrap_err();
    assert!(
        message.contains("as if they were bytes") && message.contains("--unit offset=bytes,size=bytes"),
        "{message}"
    );
    let read = requests(&bytes, &options("", "offset=bytes,size=bytes")).unwrap();
    assert_eq!((read.len(), read[1]), (200, row(1_000_000, 0, Op::Read, 4_096, 4_096)));
    assert_eq!(
        requests(&bytes, &OpenOptions { format: Some(Format::Replayer), ..OpenOptions::default() }).unwrap(),
        read
    );
    // Who names the format, or whose trace is plausible, is not asked.
    let named = OpenOptions { format: Some(Format::Disksim), ..OpenOptions::default() };
    assert_eq!(requests(&bytes, &named).unwrap()[1].len, Bytes::mib(2));
    let good = lines(|n| format!("{} {} {} 8 {}\n", n * 100_000, n % 3, n * 977, n % 2));
    assert_eq!(requests(&good, &OpenOptions::default()).unwrap().len(), 200);
}

#[test]
fn a_table_without_a_format_shows_its_first_line_and_a_guess() {
    let text = "17.5 W 8192 4096 x\n18.5 R 0 512 y\n19.5 R 512 512 z\n";
    let message = requests(text, &OpenOptions::default()).unwrap_err();
    assert!(message.contains("(starts with '17.5 W 8192 4096 x')"), "{message}");
    assert!(message.contains("--columns time=1,op=2,offset=3,size=4") && !message.contains('\n'), "{message}");
    let bpftrace = "Attaching 3 probes...\nTIME(ms)     DISK    COMM             PID    LAT(ms)\n611          nvme0n1 bash   4179        10\n";
    let message = requests(bpftrace, &OpenOptions::default()).unwrap_err();
    assert!(message.contains("neither places nor sizes") && message.contains("biosnoop of bcc"), "{message}");
}

#[test]
fn a_trace_of_objects_has_ids_and_whole_sizes() {
    let webcachesim = OpenOptions { format: Some(Format::Webcachesim), ..OpenOptions::default() };
    let found = objects("1 1950 77878 1 1\n2 4948 62335 0 0\n", &webcachesim);
    let object = |at, id, size| ObjectRequest { at: Nanos(at), id, size: Bytes(size), op: Op::Read };
    assert_eq!(found, [object(0, 1950, 77_878), object(1_000_000_000, 4948, 62_335)]);
    assert_eq!(objects("1950\n4948\n", &options("id=1", "")), [object(0, 1950, 1), object(1_000, 4948, 1)]);
    // Words are objects too, and the same word is the same object.
    let found = objects(
        "0 REST.GET.OBJECT 8d4fcda3d675bac9 9000\n1 REST.GET.OBJECT 39d1 5\n2 REST.GET.OBJECT 8d4fcda3d675bac9 9000\n",
        &OpenOptions::default(),
    );
    assert!(found[0].id == found[2].id && found[0].id != found[1].id);
    let message = read("t", &b"8,0 1 1 1.0 5 Q R 8 + 8 [x]\n"[..], &OpenOptions::default()).unwrap().into_objects();
    assert!(message.err().unwrap().to_string().contains("blkparse has blocks, not objects"));
}

/// The fear: sizes of a wrong column end the program, because their sum does not fit.
#[test]
fn sums_of_the_largest_objects_are_the_largest_number() {
    let (options, largest) = (OpenOptions { format: Some(Format::Webcachesim), ..OpenOptions::default() }, i64::MAX);
    let text: String = (1..=3).map(|id| format!("{id} {id} {largest} 1 1\n")).collect();
    let open = || read("t", Cursor::new(text.clone().into_bytes()), &options).unwrap();
    let (mut reader, mut batch) = (open(), Vec::new());
    reader.next_batch(&mut batch).unwrap();
    assert_eq!((batch.len(), reader.account().cut_bytes), (3, Bytes(u64::MAX)));
    let found = ObjectCharacteristics::of(&mut open().into_objects().unwrap()).unwrap();
    assert_eq!((found.bytes_read, found.footprint_bytes), (u64::MAX, u64::MAX));
}

/// The fear: one sample in four formats has four totals.
#[test]
fn objects_of_one_sample_agree_in_every_format() {
    let sample: Vec<(u32, u64, u32)> =
        (0..500).map(|n| (n / 7, u64::from(n) * 7_919 % 97, 512 + n * 331 % 60_000)).collect();
    let (mut oracle, mut csv, mut text) = (Vec::new(), "time_s,id,length\n".to_owned(), String::new());
    for (seconds, id, size) in &sample {
        oracle.extend(seconds.to_le_bytes());
        oracle.extend(id.to_le_bytes());
        oracle.extend(size.to_le_bytes());
        oracle.extend((-1i64).to_le_bytes());
        csv += &format!("{seconds},{id},{size}\n");
        text += &format!("{seconds} {id} {size}\n");
    }
    let mut totals = Vec::new();
    for (bytes, options) in [
        (oracle, OpenOptions::default()),
        (csv.into_bytes(), options("id=id", "")),
        (text.into_bytes(), options("time=1,id=2,size=3", "time=s")),
    ] {
        let mut found = read("t", Cursor::new(bytes.clone()), &options).unwrap().into_objects().unwrap();
        let mut batch = Vec::new();
        found.next_batch(&mut batch).unwrap();
        totals.push((batch.len(), batch.iter().map(|request| request.size.0).sum::<u64>(), batch[499].at));
        // On a drive they are cut, and that is counted.
        let mut blocks = read("t", Cursor::new(bytes), &options).unwrap();
        blocks.next_batch(&mut Vec::new()).unwrap();
        let account = blocks.account();
        let larger = sample.iter().filter(|request| request.2 > 4_096);
        assert_eq!(account.cut, larger.clone().count() as u64);
        assert_eq!(account.cut_bytes.0, larger.map(|request| u64::from(request.2) - 4_096).sum::<u64>());
        assert!(
            account.remarks().iter().any(|remark| remark.message.contains("were cut to it")),
            "{:?}",
            account.remarks()
        );
    }
    let bytes: u64 = sample.iter().map(|request| u64::from(request.2)).sum();
    assert_eq!(totals, [(500, bytes, Nanos::from_ms(71_000)); 3]);
}
