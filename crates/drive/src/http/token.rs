//! The token that lets a page change settings: a file that only its owner can read. It never leaves its owner: who changes something
//! proves that he has it, by a code of the token, of a challenge of this server and of the change (HMAC, RFC 2104). So a program that
//! listens at the address of a server that is down learns nothing that a server accepts.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use hmac::{Hmac, KeyInit, Mac};
use rustix::fs::{Mode, OFlags};
use sha2::Sha256;
use thiserror::Error;

use super::{
    answer::{Answer, Status},
    request::Request,
};
use crate::random::random;

/// A shorter token could be guessed.
const SHORTEST: usize = 16;
/// The longest that a form takes.
const LONGEST: usize = 512;
/// How a change says that its sender has the token.
pub(super) const SCHEME: &str = "HMAC-SHA256";

/// Why a file is no token. One line each.
#[derive(Debug, Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error("{}: {source}: give the file of a token: (umask 077; openssl rand -hex 16 > FILE)", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Others than its owner can use it.
    #[error("{}: has the mode {mode:04o}, so others can read the token: chmod 600 {}", path.display(), path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It belongs to another user.
    #[error("{}: belongs to another user (number {owner}), who can read the token: give a file of your own", path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// The number of the user.
        owner: u32,
    },
    /// It has no token in it.
    #[error("{}: {problem}: a token is one line of {SHORTEST} to {LONGEST} letters and digits: (umask 077; openssl rand -hex 16 > FILE)", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: &'static str,
    },
}

/// Bytes of a challenge.
const CHALLENGE: usize = 16;

/// The token, and what a change has to answer next. Its text is in no message.
pub struct Token {
    secret: Box<[u8]>,
    challenge: Mutex<String>,
}

/// A number that nobody has seen, in hexadecimal digits.
fn new_challenge() -> io::Result<String> {
    random::<CHALLENGE>().map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The bytes of hexadecimal digits.
fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    pairs.collect()
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads a token from a file.
    ///
    /// # Errors
    /// Others can read the file, or it holds no token.
    pub fn from_file(path: &Path) -> Result<Token, TokenError> {
        let failed = |source: io::Error| TokenError::Read { path: path.to_owned(), source };
        // A pipe without a writer must not make the start wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let file = File::from(file);
        let about = file.metadata().map_err(failed)?;
        let wrong = |problem| TokenError::Content { path: path.to_owned(), problem };
        if !about.is_file() {
            return Err(wrong("is no file"));
        }
        let (mode, owner) = (about.mode() & 0o7777, about.uid());
        if mode & 0o077 != 0 {
            return Err(TokenError::Open { path: path.to_owned(), mode });
        }
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(TokenError::Owner { path: path.to_owned(), owner });
        }
        let mut text = String::new();
        let most = LONGEST as u64 + 2;
        file.take(most).read_to_string(&mut text).map_err(failed)?;
        let token = text.trim_end_matches(['\r', '\n']);
        match token.len() {
            0..SHORTEST => Err(wrong("is too short")),
            SHORTEST..=LONGEST if token.bytes().all(|letter| letter.is_ascii_graphic()) => {
                Ok(Token { secret: token.as_bytes().into(), challenge: Mutex::new(new_challenge().map_err(failed)?) })
            }
            SHORTEST..=LONGEST => Err(wrong("has more than one line, or other signs")),
            _ => Err(wrong("is too long")),
        }
    }

    /// What the next change has to answer. Another server, and this one after a change, has another.
    pub(crate) fn challenge(&self) -> String {
        self.challenge.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refuses requests that do not prove that their sender has the token: `Authorization: HMAC-SHA256 CODE`, with the code, in hexadecimal
    /// digits, of the challenge, a line break and the body. A challenge serves once.
    ///
    /// # Errors
    /// The answer to the request.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Answer> {
        let given = request.header("authorization")?.and_then(|value| value.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(SCHEME)).map(|(_, code)| code.trim());
        let Some(code) = given else {
            return Err(Answer::refused(Status::Unauthorized, "settings need the token"));
        };
        let mut challenge = self.challenge.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("a key may have any length");
        mac.update(challenge.as_bytes());
        mac.update(b"\n");
        mac.update(&request.body);
        let fits = from_hex(code).is_some_and(|code| mac.verify_slice(&code).is_ok());
        if !fits {
            return Err(Answer::refused(Status::Unauthorized, "this is not the token, or not the newest challenge"));
        }
        *challenge = new_challenge().map_err(|error| Answer::refused(Status::Unavailable, &error.to_string()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn only_the_token_opens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let written = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Token::from_file(&path).map_err(|error| error.to_string())
        };
        let token = written("0123456789abcdef\n", 0o600).unwrap();
        assert_eq!(format!("{token:?}"), "Token");
        let request = |code: &str, body: &str| {
            Request::parsed(&format!(
                "POST /settings HTTP/1.1\r\nContent-Length: {}\r\nAuthorization: {code}\r\n\r\n{body}",
                body.len()
            ))
        };
        let code = |secret: &str, challenge: &str, body: &str| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
            mac.update(format!("{challenge}\n{body}").as_bytes());
            let code: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            format!("HMAC-SHA256 {code}")
        };
        let secret = "0123456789abcdef";
        let check = |request: &Request| token.check(request).map_err(|answer| answer.status);
        let first = token.challenge();
        let right = request(&code(secret, &first, "{}"), "{}");
        assert_eq!(check(&right), Ok(()));
        assert_eq!(check(&right), Err(Status::Unauthorized), "a challenge serves once");
        let challenge = token.challenge();
        assert_ne!(challenge, first);
        for wrong in [
            request("HMAC-SHA256", "{}"),
            request("HMAC-SHA256 ", "{}"),
            request("HMAC-SHA256 xyz", "{}"),
            request(&code("0123456789abcdeF", &challenge, "{}"), "{}"),
            request(&code(secret, &first, "{}"), "{}"),
            request(&code(secret, &challenge, "{}"), "{ }"),
            request(&code(secret, &challenge, "{}")[..40], "{}"),
            request(&format!("Bearer {secret}"), "{}"),
        ] {
            assert_eq!(check(&wrong), Err(Status::Unauthorized), "{wrong:?}");
        }
        assert_eq!(check(&request(&code(secret, &challenge, "{}").to_lowercase(), "{}")), Ok(()));
        // A server that is started again knows nothing of the challenges of the one before.
        let again = Token::from_file(&path).unwrap();
        let stale = request(&code(secret, &token.challenge(), "{}"), "{}");
        assert_eq!(again.check(&stale).map_err(|answer| answer.status), Err(Status::Unauthorized));
        for (text, mode, why) in [
            ("0123456789abcdef", 0o640, "has the mode 0640, so others can read the token: chmod 600"),
            ("0123456789abcdef", 0o604, "0604"),
            ("0123456789abcdef", 0o620, "0620"),
            ("0123456789abcde\n", 0o600, "is too short"),
            ("", 0o600, "is too short"),
            ("0123456789abcdef\n0123456789abcdef", 0o600, "more than one line"),
            ("0123456789 abcdef", 0o400, "other signs"),
            (&"x".repeat(LONGEST + 1), 0o600, "is too long"),
            (&"x".repeat(100_000), 0o600, "is too long"),
        ] {
            let error = written(text, mode).unwrap_err();
            assert!(error.contains(why) && !error.contains('\n') && !error.contains("0123456789"), "{why}: {error}");
        }
        for other in [folder.path(), &folder.path().join("absent")] {
            let error = Token::from_file(other).unwrap_err().to_string();
            assert!(error.contains("openssl rand"), "{error}");
        }
    }
}
