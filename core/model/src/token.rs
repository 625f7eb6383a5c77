//! Tokens of drivers: who shows one may look at, scale and stop one job, and end instances of it by name. A token is signed with a key
//! that the whole federation shares, so any shard can give the same one to each run of a driver and any gateway can judge it, and
//! nothing has to be kept for it. It is of use as long as its job has not ended.

use crate::id::JobId;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// What stands before the job, so that nothing else that is ever signed with this key is a token.
const CONTEXT: &[u8] = b"echelon driver 1 ";
/// What a token begins with: it can be told from others where it should not be.
const PREFIX: &str = "ech1";

/// The key that tokens are signed with: 32 random bytes, in one row of storage. Never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenKey([u8; 32]);

impl TokenKey {
    /// From two times 128 random bits.
    #[must_use]
    pub fn new(chance: [u128; 2]) -> Self {
        let mut key = [0; 32];
        let bytes = chance.iter().flat_map(|half| half.to_be_bytes());
        key.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        Self(key)
    }

    /// As it is stored.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// From what is stored; `None` when that is no key.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The token of a job's driver.
    #[must_use]
    pub fn sign(&self, job: JobId) -> Option<String> {
        let seal = self.seal(job)?.finalize().into_bytes();
        let seal: String = seal.iter().map(|b| format!("{b:02x}")).collect();
        Some(format!("{PREFIX}.{job}.{seal}"))
    }

    /// The job that a token is for, if it was signed with this key. Takes as long whatever is wrong with its seal.
    #[must_use]
    pub fn verify(&self, token: &str) -> Option<JobId> {
        let mut parts = token.split('.');
        let (prefix, job, seal) = (parts.next()?, parts.next()?, parts.next()?);
        if prefix != PREFIX || parts.next().is_some() || !seal.is_ascii() || seal.len() != 64 {
            return None;
        }
        let job: JobId = job.parse().ok()?;
        let byte = |at: usize| u8::from_str_radix(seal.get(at..at + 2)?, 16).ok();
        let seal: Vec<u8> = (0..64).step_by(2).map(byte).collect::<Option<_>>()?;
        self.seal(job)?.verify_slice(&seal).ok().map(|()| job)
    }

    fn seal(&self, job: JobId) -> Option<Hmac<Sha256>> {
        let mut seal = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        seal.update(CONTEXT);
        seal.update(&job.0.to_be_bytes());
        Some(seal)
    }
}

/// Whoever logs what holds a key says only that there is one.
impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_its_job_and_good_under_its_key_only() {
        let (key, other) = (TokenKey::new([1, 2]), TokenKey::new([1, 3]));
        let token = key.sign(JobId(77)).unwrap();
        assert_eq!(key.sign(JobId(77)).unwrap(), token, "whoever signs it");
        assert_eq!(key.verify(&token), Some(JobId(77)));
        assert_eq!(other.verify(&token), None);
        let elsewhere = token.replace(&JobId(77).to_string(), &JobId(78).to_string());
        assert_eq!(key.verify(&elsewhere), None);
        let (head, last) = token.split_at(token.len() - 1);
        let forged = format!("{head}{}", if last == "0" { "1" } else { "0" });
        for wrong in [
            forged.as_str(),
            head,
            "",
            "ech1",
            "ech1..",
            &format!("{token}.x"),
            &token.replace("ech1", "ech2"),
        ] {
            assert_eq!(key.verify(wrong), None, "{wrong}");
        }
        assert_eq!(TokenKey::from_bytes(key.bytes()), Some(key));
        assert_eq!(TokenKey::from_bytes(&[1; 31]), None);
        assert!(!format!("{key:?}").contains('1'));
    }
}
