//! Parses manifests and policies, which are written by hand.

use glovebox::Policy;
use glovebox_runtimes::{Language, Manifest};

/// Parses arbitrary text as a manifest and as a policy. The result must be a valid value or a meaningful error.
pub fn manifest(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Manifest::parse(&text) {
        Ok(manifest) => {
            for entry in manifest.runtimes() {
                for name in entry.aliases.iter().chain([&entry.name]) {
                    let found = manifest.find(name).expect("a name that the manifest lists is found");
                    assert_eq!(found.name, entry.name, "`{name}` must name one runtime");
                }
                assert!(!entry.sources.is_empty(), "a runtime must have a source");
                assert!(manifest.recipe(&entry.recipe).is_some(), "a runtime's recipe must exist");
                assert!(manifest.by_digest(&entry.sha256).is_some(), "a runtime must be found by its digest");
            }
            for language in [Language::Python, Language::JavaScript] {
                if let Some(default) = manifest.default_for(language) {
                    assert_eq!(default.language, language);
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match Policy::from_toml(&text) {
        Ok(policy) => {
            let written = policy.to_toml().expect("a policy from TOML can be written as TOML");
            let again = Policy::from_toml(&written).expect("a policy's own text is a policy");
            assert_eq!(again, policy, "a policy must not change when it is serialized");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../../runtimes/manifest.toml").to_vec(),
        Policy::default().to_toml().expect("the default policy can be written as TOML").into_bytes(),
        b"workspace = 'w'\nargs = ['a']\n[env]\nA = 'b'\n[limits]\nfuel = 5\n[[mounts]]\nhost = 'h'\nguest = '/d'\n"
            .to_vec(),
        b"[tools.t]\nmax_calls = 1\nschema = { properties = { a = { enum = [1, 'b', {}] } }, allOf = [{}, true] }\n"
            .to_vec(),
    ]
}
