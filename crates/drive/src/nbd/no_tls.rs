//! Replaces TLS in a build without the feature `tls`: certificates are refused, so no session ever begins.

use std::convert::Infallible;

use thiserror::Error;

use super::TlsFiles;

/// Why the certificates cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The feature `tls` was left out.
    #[error("this build has no TLS: build it with the feature tls, or serve a unix socket")]
    NotBuilt,
}

/// A server with certificates, which this build cannot have.
#[derive(Debug)]
pub struct TlsServer(Infallible);

impl TlsServer {
    /// Refuses.
    ///
    /// # Errors
    /// Always: this build has no TLS.
    pub fn from_files(_: &TlsFiles) -> Result<TlsServer, TlsError> {
        Err(TlsError::NotBuilt)
    }

    /// Never called.
    pub fn session(&self) -> TlsSession {
        match self.0 {}
    }
}

/// A session, which this build cannot have.
#[derive(Debug)]
pub struct TlsSession(Infallible);

impl TlsSession {
    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn receive(&mut self, _: &[u8]) -> Result<usize, TlsError> {
        match self.0 {}
    }

    /// Never called.
    pub fn plain(&mut self, _: &mut [u8]) -> usize {
        match self.0 {}
    }

    /// Never called.
    pub fn pending(&mut self, _: &mut Vec<u8>) {
        match self.0 {}
    }

    /// Never called.
    pub fn encrypt(&mut self, _: &[u8], _: &mut Vec<u8>) {
        match self.0 {}
    }

    /// Never called.
    pub fn close(&mut self, _: &mut Vec<u8>) {
        match self.0 {}
    }

    /// Never called.
    pub fn is_ready(&self) -> bool {
        match self.0 {}
    }

    /// Never called.
    pub fn is_closed(&self) -> bool {
        match self.0 {}
    }
}
