//! Version 0.3.0 of the provider, between a program that calls it and tools that it calls: the scenarios of the program
//! `composed`, which the `wasmtime` command runs.

use std::{fs, path::Path};

use glovebox_tests::{Case, everywhere::Host, missing_trial, program_path, provider_path, trial_with, wasmtime_path};
use libtest_mimic::{Failed, Trial};
use wit_parser::Resolve;

/// The scenarios with their expected results.
const SCENARIOS: [(&str, &str); 20] = [
    ("meet-javascript", "10,10,10,10,10,10,10,10,10,10"),
    ("meet-python", "10,10,10,10,10,10,10,10,10,10"),
    ("several", "0 1 2"),
    ("tool-timeout", "ToolTimeout,ok,ToolTimeout; 0 open, 2 dropped"),
    ("nested", "2 runtimes, begun ToolTimeout, 1; 0 open, 1 dropped"),
    ("nested-session", "true ToolTimeout"),
    ("cancel", "before, then before (cancelled); 0 open, 1 dropped"),
    ("cancel-loop", "before, then before (cancelled)"),
    ("drop-started", "0 bytes more; 0 open, 1 dropped"),
    ("drop-execute", "0 open, 1 dropped"),
    ("drop-queued", "first; 0 open, 0 dropped"),
    ("drop-before-begin", "usable"),
    ("session", "true 42"),
    ("unsupported", "true true true true"),
    ("stream-output", "[200000, 200000] 200000"),
    ("stream-events", "0 true, 1 true true"),
    ("stream-dropped", "10 100005 usable"),
    ("stream-after-end", "5 0 usable"),
    ("stream-files", "300000 300000 10 true 1 left"),
    ("stream-write-dropped", "1000 true usable"),
];

pub(crate) fn trials(_: &[Case]) -> Vec<Trial> {
    let built = program_path("composed-0.3").and_then(|path| wasmtime_path().map(|_| path));
    let component = match built {
        Ok(path) => path,
        Err(line) => return vec![missing_trial("composed", line)],
    };
    let mut trials: Vec<_> = SCENARIOS
        .iter()
        .map(|(name, expected)| {
            let component = component.clone();
            Trial::test(format!("composed/{name}"), move || show(&component, name, expected))
        })
        .collect();
    trials.push(trial_with("composed/world", provider_path("glovebox-0.3"), |path| fits(&path)));
    trials
}

fn show(component: &Path, name: &str, expected: &str) -> Result<(), Failed> {
    let output = Host::invoke(component, &format!("scenario({name:?})"))?.output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if printed.trim_end() == format!("ok({expected:?})") {
        return Ok(());
    }
    let complained = String::from_utf8_lossy(&output.stderr);
    Err(format!("exited with {} and printed\n{printed}instead of {expected}\n{complained}", output.status).into())
}

/// Checks that the provider matches the contract's world, including the types of every function.
fn fits(path: &Path) -> Result<(), Failed> {
    let mut resolve = Resolve::default();
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
    resolve.push_dir(&wit)?;
    resolve.push_dir(wit.join("0.3"))?;
    let with_clocks = resolve.push_str("with-clocks.wit", WITH_CLOCKS)?;
    let world = resolve.select_world(&[with_clocks], Some("provider-with-clocks"))?;
    wit_component::targets(&resolve, world, &fs::read(path)?).map_err(|error| format!("{error:?}").into())
}

const WITH_CLOCKS: &str = "
    package glovebox:tests;

    world provider-with-clocks {
        include glovebox:sandbox/provider@0.3.0;
        import wasi:clocks/monotonic-clock@0.3.0;
        import wasi:clocks/system-clock@0.3.0;
    }

    package wasi:clocks@0.3.0 {
        interface types {
            type duration = u64;
        }

        interface monotonic-clock {
            use types.{duration};

            type mark = u64;

            now: func() -> mark;
            wait-for: async func(how-long: duration);
        }

        interface system-clock {
            record instant {
                seconds: s64,
                nanoseconds: u32,
            }

            now: func() -> instant;
        }
    }
";
