//! The token that lets a page change settings: a file that only its owner can read.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use subtle::ConstantTimeEq;
use thiserror::Error;

use super::{
    answer::{Answer, Status},
    request::Request,
};

/// A shorter token could be guessed.
const SHORTEST: usize = 16;
/// A longer one does not fit into the head of a request.
const LONGEST: usize = 512;

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

/// The token. Its text is in no message.
pub struct Token(Box<[u8]>);

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
                Ok(Token(token.as_bytes().into()))
            }
            SHORTEST..=LONGEST => Err(wrong("has more than one line, or other signs")),
            _ => Err(wrong("is too long")),
        }
    }

    /// Whether this is the token. The time that the comparison takes depends on the length only.
    fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }

    /// Refuses requests that do not have the token (`Authorization: Bearer TOKEN`).
    ///
    /// # Errors
    /// The answer to the request.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Answer> {
        let given = request.header("authorization")?.and_then(|value| value.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        match given {
            Some(token) if self.is(token.as_bytes()) => Ok(()),
            Some(_) => Err(Answer::refused(Status::Unauthorized, "this is not the token")),
            None => Err(Answer::refused(Status::Unauthorized, "settings need the token")),
        }
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
        let check = |header: &str| {
            let request = Request::parsed(&format!("POST /settings HTTP/1.1\r\nContent-Length: 0\r\n{header}\r\n"));
            token.check(&request).map_err(|answer| answer.status)
        };
        assert_eq!(check("Authorization: Bearer 0123456789abcdef\r\n"), Ok(()));
        assert_eq!(check("authorization: bearer 0123456789abcdef\r\n"), Ok(()));
        for wrong in [
            "",
            "Authorization: Bearer\r\n",
            "Authorization: Bearer \r\n",
            "Authorization: Bearer 0123456789abcdeF\r\n",
            "Authorization: Bearer 0123456789abcde\r\n",
            "Authorization: Bearer 0123456789abcdef0\r\n",
            "Authorization: Basic 0123456789abcdef\r\n",
        ] {
            assert_eq!(check(wrong), Err(Status::Unauthorized), "{wrong}");
        }
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
