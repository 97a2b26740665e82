//! TLS for the host's own network requests.

use std::sync::{Arc, OnceLock};

/// Returns TLS settings for HTTP clients of this process: the certificates that this machine trusts, as they were when
/// they were first needed.
///
/// # Errors
/// If TLS cannot be set up, with the reason.
pub fn tls_config() -> Result<rustls::ClientConfig, String> {
    static CONFIG: OnceLock<Result<rustls::ClientConfig, String>> = OnceLock::new();
    let make = || {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in rustls_native_certs::load_native_certs().certs {
            // A certificate that cannot be parsed is not trusted.
            let _ = roots.add(certificate);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        config
            .map(|config| config.with_root_certificates(roots).with_no_client_auth())
            .map_err(|error| format!("TLS cannot be set up: {error}"))
    };
    CONFIG.get_or_init(make).clone()
}
