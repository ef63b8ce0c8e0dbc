//! TLS for `NBD_OPT_STARTTLS`, also without I/O: bytes in, plain text out, and back. Both sides show a certificate; a
//! client whose certificate the server's authority signed may use the volume.

use std::{
    fs, io,
    io::{Read, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme,
    client::{danger::HandshakeSignatureValid, verify_server_name},
    crypto::ring,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject},
    },
    server::{
        NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use thiserror::Error;

use super::TlsFiles;

/// The largest PEM file that is read, in bytes.
const MAX_PEM_BYTES: u64 = 4 << 20;

/// Why the certificates cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file does not have the expected content.
    #[error("{}: {problem}; expected {expected} in PEM format", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// The expected content.
        expected: &'static str,
    },
    /// Others can read the key, or its group can change it.
    #[error("{}: has the mode {mode:04o}, so others have access to the key: chmod 600 {}", path.display(), path.display())]
    OpenKey {
        /// Path of the file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// This is no name that a certificate can have.
    #[error("'{name}' is no name of a client: give a host name or an address, as in its certificate's subjectAltName")]
    ClientName {
        /// The name.
        name: String,
    },
    /// The client's side of TLS failed: no certificate, an unknown one, or invalid data. Send the bytes that
    /// [`TlsSession::pending`] gives, which tell the client why, then close.
    #[error("TLS with NBD client: {0}")]
    Session(rustls::Error),
}

fn content(path: &Path, problem: impl ToString, expected: &'static str) -> TlsError {
    TlsError::Content { path: path.to_owned(), problem: problem.to_string(), expected }
}

fn read_pem(path: &Path) -> Result<Vec<u8>, TlsError> {
    let fail = |source| TlsError::File { path: path.to_owned(), source };
    let mut text = Vec::new();
    let length = fs::File::open(path).and_then(|f| f.take(MAX_PEM_BYTES + 1).read_to_end(&mut text)).map_err(fail)?;
    if length as u64 > MAX_PEM_BYTES {
        return Err(content(path, format!("longer than {} MiB", MAX_PEM_BYTES >> 20), "certificates or a key"));
    }
    Ok(text)
}

/// Reads all items of a kind from a file; at least one.
fn items<T: PemObject>(path: &Path, expected: &'static str) -> Result<Vec<T>, TlsError> {
    let text = read_pem(path)?;
    let items: Result<Vec<T>, pem::Error> = T::pem_slice_iter(&text).collect();
    match items {
        Ok(items) if items.is_empty() => Err(content(path, "there is none", expected)),
        Ok(items) => Ok(items),
        Err(error) => Err(content(path, error, expected)),
    }
}

/// The server's certificate, and the authority whose clients may connect.
#[derive(Clone, Debug)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
}

/// The permissions of a key that others than its owner and group have, or that its group may change.
const TOO_OPEN: u32 = 0o027;

/// Reads a private key, to which only its owner and the readers of its group may have access.
fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let about = fs::metadata(path).map_err(|source| TlsError::File { path: path.to_owned(), source })?;
    let mode = about.mode() & 0o7777;
    if about.is_file() && mode & TOO_OPEN != 0 {
        return Err(TlsError::OpenKey { path: path.to_owned(), mode });
    }
    PrivateKeyDer::from_pem_slice(&read_pem(path)?).map_err(|error| content(path, error, "the server's private key"))
}

/// What is wrong with a certificate, in words.
fn in_words(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error, InconsistentKeys};
    match error {
        Error::InvalidCertificate(CertificateError::Other(other)) if other.to_string() == "UnsupportedCertVersion" => {
            "is a certificate of version 1: make one of version 3 (openssl x509 -req with -extfile does)".to_owned()
        }
        Error::InvalidCertificate(CertificateError::Other(other)) => other.to_string(),
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => "belongs to another key".to_owned(),
        other => other.to_string(),
    }
}

/// Lets clients in whose certificates have one of these names (`subjectAltName`), of those that the authority lets in.
#[derive(Debug)]
struct Listed {
    authority: Arc<dyn ClientCertVerifier>,
    names: Vec<ServerName<'static>>,
}

impl ClientCertVerifier for Listed {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.authority.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.authority.verify_client_cert(certificate, intermediates, now)?;
        let parsed = ParsedCertificate::try_from(certificate)?;
        let is_listed = self.names.iter().any(|name| verify_server_name(&parsed, name).is_ok());
        is_listed.then_some(verified).ok_or(rustls::Error::InvalidCertificate(CertificateError::NotValidForName))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authority.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authority.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authority.supported_verify_schemes()
    }
}

impl TlsServer {
    /// Reads the authorities that sign clients' certificates, the server's certificate with the intermediate
    /// certificates, its key, and optionally lists of revoked certificates; and which clients may connect.
    ///
    /// # Errors
    /// A file cannot be read, others have access to the key, a file does not have the expected content, or the certificates do not fit
    /// each other.
    pub fn from_files(files: &TlsFiles) -> Result<TlsServer, TlsError> {
        let TlsFiles { certificate, key, authority, revoked, clients } = files;
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for root in items::<CertificateDer<'static>>(authority, "the authority's certificate")? {
            roots.add(root).map_err(|error| content(authority, in_words(&error), "the authority's certificate"))?;
        }
        let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        if let Some(path) = revoked {
            let lists = items::<CertificateRevocationListDer<'static>>(path, "a list of revoked certificates")?;
            verifier = verifier.with_crls(lists).allow_unknown_revocation_status();
        }
        let problem_file = revoked.as_ref().unwrap_or(authority);
        let mut verifier =
            verifier.build().map_err(|error| content(problem_file, error, "certificates that can be checked"))?;
        if !clients.is_empty() {
            let name = |name: &String| {
                ServerName::try_from(name.clone()).map_err(|_| TlsError::ClientName { name: name.clone() })
            };
            let names = clients.iter().map(name).collect::<Result<_, _>>()?;
            verifier = Arc::new(Listed { authority: verifier, names });
        }
        let chain = items::<CertificateDer<'static>>(certificate, "the server's certificate")?;
        let secret = read_key(key)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has the ciphers of TLS 1.2 and 1.3")
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, secret)
            .map_err(|error| content(certificate, in_words(&error), "the certificate that belongs to the key"))?;
        // Connections are few and long, and a resumed session would not check the certificate again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(TlsServer { config: Arc::new(config) })
    }

    /// Starts TLS for one client.
    pub fn session(&self) -> TlsSession {
        let connection = ServerConnection::new(self.config.clone()).expect("the configuration was checked");
        TlsSession { connection, ready: false, closed: false }
    }
}

/// TLS with one client. It buffers little more than one TLS record in each direction.
#[derive(Debug)]
pub struct TlsSession {
    connection: ServerConnection,
    ready: bool,
    closed: bool,
}

impl TlsSession {
    /// Takes bytes from the socket and returns how many. If that is not all, send what is [pending](Self::pending),
    /// take the [plain text](Self::plain), and call again with the rest.
    ///
    /// # Errors
    /// The client does not speak TLS, or shows no certificate that the authority has signed.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<usize, TlsError> {
        let mut rest = bytes;
        while !rest.is_empty() && self.connection.wants_read() {
            if self.connection.read_tls(&mut rest).is_err() {
                break; // its buffer is full
            }
            let state = self.connection.process_new_packets().map_err(|error| {
                self.closed = true;
                TlsError::Session(error)
            })?;
            self.closed |= state.peer_has_closed();
        }
        self.ready |= !self.connection.is_handshaking();
        Ok(if self.closed { bytes.len() } else { bytes.len() - rest.len() })
    }

    /// Moves received plain text into a buffer and returns its length; 0 if there is none yet.
    pub fn plain(&mut self, into: &mut [u8]) -> usize {
        // The read fails if the client has closed TLS or has gone without closing it; in both cases nothing is left to
        // read.
        self.connection.reader().read(into).unwrap_or(0)
    }

    /// Appends the protocol's own output: its handshake, or the reason of its failure.
    pub fn pending(&mut self, into: &mut Vec<u8>) {
        while self.connection.wants_write() {
            self.connection.write_tls(into).expect("a vector takes everything");
        }
    }

    /// Appends plain text, encrypted. Allowed only when the handshake [is over](Self::is_ready).
    pub fn encrypt(&mut self, mut plain: &[u8], into: &mut Vec<u8>) {
        assert!(self.is_ready(), "plain text before TLS has begun");
        while !plain.is_empty() {
            let taken = self.connection.writer().write(plain).expect("memory takes everything");
            plain = &plain[taken..];
            // The session's buffer is bounded, and emptied here. A failed session takes no text and gives no output.
            if taken == 0 && !self.connection.wants_write() {
                return;
            }
            self.pending(into);
        }
    }

    /// Appends the message that closes TLS.
    pub fn close(&mut self, into: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.pending(into);
    }

    /// Whether the handshake is over, and so the client's certificate accepted.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether the client has closed TLS, or violated it: nothing follows the plain text that is left.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}
