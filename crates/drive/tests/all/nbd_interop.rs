//! Clients of other projects: libnbd, qemu and fio from Debian's packages (`make test` installs them, as root). If a
//! tool is missing, the test prints its name and is skipped.

use crate::tools;

use std::{
    env,
    fs::{self, Permissions},
    io::{Read, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::nbd_client::client::{go_data, option_bytes, request_bytes};
use peryton_drive::{
    DevicePath, Endpoint, Handle, Service, Settings, Summary, TlsFiles, Tuner, VolumeSpec, format,
    nbd::wire::{command, option},
};
use peryton_engine::{Config, DeviceId, Hybrid, Logging, Placement, Tuning, WritePolicy};
use peryton_units::{Bytes, Nanos};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tempfile::TempDir;

const FAST: DeviceId = DeviceId(0);
const SLOW: DeviceId = DeviceId(1);

fn hybrid() -> Hybrid {
    Hybrid { fast: FAST, slow: SLOW, extent: Bytes::kib(64) }
}

fn placements() -> Vec<(&'static str, Placement, WritePolicy)> {
    let logging = Logging { primaries: SLOW.into(), log: FAST, block: Bytes::kib(4) };
    vec![
        ("single", Placement::Single { device: SLOW }, WritePolicy::Back),
        ("linear", Placement::Linear { devices: vec![FAST, SLOW] }, WritePolicy::Back),
        ("tiering", Placement::Tiering(hybrid()), WritePolicy::Back),
        ("caching-back", Placement::Caching(hybrid()), WritePolicy::Back),
        ("caching-through", Placement::Caching(hybrid()), WritePolicy::Through),
        ("caching-around", Placement::Caching(hybrid()), WritePolicy::Around),
        ("partitioned", Placement::Partitioned(hybrid()), WritePolicy::Back),
        ("logging", Placement::Logging(logging), WritePolicy::Back),
    ]
}

/// Applies `key=value` settings for the keys that the tests use.
fn tuned(base: &Tuning, settings: &[String]) -> Result<Tuning, String> {
    let mut tuning = base.clone();
    for setting in settings {
        let (key, value) = setting.split_once('=').ok_or("key=value")?;
        let value: u32 = value.parse().map_err(|_| "a number")?;
        match key {
            "max_moves" => tuning.max_moves = value,
            "threshold" => tuning.promotion_threshold = value,
            "low" => (tuning.demotion_low, tuning.demotion_high) = (value, value + 8),
            "delay_ms" => tuning.writeback_delay = Nanos::from_ms(u64::from(value)),
            _ => return Err(format!("{key}: unknown")),
        }
    }
    Ok(tuning)
}

/// A drive on two sparse files that is being served.
struct Drive {
    directory: TempDir,
    endpoint: Endpoint,
    size: u64,
    handle: Handle,
    served: thread::JoinHandle<Summary>,
}

impl Drive {
    /// Serves on a unix socket; the fast device has 8 MiB, the slow one is larger than the longest request.
    fn serve(placement: Placement, write: WritePolicy) -> Drive {
        Drive::serve_at(placement, write, Bytes::mib(40), None)
    }

    /// Serves with a slow device of 16 MiB.
    fn serve_small(placement: Placement, write: WritePolicy) -> Drive {
        Drive::serve_at(placement, write, Bytes::mib(16), None)
    }

    /// Serves over TCP with TLS if there are certificates, otherwise on a unix socket.
    fn serve_at(placement: Placement, write: WritePolicy, slow: Bytes, tls: Option<TlsFiles>) -> Drive {
        let directory = tempfile::tempdir().unwrap();
        let tuning = Tuning { promotion_threshold: 1, demotion_low: 8, demotion_high: 16, write, ..Tuning::default() };
        let base = tuning.clone();
        let path = |name: &str| DevicePath { name: name.to_owned(), path: directory.path().join(name) };
        let spec = VolumeSpec {
            name: "volume".to_owned(),
            config: Config { devices: vec![Bytes::mib(8), slow], placement, tuning },
            devices: vec![path("fast"), path("slow")],
            process_death: peryton_drive::ProcessDeath::Off,
            rotational: true,
            tuner: Some(Tuner::new(move |settings| tuned(&base, settings))),
        };
        format(&spec, false).unwrap();
        let endpoint = match tls {
            Some(_) => Endpoint::Tcp("127.0.0.1:0".to_owned()),
            None => Endpoint::Unix(directory.path().join("nbd")),
        };
        let settings = Settings { tls, ..Settings::default() };
        let service = Service::open(&spec, &endpoint, settings).unwrap();
        let (handle, endpoint, size) = (service.handle(), service.endpoint(), service.size().0);
        let served = thread::spawn(move || service.run().unwrap());
        Drive { directory, endpoint, size, handle, served }
    }

    fn socket(&self) -> &Path {
        match &self.endpoint {
            Endpoint::Unix(path) => path,
            Endpoint::Tcp(address) => panic!("{address} is no socket"),
        }
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///volume?socket={}", self.socket().display())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn stop(self) -> Summary {
        self.handle.stop();
        self.served.join().unwrap()
    }
}

/// Whether a tool is installed and starts; prints a line if not.
fn has(tool: &str, arguments: &[&str]) -> bool {
    let there = Command::new(tool).args(arguments).env("PATH", path()).output().is_ok_and(|out| out.status.success());
    if !there {
        println!("skipped: {tool} is not installed");
    }
    there
}

/// A search path in which Debian's Python, which has Debian's libnbd, comes first.
fn path() -> String {
    format!("/usr/bin:{}", env::var("PATH").unwrap_or_default())
}

/// Runs a tool, for two minutes at most.
fn run(tool: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["120", tool]).args(arguments).env("PATH", path());
    command.output().unwrap()
}

/// Runs a tool that must succeed, and returns what it prints.
fn done(tool: &str, arguments: &[&str]) -> String {
    tools::out_of(tool, arguments, &run(tool, arguments))
}

/// A file of random data with holes.
fn image(path: &Path, size: u64) {
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let blocks = size / 65_536;
    let mut bytes = vec![0; size as usize];
    for block in (0..blocks).filter(|block| block % 5 != 0) {
        bytes[(block * 65_536) as usize..][..60_000].fill_with(&mut noise);
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    if !has("nbdinfo", &["--version"]) {
        return;
    }
    let drive = Drive::serve(Placement::Tiering(hybrid()), WritePolicy::Back);
    let info: serde_json::Value = serde_json::from_str(&done("nbdinfo", &["--json", &drive.uri()])).unwrap();
    let export = &info["exports"][0];
    assert_eq!(info["protocol"], "newstyle-fixed");
    assert_eq!(info["structured"], true);
    assert_eq!(export["export-name"], "volume");
    assert_eq!(export["export-size"], drive.size);
    assert_eq!(export["contexts"], serde_json::json!(["base:allocation", "x-peryton:place"]));
    let offered =
        ["can_flush", "can_fua", "can_trim", "can_zero", "can_fast_zero", "can_cache", "can_df", "can_multi_conn"];
    for what in offered {
        assert_eq!(export[what], true, "{what} in {export}");
    }
    assert_eq!((&export["is_read_only"], &export["is_rotational"]), (&false.into(), &true.into()));
    assert_eq!(export["block_size_preferred"], 4096);
    let listed = done("nbdinfo", &["--list", &drive.uri()]);
    assert!(listed.contains("export=\"volume\""), "{listed}");
    let map: serde_json::Value = serde_json::from_str(&done("nbdinfo", &["--map", "--json", &drive.uri()])).unwrap();
    let last = map.as_array().unwrap().last().unwrap();
    assert_eq!(last["description"], "hole,zero", "a new drive is empty where no client wrote: {map}");
    let place = done("nbdinfo", &["--map=x-peryton:place", "--totals", &drive.uri()]);
    assert!(place.lines().all(|line| line.contains('%')) && place.contains("   0\n"), "{place}");
    let unknown = run("nbdinfo", &[&drive.uri().replace("volume", "other")]);
    let message = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(!unknown.status.success() && message.contains("export: other"), "{message}");
    drive.stop();
}

#[test]
fn nbdcopy_there_and_back_changes_nothing() {
    if !has("nbdcopy", &["--version"]) {
        return;
    }
    for (name, placement, write) in placements() {
        let drive = Drive::serve_small(placement, write);
        let (source, copy) = (drive.file("source"), drive.file("copy"));
        image(&source, drive.size);
        done("nbdcopy", &["--flush", source.to_str().unwrap(), &drive.uri()]);
        done("nbdcopy", &["--connections=2", &drive.uri(), copy.to_str().unwrap()]);
        assert!(fs::read(&source).unwrap() == fs::read(&copy).unwrap(), "{name}: the copy differs");
        done("nbdcopy", &["--synchronous", "--destination-is-zero", source.to_str().unwrap(), &drive.uri()]);
        drive.stop();
    }
}

#[test]
fn nbdsh_drives_the_edges() {
    if !has("nbdsh", &["-c", "h.get_version()"]) {
        return;
    }
    for (name, placement, write) in placements() {
        let drive = Drive::serve(placement, write);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/nbd_edges.py");
        let begin = format!("socket = {:?}\nsize = {}\n", drive.socket(), drive.size);
        let output = done("nbdsh", &["-c", &begin, "-c", &fs::read_to_string(script).unwrap()]);
        assert!(output.ends_with("all is well\n"), "{name}: {output}");
        drive.stop();
    }
}

#[test]
fn qemu_converts_compares_and_verifies_patterns() {
    if !has("qemu-img", &["--version"]) || !has("qemu-io", &["--version"]) {
        return;
    }
    for (name, placement, write) in placements() {
        let drive = Drive::serve_small(placement, write);
        let (uri, source, back) = (drive.uri(), drive.file("source"), drive.file("back"));
        let (source, back) = (source.to_str().unwrap(), back.to_str().unwrap());
        image(Path::new(source), drive.size);
        done("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", source, &uri]);
        done("qemu-img", &["compare", "-f", "raw", "-F", "raw", source, &uri]);
        done("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, back]);
        assert!(fs::read(source).unwrap() == fs::read(back).unwrap(), "{name}: the image differs");
        let map = done("qemu-img", &["map", "--output=json", "-f", "raw", &uri]);
        assert!(serde_json::from_str::<serde_json::Value>(&map).unwrap().is_array());
        let commands = [
            "write -P 0xab 1M 3M",
            "write -f -P 0xcd 1000 5000",
            "read -P 0xab 1M 3M",
            "read -P 0xcd 1000 5000",
            "write -z 2M 64k",
            "read -P 0 2M 64k",
            "write -z -u 3M 100k",
            "read -P 0 3M 100k",
            "discard 8M 4M",
            "aio_write -P 0x11 13M 1M",
            "aio_write -P 0x22 14M 1M",
            "aio_flush",
            "read -P 0x11 13M 1M",
            "read -P 0x22 14M 1M",
            "flush",
        ];
        let mut arguments = vec!["-f", "raw"];
        commands.iter().for_each(|command| arguments.extend(["-c", command]));
        arguments.push(&uri);
        let output = done("qemu-io", &arguments);
        assert!(!output.contains("verification failed") && !output.contains("error"), "{name}: {output}");
        drive.stop();
    }
}

#[test]
fn fio_verifies_every_placement_while_it_is_tuned() {
    if !has("fio", &["--enghelp=nbd"]) {
        return;
    }
    for (name, placement, write) in placements() {
        let drive = Drive::serve_small(placement, write);
        let ended = Arc::new(AtomicBool::new(false));
        let (handle, stop) = (drive.handle.clone(), Arc::clone(&ended));
        let turner = thread::spawn(move || {
            let mut turns = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                let settings = match turns % 4 {
                    0 => format!("max_moves={}", 1 + turns % 16),
                    1 => format!("threshold={}", turns % 5),
                    2 => format!("low={}", turns % 9),
                    _ => format!("delay_ms={}", turns * 37 % 200),
                };
                handle.set(vec![settings], vec![]).unwrap();
                turns += 1;
                thread::sleep(Duration::from_millis(20));
            }
            turns
        });
        let uri = format!("--uri={}", drive.uri());
        let verify = [
            "--verify=crc32c",
            "--verify_fatal=1",
            "--do_verify=1",
            "--randseed=7",
            "--verify_state_save=0",
            "--minimal",
        ];
        for job in [
            ["--name=small", "--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=12m"],
            ["--name=odd", "--rw=randwrite", "--bs=1536", "--iodepth=8", "--size=2m"],
            ["--name=mixed", "--rw=randrw", "--bs=16k", "--iodepth=16", "--size=15m"],
            ["--name=large", "--rw=write", "--bs=1m", "--iodepth=4", "--size=15m"],
        ] {
            done("fio", &[&["--ioengine=nbd", &uri][..], &job, &verify].concat());
        }
        ended.store(true, Ordering::Relaxed);
        let turns = turner.join().unwrap();
        assert!(turns > 3, "{name} was tuned {turns} times");
        drive.stop();
    }
}

/// Certificates with the file names that libnbd and qemu expect, and the server's.
fn certificates(directory: &Path) -> TlsFiles {
    let issuer = |name: &str| {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let write = |name: &str, text: String| {
        fs::write(directory.join(name), text).unwrap();
        fs::set_permissions(directory.join(name), Permissions::from_mode(0o600)).unwrap();
    };
    let sign = |authority: &CertifiedIssuer<'static, KeyPair>, name: &str, file: &str| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        write(&format!("{file}-cert.pem"), params.signed_by(&key, authority).unwrap().pem());
        write(&format!("{file}-key.pem"), key.serialize_pem());
    };
    let (ours, theirs) = (issuer("the authority"), issuer("another authority"));
    write("ca-cert.pem", ours.pem());
    sign(&ours, "localhost", "server");
    sign(&ours, "client", "client");
    sign(&theirs, "client", "unknown");
    let file = |name: &str| directory.join(name);
    TlsFiles {
        certificate: file("server-cert.pem"),
        key: file("server-key.pem"),
        authority: file("ca-cert.pem"),
        revoked: None,
        clients: Vec::new(),
    }
}

/// Our own client, so that this is tested without tools too: a payload much longer than any buffer.
#[test]
fn a_long_payload_over_tls_arrives() {
    let directory = tempfile::tempdir().unwrap();
    let tls = certificates(directory.path());
    let drive = Drive::serve_at(Placement::Caching(hybrid()), WritePolicy::Back, Bytes::mib(40), Some(tls));
    let Endpoint::Tcp(address) = drive.endpoint.clone() else { panic!("{}", drive.endpoint) };
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let receive = |length: usize, from: &mut dyn Read| {
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes).unwrap();
        bytes
    };
    receive(18, &mut socket);
    socket.write_all(&3_u32.to_be_bytes()).unwrap();
    socket.write_all(&option_bytes(option::STARTTLS, &[])).unwrap();
    assert_eq!(receive(20, &mut socket)[15], 1, "acknowledged");
    let pem = |name: &str| fs::read(directory.path().join(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem("ca-cert.pem")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(&pem("client-cert.pem")).unwrap()],
            PrivateKeyDer::from_pem_slice(&pem("client-key.pem")).unwrap(),
        )
        .unwrap();
    let session = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut tls = StreamOwned::new(session, socket);
    tls.write_all(&option_bytes(option::GO, &go_data("volume", &[]))).unwrap();
    receive(32 + 20, &mut tls);
    let data: Vec<u8> = (0..10_000_001_u32).map(|i| (i % 251) as u8).collect();
    tls.write_all(&request_bytes(0, command::WRITE, 1, 4095, data.len() as u32)).unwrap();
    tls.write_all(&data).unwrap();
    assert_eq!(receive(16, &mut tls)[4..8], [0; 4]);
    tls.write_all(&request_bytes(0, command::READ, 2, 4095, data.len() as u32)).unwrap();
    assert_eq!(receive(16, &mut tls)[4..8], [0; 4]);
    assert!(receive(data.len(), &mut tls) == data, "what came back differs");
    drive.stop();
}

#[test]
fn tls_lets_in_who_has_a_certificate_and_nobody_else() {
    if !has("nbdinfo", &["--version"]) || !has("qemu-io", &["--version"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let tls = certificates(directory.path());
    let drive = Drive::serve_at(Placement::Caching(hybrid()), WritePolicy::Back, Bytes::mib(40), Some(tls));
    let Endpoint::Tcp(address) = drive.endpoint.clone() else { panic!("{}", drive.endpoint) };
    let port = address.rsplit_once(':').unwrap().1;
    let uri =
        |scheme: &str, dir: &Path| format!("{scheme}://localhost:{port}/volume?tls-certificates={}", dir.display());
    let info: serde_json::Value =
        serde_json::from_str(&done("nbdinfo", &["--json", &uri("nbds", directory.path())])).unwrap();
    assert_eq!((&info["TLS"], &info["exports"][0]["export-size"]), (&true.into(), &drive.size.into()));
    // qemu expects the same names.
    let object = format!("tls-creds-x509,id=tls,endpoint=client,dir={}", directory.path().display());
    let image = format!("driver=nbd,host=localhost,port={port},export=volume,tls-creds=tls");
    let patterns = ["-c", "write -P 0x5a 1M 9M", "-c", "flush", "-c", "read -P 0x5a 1M 9M"];
    let output = done("qemu-io", &[&["--object", &object, "--image-opts", &image], &patterns[..]].concat());
    assert!(!output.contains("failed"), "{output}");
    // Without TLS, without a certificate, and with a certificate of another authority.
    let refused = |uri: &str| {
        let output = run("nbdinfo", &[uri]);
        assert!(!output.status.success(), "{uri} was let in: {}", String::from_utf8_lossy(&output.stdout));
    };
    refused(&format!("nbd://localhost:{port}/volume"));
    let other = tempfile::tempdir().unwrap();
    fs::copy(directory.path().join("ca-cert.pem"), other.path().join("ca-cert.pem")).unwrap();
    refused(&uri("nbds", other.path()));
    for kind in ["cert", "key"] {
        let (from, to) = (format!("unknown-{kind}.pem"), format!("client-{kind}.pem"));
        fs::copy(directory.path().join(from), other.path().join(to)).unwrap();
    }
    refused(&uri("nbds", other.path()));
    done("nbdinfo", &["--size", &uri("nbds", directory.path())]);
    drive.stop();
}
