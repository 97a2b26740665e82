//! Signatures of callbacks, as in Standard Webhooks.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The allowed lengths of the decoded secret, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A signer for calls. Contains the configured secret.
#[derive(Clone)]
pub(crate) struct Signer(Hmac<Sha256>);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

impl Signer {
    /// Parses a secret: `whsec_` followed by 24 to 64 bytes in base64.
    pub(crate) fn new(secret: &str) -> Option<Self> {
        let bytes = BASE64_STANDARD.decode(secret.trim().strip_prefix("whsec_")?).ok()?;
        let fits = SECRET_BYTES.contains(&bytes.len());
        fits.then(|| Hmac::new_from_slice(&bytes).ok()).flatten().map(Self)
    }

    /// Returns the value of the `webhook-signature` header.
    pub(crate) fn sign(&self, id: &str, timestamp_s: u64, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(format!("{id}.{timestamp_s}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses the example from the Standard Webhooks specification.
    #[test]
    fn signature_matches_standard_webhooks() {
        let signer = Signer::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn callback_secret_must_be_long_base64() {
        let secret = |bytes: usize| format!("whsec_{}\n", BASE64_STANDARD.encode(vec![7; bytes]));
        for (text, expected) in [
            (secret(24), true),
            (secret(64), true),
            (secret(23), false),
            (secret(65), false),
            ("whsec_!".into(), false),
        ] {
            assert_eq!(Signer::new(&text).is_some(), expected, "{text}");
        }
        assert!(Signer::new(secret(24).trim_start_matches("whsec_")).is_none());
    }
}
