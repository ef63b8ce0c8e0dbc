//! The fear: unauthenticated connections keep authenticated ones out, or use up the server's time.

use std::{
    fs::{self, Permissions},
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::served::{config, spec};
use peryton_drive::{Endpoint, Handle, Service, Settings, TlsFiles, format};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(vec!["authority".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn signed(authority: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

/// A volume that is served over TCP.
struct Tcp {
    address: SocketAddr,
    authority: Authority,
    handle: Handle,
    server: thread::JoinHandle<()>,
}

impl Tcp {
    fn start(directory: &Path) -> Tcp {
        let authority = authority();
        let (certificate, key) = signed(&authority, "drive.example");
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            path
        };
        let tls = TlsFiles {
            certificate: file("cert.pem", &certificate),
            key: file("key.pem", &key),
            authority: file("ca.pem", &authority.pem()),
            revoked: None,
            clients: Vec::new(),
        };
        let spec = spec(directory, config("single"));
        format(&spec, false).unwrap();
        let settings = Settings { tls: Some(tls), ..Settings::default() };
        let service = Service::open(&spec, &Endpoint::Tcp("127.0.0.1:0".to_owned()), settings).unwrap();
        let Endpoint::Tcp(address) = service.endpoint() else { unreachable!("it was TCP") };
        let handle = service.handle();
        let server = thread::spawn(move || drop(service.run().unwrap()));
        Tcp { address: address.parse().unwrap(), authority, handle, server }
    }

    /// A client with a valid certificate, up to the first answer to a request.
    fn client(&self) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        self.ask_for_tls(&mut stream)?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap()).unwrap();
        let (certificate, key) = signed(&self.authority, "client");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        let name = ServerName::try_from("drive.example").unwrap();
        let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream);
        // The export with the old option, and a first read.
        stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0")?;
        stream.read_exact(&mut [0; 10])?;
        read(&mut stream)?;
        Ok(stream)
    }

    fn ask_for_tls(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.read_exact(&mut [0; 18])?;
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0")?;
        stream.read_exact(&mut [0; 20])
    }

    fn stop(self) {
        self.handle.stop();
        self.server.join().unwrap();
    }
}

fn read(stream: &mut impl ReadWrite) -> io::Result<()> {
    let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
    request.extend_from_slice(&[0; 20]);
    request.extend_from_slice(&4096_u32.to_be_bytes());
    stream.write_all(&request)?;
    stream.read_exact(&mut [0; 16 + 4096])
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// Attackers send plain text, and parts of a ClientHello: each has only ten seconds, and uses places that authenticated
/// clients do not need.
#[test]
fn those_that_never_finish_their_handshake_keep_nobody_out() {
    let directory = tempfile::tempdir().unwrap();
    let served = Tcp::start(directory.path());
    let mut early = served.client().unwrap();
    let began = Instant::now();
    let attack = |n: usize| {
        let mut stream = TcpStream::connect(served.address).unwrap();
        if n.is_multiple_of(2) && served.ask_for_tls(&mut stream).is_ok() {
            // The beginning of a record that announces a ClientHello.
            let _ = stream.write_all(&[22, 3, 1, 2, 0, 1]);
        }
        stream
    };
    let mut attackers: Vec<TcpStream> = (0..200).map(attack).collect();
    for _ in 0..3 {
        served.client().expect("a client that can show who it is");
    }
    read(&mut early).unwrap();
    // A byte from time to time does not extend the limit.
    while began.elapsed() < Duration::from_secs(13) {
        for attacker in &mut attackers {
            let _ = attacker.write_all(&[0]);
        }
        thread::sleep(Duration::from_millis(500));
    }
    let alive = attackers
        .iter_mut()
        .filter(|attacker| {
            attacker.set_nonblocking(true).unwrap();
            let (mut bytes, mut stream) = ([0; 64], &**attacker);
            loop {
                match stream.read(&mut bytes) {
                    Ok(0) => return false,
                    Ok(_) => {}
                    Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
                }
            }
        })
        .count();
    assert_eq!(alive, 0, "connections that are older than ten seconds");
    read(&mut early).unwrap();
    // None of them appears in the list of events.
    let events = served.handle.events();
    let connected = events.iter().filter(|event| event["event"] == "connected").count();
    assert_eq!(connected, 4, "{events:?}");
    let status = served.handle.status().unwrap();
    assert!(status["log"]["lines_held_back"].as_u64().unwrap() > 0, "{}", status["log"]);
    served.stop();
}

/// Each of these connections costs the server a signature.
#[test]
fn handshakes_without_end_do_not_slow_clients_down() {
    let directory = tempfile::tempdir().unwrap();
    let served = Tcp::start(directory.path());
    let mut client = served.client().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(served.authority.pem().as_bytes()).unwrap()).unwrap();
                let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                    .with_safe_default_protocol_versions()
                    .unwrap()
                    .with_root_certificates(roots)
                    .with_no_client_auth();
                let config = Arc::new(config);
                while !stop.load(Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect(served.address) else { continue };
                    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                    if served.ask_for_tls(&mut stream).is_ok() {
                        let name = ServerName::try_from("drive.example").unwrap();
                        let mut tls = ClientConnection::new(Arc::clone(&config), name).unwrap();
                        let _ = tls.complete_io(&mut stream);
                    }
                }
            });
        }
        let mut slowest = Duration::ZERO;
        for _ in 0..500 {
            let began = Instant::now();
            read(&mut client).unwrap();
            slowest = slowest.max(began.elapsed());
        }
        let late = (0..10).filter(|_| served.client().is_ok()).count();
        stop.store(true, Ordering::Relaxed);
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
        assert!(late >= 5, "{late} of ten clients came in meanwhile");
    });
    served.stop();
}
