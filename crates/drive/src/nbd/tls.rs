//! TLS for `NBD_OPT_STARTTLS`, without any I/O as well: bytes in, plain text out, and back. Both sides show a
//! certificate; a client with one that the server's authority signed may use the volume.

use std::{
    fs, io,
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore, ServerConfig, ServerConnection,
    crypto::ring,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use thiserror::Error;

/// The longest PEM file that is read.
const MAX_PEM_BYTES: u64 = 4 << 20;

/// Why the certificates cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {problem}; expected {expected} in PEM format", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// The client's side of TLS went wrong: no certificate, a strange one, garbage. Send what [`TlsSession::pending`]
    /// gives (it tells the client why), then close.
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

/// All items of a kind in a file; at least one.
fn items<T: PemObject>(path: &Path, expected: &'static str) -> Result<Vec<T>, TlsError> {
    let text = read_pem(path)?;
    let items: Result<Vec<T>, pem::Error> = T::pem_slice_iter(&text).collect();
    match items {
        Ok(items) if items.is_empty() => Err(content(path, "there is none", expected)),
        Ok(items) => Ok(items),
        Err(error) => Err(content(path, error, expected)),
    }
}

/// The server's certificate and the authority whose clients it lets in.
#[derive(Clone, Debug)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
}

impl TlsServer {
    /// Reads `ca-cert.pem`, `server-cert.pem`, `server-key.pem` and, if it is there, `ca-crl.pem` (revoked
    /// certificates) from a directory; qemu and nbdkit name them so as well.
    ///
    /// # Errors
    /// As [`TlsServer::from_files`].
    pub fn from_directory(directory: &Path) -> Result<TlsServer, TlsError> {
        let revoked = directory.join("ca-crl.pem");
        let revoked = revoked.exists().then_some(revoked);
        let [authority, certificate, key] =
            ["ca-cert.pem", "server-cert.pem", "server-key.pem"].map(|name| directory.join(name));
        TlsServer::from_files(&authority, &certificate, &key, revoked.as_deref())
    }

    /// Reads the authorities that sign clients' certificates, the server's certificate with any that lie between it
    /// and its authority, its key, and possibly a list of revoked certificates.
    ///
    /// # Errors
    /// A file cannot be read, does not hold what it should, or the certificates do not fit each other.
    pub fn from_files(
        authority: &Path,
        certificate: &Path,
        key: &Path,
        revoked: Option<&Path>,
    ) -> Result<TlsServer, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for root in items::<CertificateDer<'static>>(authority, "the authority's certificate")? {
            roots.add(root).map_err(|error| content(authority, error, "the authority's certificate"))?;
        }
        let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        if let Some(path) = revoked {
            let lists = items::<CertificateRevocationListDer<'static>>(path, "a list of revoked certificates")?;
            verifier = verifier.with_crls(lists).allow_unknown_revocation_status();
        }
        let problem_file = revoked.unwrap_or(authority);
        let verifier =
            verifier.build().map_err(|error| content(problem_file, error, "certificates that can be checked"))?;
        let chain = items::<CertificateDer<'static>>(certificate, "the server's certificate")?;
        let secret = PrivateKeyDer::from_pem_slice(&read_pem(key)?)
            .map_err(|error| content(key, error, "the server's private key"))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has the ciphers of TLS 1.2 and 1.3")
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, secret)
            .map_err(|error| content(certificate, error, "the certificate that belongs to the key"))?;
        // Connections are few and long, and a resumed session would not check the certificate again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(TlsServer { config: Arc::new(config) })
    }

    /// TLS for one client that was told to go ahead.
    pub fn session(&self) -> TlsSession {
        let connection = ServerConnection::new(self.config.clone()).expect("the configuration was checked");
        TlsSession { connection, ready: false, closed: false }
    }
}

/// TLS with one client. It keeps little more than one TLS record either way.
#[derive(Debug)]
pub struct TlsSession {
    connection: ServerConnection,
    ready: bool,
    closed: bool,
}

impl TlsSession {
    /// Takes bytes from the socket and returns how many. When that is not all, send what is [pending](Self::pending) and take
    /// the [plain text](Self::plain) first, then come again.
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

    /// Moves plain text that has come in into a buffer and returns how much; 0 when there is none yet.
    pub fn plain(&mut self, into: &mut [u8]) -> usize {
        // It fails where a client has closed, or has gone without saying so; neither leaves anything to read.
        self.connection.reader().read(into).unwrap_or(0)
    }

    /// Appends what the protocol itself has to send: its handshake, or why it failed.
    pub fn pending(&mut self, into: &mut Vec<u8>) {
        while self.connection.wants_write() {
            self.connection.write_tls(into).expect("a vector takes everything");
        }
    }

    /// Appends plain text, encrypted. Only once the handshake [is over](Self::is_ready).
    pub fn encrypt(&mut self, mut plain: &[u8], into: &mut Vec<u8>) {
        assert!(self.is_ready(), "plain text before TLS has begun");
        while !plain.is_empty() {
            let taken = self.connection.writer().write(plain).expect("memory takes everything");
            plain = &plain[taken..];
            // Its buffer is bounded, and emptied here. A session that has failed takes nothing and gives nothing.
            if taken == 0 && !self.connection.wants_write() {
                return;
            }
            self.pending(into);
        }
    }

    /// Appends the farewell.
    pub fn close(&mut self, into: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.pending(into);
    }

    /// Whether the handshake is over, and with it the client's certificate in order.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether the client has ended TLS, or broken it: there is nothing to expect behind the plain text that is left.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}
