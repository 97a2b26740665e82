//! Tests the HTTP adapter, composed with a provider, in `wasmtime serve`.

mod host;
mod refusals;
mod scripts;
mod sessions;

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};

use glovebox::Language;
use glovebox_tests::{Case, provider_path, trial_with, wasmtime_path, whole_matrix};
use libtest_mimic::{Failed, Trial};

use host::Host;

/// The fuel limit, which ends an endless loop within a fraction of a second.
const FUEL: u64 = 2_000_000_000;
const BODY_BYTES: usize = 4 << 20;
const STATE_BYTES: usize = 2 << 20;
const KEY: &[u8] = &[7; 32];
const OTHER_KEY: &[u8] = &[8; 32];

pub(crate) fn trials(_: &[Case]) -> Vec<Trial> {
    let served = wasmtime_path().and_then(|_| provider_path("glovebox-javascript-http"));
    let mut trials = vec![
        trial_with("served/javascript", served.clone(), |path| answers(&path, Language::JavaScript)),
        trial_with("served/settings", served, |path| says_what_is_wrong_with_its_settings(&path)),
    ];
    // Compiling the Python provider takes longer than all other tests here.
    if whole_matrix() {
        let parts = wasmtime_path()
            .and_then(|_| provider_path("glovebox-python-closed"))
            .and_then(|provider| Ok((provider, provider_path("http")?)));
        trials.push(trial_with("served/python", parts, |(provider, adapter)| {
            answers(&composed(&provider, &adapter)?, Language::Python)
        }));
    }
    trials
}

/// Composes a provider with the adapter, as `glovebox weave --http` does.
fn composed(provider: &Path, adapter: &Path) -> Result<PathBuf, Failed> {
    let whole = provider.with_file_name("glovebox-python-composed.wasm");
    fs::write(&whole, glovebox_weave::served(&fs::read(provider)?, &fs::read(adapter)?)?)?;
    Ok(whole)
}

fn answers(component: &Path, language: Language) -> Result<(), Failed> {
    let policy = format!("{{\"limits\": {{\"fuel\": {FUEL}}}}}");
    let host = Host::start(
        component,
        &[
            ("GLOVEBOX_SESSION_KEY", &BASE64_STANDARD.encode(KEY)),
            ("GLOVEBOX_POLICY", &policy),
            ("GLOVEBOX_BODY_BYTES", &BODY_BYTES.to_string()),
            ("GLOVEBOX_STATE_BYTES", &STATE_BYTES.to_string()),
        ],
    )?;
    let health = host.ask("GET", "/healthz", &[], b"");
    assert_eq!((health.status, health.text.as_str()), (200, "ok\n"));
    scripts::are_the_engines(&host, language)?;
    scripts::take_what_requests_bring(&host, language);
    scripts::give_all_that_they_wrote(&host, language);
    scripts::are_validated(&host, language)?;
    refusals::name_the_problem(&host);
    refusals::hold_bodies_to_their_limit(&host, language);
    refusals::keep_out_pages_of_others(&host);
    sessions::are_carried(&host, language)?;
    sessions::survive_what_scripts_do(&host, language);
    sessions::refuse_what_was_not_sealed_here(&host, language)?;
    sessions::are_no_larger_than_they_may_be(&host, language);
    Ok(())
}

fn says_what_is_wrong_with_its_settings(component: &Path) -> Result<(), Failed> {
    refusals::ask_for_the_token(&Host::start(component, &[("GLOVEBOX_TOKEN", "secret")])?);
    let host = Host::start(component, &[("GLOVEBOX_SESSION_KEY", "c2hvcnQ=")])?;
    for (method, path) in [("GET", "/healthz"), ("POST", "/v1/execute")] {
        let (status, kind, detail) = host.ask(method, path, &[], b"").problem();
        assert_eq!((status, kind.as_str()), (500, "misconfigured"));
        assert!(detail.contains("GLOVEBOX_SESSION_KEY") && detail.contains("5 bytes"), "{detail}");
    }
    Ok(())
}
