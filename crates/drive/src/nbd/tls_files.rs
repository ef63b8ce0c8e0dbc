//! The files that TLS needs.

use std::path::PathBuf;

/// Certificates for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, with the intermediate certificates.
    pub certificate: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
    /// The authority that signs clients' certificates.
    pub authority: PathBuf,
    /// Certificates that the authority has revoked.
    pub revoked: Option<PathBuf>,
    /// The names, in certificates, of the clients that may connect; none: every client of the authority may.
    pub clients: Vec<String>,
}
