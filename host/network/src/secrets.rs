//! Secrets and their placeholders.
//!
//! A script reads a placeholder from its environment and puts it into a header. The host replaces the placeholder with
//! the secret only in header values, only for the secret's host, and only over an encrypted or local connection. If a
//! response contains the secret, the script receives the placeholder instead.

use std::{collections::BTreeMap, env, fmt, sync::OnceLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use glovebox::{Entropy, NetworkPolicy, PolicyError, SecretPolicy};
use hmac::{Hmac, KeyInit, Mac};
use memchr::memmem::Finder;
use sha2::Sha256;
use url::{Host, Url};
use zeroize::Zeroizing;

/// The prefix of all placeholders.
const PLACEHOLDER_START: &str = NetworkPolicy::PLACEHOLDER_START;
/// Minimum length of a secret in bytes. Shorter secrets could occur in unrelated responses.
const MIN_SECRET_BYTES: usize = 8;
/// Maximum length of a secret in bytes. Servers limit the size of request headers.
const MAX_SECRET_BYTES: usize = 4096;

/// The secrets of a policy. Their values are zeroed on drop.
pub(crate) struct Secrets(Vec<Secret>);

struct Secret {
    name: String,
    placeholder: String,
    value: Zeroizing<String>,
    policy: SecretPolicy,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|secret| (&secret.name, &secret.policy))).finish()
    }
}

/// The secrets to hide in a response, each with its placeholder.
#[derive(Default)]
pub(crate) struct Reflections(Vec<(Zeroizing<Vec<u8>>, String)>);

impl fmt::Debug for Reflections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reflections({})", self.0.len())
    }
}

/// Returns `true` if a connection to the URL is encrypted or stays on this machine. The resolver ensures that
/// `localhost` is this machine.
fn is_private(url: &Url) -> bool {
    match url.host() {
        _ if url.scheme() == "https" => true,
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Creates the error for an unusable secret.
fn wrong(key: impl Into<String>, reason: impl Into<String>) -> PolicyError {
    PolicyError::Network { key: key.into(), reason: reason.into() }
}

/// Returns the key for deriving placeholders: a random key per process, so that a script cannot compute another
/// policy's placeholders. With seeded entropy, the key is derived from the seed, so that placeholders are reproducible.
fn key(entropy: Entropy) -> Result<[u8; 32], PolicyError> {
    static KEY: OnceLock<[u8; 32]> = OnceLock::new();
    if let Some(key) = entropy.key() {
        return Ok(key);
    }
    if let Some(key) = KEY.get() {
        return Ok(*key);
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|_| wrong("secrets", "cannot get random numbers for placeholders"))?;
    Ok(*KEY.get_or_init(|| key))
}

fn placeholder(key: &[u8; 32], name: &str, secret: &SecretPolicy) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return PLACEHOLDER_START.to_owned() };
    for part in [name, &secret.env, &secret.host] {
        mac.update(part.as_bytes());
        mac.update(&[0]);
    }
    let bytes = mac.finalize().into_bytes();
    bytes.iter().take(16).fold(PLACEHOLDER_START.to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

impl Secrets {
    /// Reads the secrets from the host's environment.
    pub(crate) fn read(policies: &BTreeMap<String, SecretPolicy>, entropy: Entropy) -> Result<Self, PolicyError> {
        Self::read_from(policies, entropy, &|name| env::var(name).ok())
    }

    pub(crate) fn read_from(
        policies: &BTreeMap<String, SecretPolicy>,
        entropy: Entropy,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, PolicyError> {
        let key = key(entropy)?;
        let mut secrets = Vec::new();
        for (name, policy) in policies {
            let refuse = |reason: String| wrong(format!("secrets.{name}"), reason);
            let variable = &policy.env;
            let value = environment(variable).map(Zeroizing::new);
            let value =
                value.ok_or_else(|| refuse(format!("the host's environment variable `{variable}` is not set")))?;
            if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&value.len()) {
                let message = format!("`{variable}` must be {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes long");
                return Err(refuse(message));
            }
            if !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) || value.trim().len() != value.len() {
                return Err(refuse(format!(
                    "`{variable}` has leading or trailing spaces, or characters other than printable ASCII; correct it"
                )));
            }
            let placeholder = placeholder(&key, name, policy);
            secrets.push(Secret { name: name.clone(), placeholder, value, policy: policy.clone() });
        }
        Ok(Self(secrets))
    }

    /// Returns the script's environment variables, which contain the placeholders.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|secret| (secret.name.clone(), secret.placeholder.clone())).collect()
    }

    /// Returns `true` if a header value contains a placeholder, including inside `Basic` credentials.
    pub(crate) fn are_in(&self, value: &str) -> bool {
        let is_in = |text: &str| self.0.iter().any(|secret| text.contains(&secret.placeholder));
        is_in(value) || basic(value).is_some_and(|credentials| is_in(&credentials))
    }

    /// Replaces placeholders in a header value, and adds their secrets to `reflections`. Fails if a secret is not for
    /// this URL's host, or if the connection is neither encrypted nor local.
    pub(crate) fn fill(
        &self,
        url: &Url,
        value: &str,
        reflections: &mut Reflections,
    ) -> Result<Zeroizing<String>, String> {
        match basic(value).filter(|credentials| credentials.contains(PLACEHOLDER_START)) {
            // `Basic` encodes user and password in a single base64 string.
            Some(credentials) => {
                let filled = self.fill_text(url, &credentials, reflections)?;
                let encoded = Zeroizing::new(STANDARD.encode(filled.as_bytes()));
                if *filled != credentials {
                    let shown = STANDARD.encode(credentials.as_bytes());
                    reflections.0.push((Zeroizing::new(encoded.as_bytes().to_vec()), shown));
                }
                Ok(Zeroizing::new(format!("Basic {}", *encoded)))
            }
            None => self.fill_text(url, value, reflections),
        }
    }

    fn fill_text(&self, url: &Url, text: &str, reflections: &mut Reflections) -> Result<Zeroizing<String>, String> {
        let mut filled = Zeroizing::new(text.to_owned());
        for Secret { name, placeholder, value, policy } in &self.0 {
            if !text.contains(placeholder.as_str()) {
                continue;
            }
            if !policy.is_for(url) {
                return Err(format!("the secret `{name}` may only be sent to `{}`", policy.host));
            }
            if !is_private(url) {
                return Err(format!("the secret `{name}` may only be sent over `https`"));
            }
            reflections.add(value, placeholder);
            filled = Zeroizing::new(filled.replace(placeholder.as_str(), value));
        }
        Ok(filled)
    }

    /// Adds all secrets of this URL's host, because a response can contain a secret that the request did not send.
    pub(crate) fn reflect(&self, url: &Url, reflections: &mut Reflections) {
        for secret in self.0.iter().filter(|secret| secret.policy.is_for(url)) {
            reflections.add(&secret.value, &secret.placeholder);
        }
    }
}

/// Decodes the credentials in a `Basic` header value.
fn basic(value: &str) -> Option<String> {
    let (scheme, encoded) = value.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()
}

impl Reflections {
    fn add(&mut self, value: &Zeroizing<String>, placeholder: &str) {
        if !self.0.iter().any(|(_, shown)| shown == placeholder) {
            self.0.push((Zeroizing::new(value.as_bytes().to_vec()), placeholder.to_owned()));
        }
    }

    /// Replaces secrets in a body. Returns `None` if the result exceeds `max_bytes`: a placeholder can be longer than
    /// its secret.
    pub(crate) fn hide(&self, bytes: Vec<u8>, max_bytes: usize) -> Option<Vec<u8>> {
        let mut needles: Vec<_> = self.0.iter().collect();
        // Replace longer secrets first, because a secret can contain another one.
        needles.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        needles
            .into_iter()
            .try_fold(bytes, |bytes, (value, shown)| replace_all(bytes, value, shown.as_bytes(), max_bytes))
    }

    /// Replaces secrets in a header or a URL. Both are short, so their size is not limited.
    pub(crate) fn hide_text(&self, text: String) -> String {
        if self.0.is_empty() {
            return text;
        }
        let hidden = self.hide(text.into_bytes(), usize::MAX).unwrap_or_default();
        String::from_utf8_lossy(&hidden).into_owned()
    }
}

/// Replaces all occurrences of `needle`. Computes and checks the new length before allocating. Returns `None` if the
/// new length exceeds `max_bytes`.
fn replace_all(bytes: Vec<u8>, needle: &[u8], with: &[u8], max_bytes: usize) -> Option<Vec<u8>> {
    let finder = Finder::new(needle);
    let count = finder.find_iter(&bytes).count();
    if count == 0 {
        return Some(bytes);
    }
    let len = (bytes.len() - count * needle.len()).checked_add(count.checked_mul(with.len())?)?;
    if len > max_bytes {
        return None;
    }
    let mut made = Vec::with_capacity(len);
    let mut from = 0;
    for at in finder.find_iter(&bytes) {
        made.extend_from_slice(bytes.get(from..at).unwrap_or_default());
        made.extend_from_slice(with);
        from = at + needle.len();
    }
    made.extend_from_slice(bytes.get(from..).unwrap_or_default());
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_removal_respects_the_response_limit() {
        let mut reflections = Reflections::default();
        let (secret, shown) = ("secret-1", "glovebox-secret-0123456789abcdef0123456789abcdef");
        reflections.add(&Zeroizing::new(secret.to_owned()), shown);
        let body = secret.repeat(1_000).into_bytes();
        let at = shown.len() * 1_000;
        assert_eq!(reflections.hide(body.clone(), at), Some(shown.repeat(1_000).into_bytes()));
        assert_eq!(reflections.hide(body, at - 1), None);
        let mixed = format!("a{secret}b{secret}").into_bytes();
        assert_eq!(reflections.hide(mixed, 1_000), Some(format!("a{shown}b{shown}").into_bytes()));
        assert_eq!(reflections.hide(b"nothing".to_vec(), 0), Some(b"nothing".to_vec()));
    }
}
