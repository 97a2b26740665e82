//! Tests caches: preparation, pruning, permissions, and the report of `glovebox doctor`.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::Value;

use super::{
    glovebox, json, output, prepared, started,
    support::{interrupt, text, wait},
};

/// Creates a separate cache with the fetched binaries and nothing prepared.
pub(super) fn cache_with_binaries() -> tempfile::TempDir {
    let fetched = output(&["runtimes", "fetch", "javascript"]);
    let binary = std::path::PathBuf::from(text(&fetched.stdout).trim_end());
    let cache = tempfile::tempdir().unwrap();
    let (from, name) = (binary.parent().unwrap(), binary.file_name().unwrap());
    let to = cache.path().join(from.file_name().unwrap());
    for (made, mode) in [(cache.path(), 0o700), (&to, 0o700)] {
        fs::create_dir_all(made).unwrap();
        fs::set_permissions(made, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::copy(&binary, to.join(name)).unwrap();
    cache
}

#[test]
fn pruning_keeps_cache_entries_in_use() {
    let cache = cache_with_binaries();
    let dir = cache.path().to_str().unwrap();
    // Add the runtime's code, and an image of the runtime.
    json(&["runtimes", "prepare", "javascript", "--json", "--cache-dir", dir]);
    let images = |flags: &[&str]| {
        let (shown, _) = json(&[&["runtimes", "cache", "--json", "--cache-dir", dir][..], flags].concat());
        let images = shown["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == "images").unwrap().clone();
        assert!(shown["bytes"].as_u64().unwrap() > images["bytes"].as_u64().unwrap(), "the binary is counted, too");
        (images["count"].as_u64().unwrap(), images["in_use"].as_u64().unwrap())
    };
    assert_eq!(images(&[]), (1, 0));
    let (planned, _) = json(&["runtimes", "prune", "--all", "--dry-run", "--json", "--cache-dir", dir]);
    assert_eq!((planned["removed"].as_array().unwrap().len(), images(&[])), (2, (1, 0)));
    let code = "console.log('up'); await new Promise(done => setTimeout(done, 90000))";
    let (mut user, _out) = started(&["run", "--cache-dir", dir, "--timeout-ms", "100000", "-l", "js", "-e", code]);
    assert_eq!(images(&[]), (1, 1));
    let (pruned, _) = json(&["runtimes", "prune", "--all", "--json", "--cache-dir", dir]);
    assert_eq!((pruned["removed"].as_array().unwrap().len(), pruned["in_use"].as_array().unwrap().len()), (0, 2));
    user.kill().unwrap();
    user.wait().unwrap();
    let (pruned, _) = json(&["runtimes", "prune", "--older-than", "0s", "--json", "--cache-dir", dir]);
    assert!(pruned["freed_bytes"].as_u64().unwrap() > 1_000_000, "{pruned}");
    assert_eq!(images(&[]), (0, 0));
    // The image is prepared again. A new image stays in the cache, even if the limits are too low for it.
    let ran = output(&[
        "run",
        "--cache-dir",
        dir,
        "--cache-bytes",
        "1",
        "--cache-age",
        "0s",
        "-l",
        "js",
        "-e",
        "console.log(1)",
    ]);
    assert_eq!(text(&ran.stdout), "1\n");
    assert_eq!(images(&[]), (1, 0));
    // Without flags, the cache's limits apply.
    let (pruned, _) = json(&["runtimes", "prune", "--json", "--cache-dir", dir]);
    assert_eq!(pruned["removed"].as_array().unwrap().len(), 0);
    let (pruned, _) = json(&["runtimes", "prune", "--json", "--cache-dir", dir, "--cache-bytes", "1"]);
    assert_eq!(pruned["removed"].as_array().unwrap().len(), 2);
}

#[test]
fn cache_writable_by_others_is_rejected_and_diagnosed() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = dir.path().to_str().unwrap();
    let ran = output(&["run", "--cache-dir", path, "-e", "print(1)"]);
    assert_eq!(ran.status.code(), Some(125));
    assert!(text(&ran.stderr).contains(path), "{}", text(&ran.stderr));
    let (value, code) = json(&["doctor", "--json", "--cache-dir", path]);
    assert_eq!(code, Some(1));
    assert_eq!(value["ok"], false);
    let checks = value["checks"].as_array().unwrap();
    let wrong: Vec<_> = checks.iter().filter(|check| check["status"] == "wrong").collect();
    assert_eq!(wrong.len(), 1, "{value}");
    assert!(wrong[0]["remedy"].as_str().unwrap().contains("--cache-dir"));
}

#[test]
fn an_unprepared_interpreter_gives_the_same_output() {
    // The default JavaScript binary is a reactor, which cannot run as a command.
    let (value, code) =
        json(&["run", "--json", "--no-prepare", "--runtime", "javascript-0.11", "-e", "console.log(40 + 2)"]);
    assert_eq!(code, Some(0), "{value}");
    assert_eq!(value["stdout"], "42\n");
    assert_eq!(value["metadata"]["prepared"], false);
}

#[test]
fn doctor_reports_no_problem() {
    let (value, code) = json(&["doctor", "--json"]);
    assert_eq!(code, Some(0), "{value:#}");
    assert_eq!(value["ok"], true);
}

#[test]
fn preparation_is_reproducible_and_removable() {
    let cache = cache_with_binaries();
    let dir = cache.path().to_str().unwrap();
    let (first, _) = json(&["runtimes", "prepare", "javascript", "--json", "--cache-dir", dir]);
    let (second, _) = json(&["runtimes", "prepare", "javascript", "--json", "--cache-dir", dir]);
    let (shared, _) = json(&["runtimes", "prepare", "javascript", "--json"]);
    assert_eq!((&first["was_prepared"], &second["was_prepared"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!(first["image_sha256"], second["image_sha256"]);
    assert_eq!(first["image_sha256"], shared["image_sha256"], "preparation is not deterministic");
    let (removed, code) = json(&["runtimes", "remove", "javascript", "--json", "--cache-dir", dir]);
    assert_eq!(code, Some(0));
    assert!(removed["freed_bytes"].as_u64().unwrap() > 1_000_000, "{removed}");
    let (list, _) = json(&["runtimes", "list", "--json", "--cache-dir", dir]);
    assert!(
        list.as_array().unwrap().iter().all(|runtime| runtime["fetched"] == false && runtime["prepared"] == false),
        "{list}"
    );
}

#[test]
fn bundled_interpreters_are_listed_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, bundle) = (dir.path().join("cache"), dir.path().join("prepared.zip"));
    let flags = ["--cache-dir", cache.to_str().unwrap(), "--prepared", bundle.to_str().unwrap()];
    // A runtime that is given twice is written once.
    json(&["runtimes", "bundle", "--compiled", flags[3], "javascript", "javascript", "--json"]);
    let state = || {
        let listed = text(&output(&[&["runtimes", "list", "javascript"][..], &flags].concat()).stdout);
        let (report, code) = json(&[&["doctor", "--no-run", "--json"][..], &flags].concat());
        assert_eq!(code, Some(0), "{report:#}");
        let checks = report["checks"].as_array().unwrap().clone();
        let check = checks.into_iter().find(|check| check["check"] == "runtime javascript").unwrap();
        (listed.split_whitespace().nth(10).unwrap().to_owned(), check["detail"].as_str().unwrap().to_owned())
    };
    assert_eq!(state(), ("bundled".to_owned(), "bundled; the checksums of the unpacked files match".to_owned()));
    let run = output(&[&["run", "--language", "javascript", "-e", "console.log(1)"][..], &flags].concat());
    assert_eq!(text(&run.stdout), "1\n", "{}", text(&run.stderr));
    assert_eq!(state(), ("prepared".to_owned(), "the checksums of code and prepared image match".to_owned()));
}

#[test]
fn a_damaged_binary_is_named_by_doctor_and_never_prepared() {
    let cache = cache_with_binaries();
    let dir = cache.path().to_str().unwrap();
    let path = text(&output(&["runtimes", "path", "javascript", "--cache-dir", dir]).stdout);
    let mut bytes = fs::read(path.trim_end()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path.trim_end(), bytes).unwrap();
    let prepared = output(&["runtimes", "prepare", "javascript", "--cache-dir", dir]);
    assert_eq!(prepared.status.code(), Some(125), "{}", text(&prepared.stdout));
    let verified = output(&["doctor", "--no-run", "--json", "--cache-dir", dir]);
    let value: Value = serde_json::from_slice(&verified.stdout).unwrap();
    let wrong: Vec<_> = value["checks"].as_array().unwrap().iter().filter(|check| check["status"] == "wrong").collect();
    assert!(wrong.iter().any(|check| check["check"] == "runtime javascript"), "{value:#}");
    assert_eq!(verified.status.code(), Some(1));
}

#[test]
fn ctrl_c_cancels_a_preparation() {
    let cache = cache_with_binaries();
    let dir = cache.path().to_str().unwrap();
    let mut child = prepared(&["runtimes", "prepare", "javascript", "--cache-dir", dir]).spawn().unwrap();
    interrupt(&child);
    assert_eq!(wait(&mut child), 130);
    let (next, code) = json(&["runtimes", "prepare", "javascript", "--json", "--cache-dir", dir]);
    assert_eq!((code, &next["was_prepared"]), (Some(0), &Value::Bool(false)));
}

#[test]
fn workspace_over_cache_or_state_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, state) = (dir.path().join("a/cache"), dir.path().join("b/state"));
    fs::create_dir_all(cache.join("prepared")).unwrap();
    fs::create_dir_all(dir.path().join("beside")).unwrap();
    let refused = |args: &[&str]| {
        let mut command = glovebox(&["--cache-dir", cache.to_str().unwrap()]);
        let output = command.args(args).env("XDG_STATE_HOME", &state).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{args:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    let (above, inside) = (dir.path().join("a"), cache.join("prepared"));
    for host in [&above, &cache, &inside] {
        let host = host.to_str().unwrap();
        let mount = format!("{host}:/data");
        let messages = [
            refused(&["run", "--workspace", host, "-e", "1"]),
            refused(&["run", "--mount", &mount, "-e", "1"]),
            refused(&["run", "--workspace", host, "--session", "s", "-e", "1"]),
        ];
        for message in messages {
            assert!(message.contains(cache.to_str().unwrap()) && message.contains(host), "{message}");
            assert!(message.contains("--cache-dir"), "{message}");
        }
    }
    // The state directory is protected even if it does not exist and this command does not use it.
    let above = dir.path().join("b");
    fs::create_dir_all(&above).unwrap();
    let message = refused(&["run", "--workspace", above.to_str().unwrap(), "-e", "1"]);
    assert!(message.contains("XDG_STATE_HOME") && message.contains(state.to_str().unwrap()), "{message}");
}
