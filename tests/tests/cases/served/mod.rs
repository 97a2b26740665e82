//! Tests both forms of the HTTP adapter, composed with a provider, in `wasmtime serve`.

mod host;
mod refusals;
mod scripts;
mod sessions;

use std::{fs, path::Path};

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
        trial_with("served/settings", served, |path| missing_and_invalid_settings_are_named(&path)),
        composed_trial("served/javascript-0.3", Language::JavaScript, "http-0.3"),
    ];
    // Compiling the Python provider takes longer than all other tests here.
    if whole_matrix() {
        trials.push(composed_trial("served/python", Language::Python, "http"));
        trials.push(composed_trial("served/python-0.3", Language::Python, "http-0.3"));
    }
    trials
}

/// Creates a trial that composes a provider with an adapter, as `glovebox weave --http` does.
fn composed_trial(name: &str, language: Language, adapter: &str) -> Trial {
    let provider = format!("glovebox-{}", language.name());
    let whole = format!("{provider}-{adapter}-composed.wasm");
    let parts =
        wasmtime_path().and_then(|_| Ok((provider_path(&format!("{provider}-closed"))?, provider_path(adapter)?)));
    trial_with(name, parts, move |(provider, adapter)| {
        let whole = provider.with_file_name(whole);
        fs::write(&whole, glovebox_weave::served(&fs::read(provider)?, &fs::read(adapter)?)?)?;
        answers(&whole, language)?;
        missing_and_invalid_settings_are_named(&whole)
    })
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
    scripts::results_equal_the_engines(&host, language)?;
    scripts::request_fields_reach_the_script(&host, language);
    scripts::long_output_is_truncated(&host, language);
    scripts::diagnostics_equal_the_engines(&host, language)?;
    refusals::rejections_name_the_problem(&host);
    refusals::body_size_is_limited(&host, language);
    refusals::late_body_delays_no_other_request(&host, language);
    refusals::foreign_origin_is_rejected(&host);
    sessions::state_is_in_each_response(&host, language)?;
    sessions::unwound_session_continues_and_exited_session_ends(&host, language);
    sessions::only_sealed_states_are_resumed(&host, language)?;
    sessions::state_size_is_limited(&host, language);
    Ok(())
}

fn missing_and_invalid_settings_are_named(component: &Path) -> Result<(), Failed> {
    refusals::token_is_required(&Host::start(component, &[("GLOVEBOX_TOKEN", "secret")])?);
    let host = Host::start(component, &[("GLOVEBOX_SESSION_KEY", "c2hvcnQ=")])?;
    for (method, path) in [("GET", "/healthz"), ("POST", "/v1/execute")] {
        let (status, kind, detail) = host.ask(method, path, &[], b"").problem();
        assert_eq!((status, kind.as_str()), (500, "misconfigured"));
        assert!(detail.contains("GLOVEBOX_SESSION_KEY") && detail.contains("5 bytes"), "{detail}");
    }
    Ok(())
}
