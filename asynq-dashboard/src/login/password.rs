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

/// Passwords that are checked at a time: each takes 19 MiB for a moment, with argon2's own settings.
const AT_ONCE: usize = 2;
/// Longest password that is looked at.
const LONGEST: usize = 1024;

/// The argon2id hash of a password, for [`Dashboard::password_hash`](crate::Dashboard::password_hash): each call gives
/// another one. It takes about 20 MB and, in a release build, some ten milliseconds.
///
/// # Errors
///
/// A password that is longer than argon2 takes, 4 GiB.
pub fn hash_password(password: &str) -> Result<String, BoxError> {
    let salt = Uuid::new_v4();
    Ok(Argon2::default().hash_password_with_salt(password.as_bytes(), salt.as_bytes())?.to_string())
}

/// A password that only its hash is known of.
#[derive(Clone)]
pub(crate) struct Password {
    hash: Arc<str>,
    checks: Arc<Semaphore>,
}

impl Password {
    /// Of a hash in PHC form: `$argon2id$v=19$m=…`.
    pub(crate) fn new(hash: &str) -> Option<Self> {
        let read = PasswordHash::new(hash).ok()?;
        let is_argon2 = read.algorithm.as_str().starts_with("argon2") && read.hash.is_some();
        is_argon2.then(|| Self { hash: hash.into(), checks: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// A place to check one.
    ///
    /// # Errors
    ///
    /// Others have them all.
    pub(super) fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let place = Arc::clone(&self.checks).try_acquire_owned();
        place.map_err(|_| Failure::new(Kind::Busy, "others are logging in; try again"))
    }

    /// Whether it is the one. It takes as long as the hash was made to take, away from the threads of other requests.
    pub(super) async fn is(&self, given: String, place: OwnedSemaphorePermit) -> Result<bool, Failure> {
        if given.len() > LONGEST {
            return Ok(false);
        }
        let hash = Arc::clone(&self.hash);
        let check = tokio::task::spawn_blocking(move || {
            let _place = place;
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
        let place = || password.place().expect("a place");
        assert!(password.is("correct horse".into(), place()).await.expect("checked"));
        assert!(!password.is("wrong horse".into(), place()).await.expect("checked"));
        assert!(!password.is("x".repeat(2000), place()).await.expect("checked"));
        for bad in ["", "secret", "$2b$12$abc", "$argon2id$v=19$m=16,t=1,p=1$c29tZSBzYWx0"] {
            assert!(Password::new(bad).is_none(), "{bad}");
        }
        assert_eq!(format!("{password:?}"), "Password(***)");
    }

    #[tokio::test]
    async fn a_hash_is_salted_and_knows_its_password() {
        let (one, other) = (hash_password("pass").expect("a hash"), hash_password("pass").expect("a hash"));
        assert!(one.starts_with("$argon2id$") && one != other, "{one}");
        let password = Password::new(&one).expect("argon2");
        let (place, other) = (password.place().expect("one"), password.place().expect("two"));
        assert_eq!(password.place().err().map(|failure| failure.kind), Some(Kind::Busy));
        assert!(password.is("pass".into(), place).await.expect("checked"));
        drop(other);
    }
}
