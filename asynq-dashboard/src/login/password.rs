//! The password of people, as an argon2 hash.

use std::{fmt, sync::Arc};

use argon2::{
    Argon2, PasswordHasher as _,
    password_hash::{PasswordVerifier as _, phc::PasswordHash},
};
use asynq_runtime::BoxError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::failure::{Failure, Kind};

/// Most passwords that are checked at a time: each check takes 19 MiB for a moment, with argon2's default settings.
const AT_ONCE: usize = 2;
/// The longest password that is accepted, in bytes: a login with a longer one is refused without a check.
#[doc(hidden)]
pub const MAX_PASSWORD_BYTES: usize = 1024;

/// Returns the argon2id hash of a password, for [`Dashboard::password_hash`](crate::Dashboard::password_hash): each call returns
/// another one, because of its random salt. A call takes about 20 MB and, in a release build, some ten milliseconds.
///
/// # Errors
///
/// The password is empty, so that any visitor could log in, or longer than 1024 bytes, with which no login succeeds.
pub fn hash_password(password: &str) -> Result<String, BoxError> {
    if !(1..=MAX_PASSWORD_BYTES).contains(&password.len()) {
        return Err(format!("a password has 1 to {MAX_PASSWORD_BYTES} bytes, and this one {}", password.len()).into());
    }
    let salt = Uuid::new_v4();
    Ok(Argon2::default().hash_password_with_salt(password.as_bytes(), salt.as_bytes())?.to_string())
}

/// A password of which only the hash is known.
#[derive(Clone)]
pub(crate) struct Password {
    hash: Arc<str>,
    checks: Arc<Semaphore>,
}

impl Password {
    /// Reads a hash in PHC form, `$argon2id$v=19$m=…`; `None` if it is not a valid argon2 hash.
    pub(crate) fn new(hash: &str) -> Option<Self> {
        let read = PasswordHash::new(hash).ok()?;
        let is_argon2 = read.algorithm.as_str().starts_with("argon2") && read.hash.is_some();
        is_argon2.then(|| Self { hash: hash.into(), checks: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// Takes a permit to check one password.
    ///
    /// # Errors
    ///
    /// All permits are taken.
    pub(super) fn permit(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let permit = Arc::clone(&self.checks).try_acquire_owned();
        permit.map_err(|_| Failure::new(Kind::Busy, "others are logging in; try again"))
    }

    /// Returns whether `given` is the password. The check takes as long as the hash was made to take, on a blocking thread, away
    /// from other requests.
    pub(super) async fn is(&self, given: String, permit: OwnedSemaphorePermit) -> Result<bool, Failure> {
        if given.len() > MAX_PASSWORD_BYTES {
            return Ok(false);
        }
        let hash = Arc::clone(&self.hash);
        let check = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            Argon2::default().verify_password(given.as_bytes(), &*hash).is_ok()
        });
        check.await.map_err(|_| Failure::new(Kind::Internal, "the password could not be checked"))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(***)")
    }
}

#[cfg(test)]
mod tests {
    use argon2::{Algorithm, Params, Version};

    use super::*;

    #[tokio::test]
    async fn a_password_is_known_by_its_hash() {
        let cheap = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(16, 1, 1, None).expect("parameters"));
        let hash = cheap.hash_password_with_salt(b"correct horse", b"some salt 16 byt").expect("a hash").to_string();
        let password = Password::new(&hash).expect("argon2");
        let permit = || password.permit().expect("a permit");
        assert!(password.is("correct horse".into(), permit()).await.expect("checked"));
        assert!(!password.is("wrong horse".into(), permit()).await.expect("checked"));
        assert!(!password.is("x".repeat(2000), permit()).await.expect("checked"));
        for bad in ["", "secret", "$2b$12$abc", "$argon2id$v=19$m=16,t=1,p=1$c29tZSBzYWx0"] {
            assert!(Password::new(bad).is_none(), "{bad}");
        }
        assert_eq!(format!("{password:?}"), "Password(***)");
    }

    #[tokio::test]
    async fn the_longest_password_that_is_hashed_is_one_to_log_in_with() {
        let longest = "x".repeat(MAX_PASSWORD_BYTES);
        let password = Password::new(&hash_password(&longest).expect("a hash")).expect("argon2");
        let permit = password.permit().expect("a permit");
        assert!(password.is(longest.clone(), permit).await.expect("checked"));
        let error = hash_password(&(longest + "x")).expect_err("too long to log in with").to_string();
        assert_eq!(error, "a password has 1 to 1024 bytes, and this one 1025");
    }

    /// A program that hashes a variable which is not set must not make a dashboard that admits any visitor.
    #[test]
    fn no_hash_is_made_of_an_empty_password() {
        let error = hash_password("").expect_err("any visitor could log in").to_string();
        assert_eq!(error, "a password has 1 to 1024 bytes, and this one 0");
    }

    #[tokio::test]
    async fn a_hash_is_salted_and_knows_its_password() {
        let (one, other) = (hash_password("pass").expect("a hash"), hash_password("pass").expect("a hash"));
        assert!(one.starts_with("$argon2id$") && one != other, "{one}");
        let password = Password::new(&one).expect("argon2");
        let (permit, other) = (password.permit().expect("one"), password.permit().expect("two"));
        assert_eq!(password.permit().err().map(|failure| failure.kind), Some(Kind::Busy));
        assert!(password.is("pass".into(), permit).await.expect("checked"));
        drop(other);
    }
}
