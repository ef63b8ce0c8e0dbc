//! `NBD_OPT_STARTTLS` from the first byte to the last, with certificates made here, and both layers used as by a loop.

use std::{
    fs::{self, Permissions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::Arc,
};

use crate::nbd_client::{
    client::{go_data, option_bytes, request_bytes},
    server::Server,
};
use peryton_drive::nbd::{
    Event, Export, Security, TlsError, TlsFiles, TlsServer, TlsSession,
    wire::{command, option},
};
use peryton_units::Bytes;
use proptest::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tempfile::TempDir;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key, in PEM.
fn signed(authority: &Authority, name: &str, serial: u64) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.serial_number = Some(SerialNumber::from(serial));
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// A directory with the server's files, with the names that qemu and nbdkit use.
fn directory(authority: &Authority) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = signed(authority, "drive.example", 1);
    fs::write(directory.path().join("ca-cert.pem"), authority.pem()).unwrap();
    fs::write(directory.path().join("server-cert.pem"), certificate).unwrap();
    fs::write(directory.path().join("server-key.pem"), key).unwrap();
    fs::set_permissions(directory.path().join("server-key.pem"), Permissions::from_mode(0o600)).unwrap();
    directory
}

/// The server of a directory, with its list of revoked certificates if there is one, for these clients.
fn server_for(directory: &Path, clients: &[&str]) -> Result<TlsServer, TlsError> {
    let revoked = directory.join("ca-crl.pem");
    TlsServer::from_files(&TlsFiles {
        certificate: directory.join("server-cert.pem"),
        key: directory.join("server-key.pem"),
        authority: directory.join("ca-cert.pem"),
        revoked: revoked.exists().then_some(revoked),
        clients: clients.iter().map(|name| (*name).to_owned()).collect(),
    })
}

fn server(directory: &Path) -> Result<TlsServer, TlsError> {
    server_for(directory, &[])
}

/// A client that trusts `authority` and presents `identity`.
fn client(authority: &Authority, identity: Option<&(String, String)>, tls12: bool) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let versions = if tls12 { &[&rustls::version::TLS12] } else { &[&rustls::version::TLS13] };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            config.with_client_auth_cert(vec![certificate], key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    ClientConnection::new(Arc::new(config), ServerName::try_from("drive.example").unwrap()).unwrap()
}

/// A loop's server with both layers, and the wires to and from a client.
struct Loop {
    server: Server,
    tls: TlsSession,
    /// Number of encrypted bytes from the server.
    encrypted: usize,
    started: bool,
}

impl Loop {
    /// Starts after the client has requested TLS and the server has agreed.
    fn start(tls: &TlsServer) -> Loop {
        let mut server = Server::new(Export::new("volume", Bytes::mib(1)), Security::TlsRequired);
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend(option_bytes(option::STARTTLS, &[]));
        server.feed(&bytes).unwrap();
        assert_eq!(server.events, [Event::StartTls]);
        let acknowledged = server.sent.len();
        assert_eq!(acknowledged, 18 + 20);
        Loop { server, tls: tls.session(), encrypted: acknowledged, started: false }
    }

    /// Takes bytes from the socket, `cut` at a time, and returns those for it.
    fn receive(&mut self, bytes: &[u8], cut: usize) -> Result<Vec<u8>, String> {
        let mut reply = Vec::new();
        for piece in bytes.chunks(cut) {
            let mut rest = piece;
            while !rest.is_empty() {
                let taken = self.tls.receive(rest);
                self.tls.pending(&mut reply);
                rest = &rest[taken.map_err(|error| error.to_string())?..];
                if self.tls.is_ready() && !self.started {
                    self.started = true;
                    self.server.connection.tls_started();
                }
                let mut plain = [0; 3000];
                loop {
                    let length = self.tls.plain(&mut plain);
                    if length == 0 {
                        break;
                    }
                    self.server.feed(&plain[..length]).map_err(|error| error.to_string())?;
                    let new = &self.server.sent[self.encrypted..];
                    self.tls.encrypt(new, &mut reply);
                    self.encrypted = self.server.sent.len();
                }
            }
        }
        Ok(reply)
    }
}

/// Runs client and server until neither has anything to send, and returns the plain text that the client got.
fn talk(client: &mut ClientConnection, server: &mut Loop, cut: usize) -> Result<Vec<u8>, String> {
    let mut got = Vec::new();
    loop {
        let mut request = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut request).unwrap();
        }
        if request.is_empty() {
            return Ok(got);
        }
        let reply = server.receive(&request, cut)?;
        let mut rest = &reply[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            let state = client.process_new_packets().map_err(|error| format!("client: {error}"))?;
            let begin = got.len();
            got.resize(begin + state.plaintext_bytes_to_read(), 0);
            std::io::Read::read_exact(&mut client.reader(), &mut got[begin..]).unwrap();
        }
    }
}

fn session(tls12: bool, cut: usize) {
    let authority = authority("authority");
    let directory = directory(&authority);
    let tls = server(directory.path()).unwrap();
    let mut server = Loop::start(&tls);
    let mut client = client(&authority, Some(&signed(&authority, "client", 2)), tls12);
    assert_eq!(talk(&mut client, &mut server, cut).unwrap(), b"");
    assert!(server.tls.is_ready());

    let mut bytes = option_bytes(option::GO, &go_data("volume", &[]));
    bytes.extend(request_bytes(0, command::WRITE, 1, 4096, 200_000));
    bytes.extend((0..200_000_u32).map(|i| (i % 251) as u8));
    bytes.extend(request_bytes(0, command::READ, 2, 4096, 200_000));
    bytes.extend(request_bytes(0, command::DISC, 3, 0, 0));
    let mut got = Vec::new();
    for piece in bytes.chunks(10_000) {
        client.writer().write_all(piece).unwrap();
        got.extend(talk(&mut client, &mut server, cut).unwrap());
    }
    assert_eq!(got.len(), 32 + 20 + 16 + 16 + 200_000, "info, acknowledgement, two replies");
    let data = &got[got.len() - 200_000..];
    assert!(data.iter().enumerate().all(|(i, byte)| usize::from(*byte) == i % 251));
    assert_eq!(server.server.events.last(), Some(&Event::Disconnect));
    let mut farewell = Vec::new();
    server.tls.close(&mut farewell);
    assert!(!farewell.is_empty());
    client.read_tls(&mut &farewell[..]).unwrap();
    assert!(client.process_new_packets().unwrap().peer_has_closed());
}

#[test]
fn a_session_with_tls_1_3() {
    session(false, usize::MAX);
}

#[test]
fn a_session_with_tls_1_2_in_small_pieces() {
    session(true, 100);
}

/// Connects with or without a certificate; returns whether that is allowed.
fn attempt(authority: &Authority, directory: &Path, identity: Option<&(String, String)>) -> Result<(), String> {
    attempt_at(authority, &server(directory).unwrap(), identity)
}

fn attempt_at(authority: &Authority, tls: &TlsServer, identity: Option<&(String, String)>) -> Result<(), String> {
    for tls12 in [true, false] {
        let mut server = Loop::start(tls);
        let mut client = client(authority, identity, tls12);
        talk(&mut client, &mut server, usize::MAX)?;
        assert!(server.tls.is_ready());
    }
    Ok(())
}

#[test]
fn only_clients_of_the_authority_are_let_in() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let directory = directory(&ours);
    let good = signed(&ours, "client", 7);
    attempt(&ours, directory.path(), Some(&good)).unwrap();
    let nobody = attempt(&ours, directory.path(), None).unwrap_err();
    assert!(nobody.starts_with("TLS with NBD client") && nobody.contains("no certificates"), "{nobody}");
    let unknown = attempt(&ours, directory.path(), Some(&signed(&theirs, "client", 7))).unwrap_err();
    assert!(unknown.contains("UnknownIssuer"), "{unknown}");
}

#[test]
fn a_revoked_client_is_not_let_in() {
    let authority = authority("authority");
    let directory = directory(&authority);
    let (good, bad) = (signed(&authority, "client", 7), signed(&authority, "client", 8));
    let now = rcgen::date_time_ymd(2020, 1, 1);
    let list = CertificateRevocationListParams {
        this_update: now,
        next_update: rcgen::date_time_ymd(2100, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(8),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = list.signed_by(&authority).unwrap();
    fs::write(directory.path().join("ca-crl.pem"), list.pem().unwrap()).unwrap();
    attempt(&authority, directory.path(), Some(&good)).unwrap();
    let revoked = attempt(&authority, directory.path(), Some(&bad)).unwrap_err();
    assert!(revoked.contains("Revoked"), "{revoked}");
}

#[test]
fn clients_that_are_not_listed_are_not_let_in() {
    let authority = authority("authority");
    let directory = directory(&authority);
    let tls = server_for(directory.path(), &["one.example", "two.example"]).unwrap();
    attempt_at(&authority, &tls, Some(&signed(&authority, "two.example", 7))).unwrap();
    let other = attempt_at(&authority, &tls, Some(&signed(&authority, "three.example", 8))).unwrap_err();
    assert!(other.contains("NotValidForName") || other.contains("not valid for name"), "{other}");
    let error = server_for(directory.path(), &["no name"]).unwrap_err().to_string();
    assert!(error.contains("'no name' is no name of a client"), "{error}");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let authority = authority("authority");
    let directory = directory(&authority);
    let key = directory.path().join("server-key.pem");
    for (mode, is_fine) in [(0o600, true), (0o640, true), (0o644, false), (0o660, false), (0o604, false)] {
        fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        let opened = server(directory.path());
        assert_eq!(opened.is_ok(), is_fine, "{mode:o}");
        if let Err(error) = opened {
            assert!(error.to_string().contains(&format!("has the mode 0{mode:o}")), "{error}");
        }
    }
}

#[test]
fn files_that_are_missing_or_mixed_up_are_named() {
    let authority = authority("authority");
    let fail = |spoil: &dyn Fn(&Path)| {
        let directory = directory(&authority);
        spoil(directory.path());
        let error = server(directory.path()).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error.replace(directory.path().to_str().unwrap(), "DIR")
    };
    let missing = fail(&|path| fs::remove_file(path.join("server-key.pem")).unwrap());
    assert!(missing.starts_with("DIR/server-key.pem: No such file"), "{missing}");
    let swapped = fail(&|path| {
        // It keeps its mode.
        fs::write(path.join("server-key.pem"), fs::read(path.join("server-cert.pem")).unwrap()).unwrap();
    });
    assert!(swapped.starts_with("DIR/server-key.pem: ") && swapped.contains("private key"), "{swapped}");
    let empty = fail(&|path| fs::write(path.join("ca-cert.pem"), "").unwrap());
    assert_eq!(empty, "DIR/ca-cert.pem: there is none; expected the authority's certificate in PEM format");
    let rubbish = fail(&|path| {
        fs::write(path.join("ca-cert.pem"), "-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n").unwrap();
    });
    assert!(rubbish.starts_with("DIR/ca-cert.pem: "), "{rubbish}");
    let other_key = fail(&|path| {
        fs::write(path.join("server-key.pem"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    });
    assert!(other_key.starts_with("DIR/server-cert.pem: ") && other_key.contains("belongs to the key"), "{other_key}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rubbish_in_place_of_tls_ends_the_session(bytes in prop::collection::vec(any::<u8>(), 1..3000), cut in 1..500_usize) {
        let authority = authority("authority");
        let directory = directory(&authority);
        let mut server = Loop::start(&server(directory.path()).unwrap());
        let outcome = server.receive(&bytes, cut);
        prop_assert!(!server.tls.is_ready());
        prop_assert!(outcome.is_err() || bytes.len() < 5 || (20..=24).contains(&bytes[0]), "no record begins so");
        prop_assert_eq!(server.server.events.len(), 1, "nothing of it was taken for NBD");
    }
}
