//! TLS for what the host itself asks over a network.

use std::sync::{Arc, OnceLock};

/// The certificates that this machine trusts, as they were when they were first needed.
pub(crate) fn config() -> Result<rustls::ClientConfig, String> {
    static CONFIG: OnceLock<Result<rustls::ClientConfig, String>> = OnceLock::new();
    let make = || {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in rustls_native_certs::load_native_certs().certs {
            // One that cannot be read is not trusted.
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
