//! Tests prepared images in a cache: shared by processes, reproducible, and rejected when damaged.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use glovebox::{BuildError, Engine, Language, Sandbox};
use glovebox_tests::{Goldens, engine, engine_config, is_large, process, tested_runtimes, whole_matrix};
use tempfile::TempDir;

use super::{another, bare_cache_of, chain};

/// Creates a cache that contains only the default JavaScript binary, which is the smallest, and no prepared images.
fn bare_cache() -> TempDir {
    bare_cache_of("javascript")
}

fn prepared_files(cache: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![cache.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "cwasm") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn prepared_bundle_needs_neither_binary_nor_compiler() {
    let dir = TempDir::new().unwrap();
    let bundle = dir.path().join("prepared.zip");
    engine().write_prepared(&["javascript"], None, &bundle).unwrap();
    // An entry that has not been used for a long time.
    let old = dir.path().join("cache/prepared/old.json");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(old.parent().unwrap()).unwrap();
    fs::File::create(&old).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let mut config = engine_config();
    (config.cache_dir, config.pool, config.prepared) = (Some(dir.path().join("cache")), None, vec![bundle]);
    let fresh = Engine::new(config).unwrap();
    let sandbox = Sandbox::builder(&fresh).language(Language::JavaScript).build().unwrap();
    let execution = sandbox.execute("console.log(6 * 7)").unwrap();
    assert_eq!(execution.stdout.text(), "42\n");
    let sandbox = Sandbox::builder(engine()).language(Language::JavaScript).build().unwrap();
    assert_eq!(execution.metadata.image_sha256, sandbox.execute("").unwrap().metadata.image_sha256);
    assert!(!fresh.runtime_path("javascript").unwrap().exists(), "the binary was not fetched");
    assert!(!old.exists(), "unpacking applies the cache's limits");
}

#[test]
fn processes_share_one_cache() {
    if let Some(cache) = process::child_task() {
        let sandbox = Sandbox::builder(&another(Path::new(&cache))).language(Language::JavaScript).build().unwrap();
        let execution = sandbox.execute("console.log('from the child')").unwrap();
        assert_eq!(execution.stdout.text(), "from the child\n");
        return;
    }
    let dir = bare_cache();
    let task = dir.path().to_str().unwrap();
    // Three engines start concurrently without a prepared image: all must work, and exactly one image must exist
    // afterwards.
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let output =
                    process::run_child("runtimes::caches::processes_share_one_cache", task, Duration::from_secs(120));
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            });
        }
    });
    let first = prepared_files(dir.path());
    assert_eq!(first.len(), 2, "expected the code and its image: {first:?}");
    let made = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    let times: Vec<_> = first.iter().map(made).collect();
    let output = process::run_child("runtimes::caches::processes_share_one_cache", task, Duration::from_secs(120));
    assert!(output.status.success());
    assert_eq!(prepared_files(dir.path()), first);
    assert_eq!(first.iter().map(made).collect::<Vec<_>>(), times, "files must not be rebuilt");
}

/// The timeout for preparing all runtimes.
const PREPARING: Duration = Duration::from_secs(3600);

/// The images' hashes are pinned, because an unnoticed change would invalidate fuel measurements and saved sessions.
#[test]
fn preparing_again_gives_the_same_image() {
    // Use a separate process, because compiling the large runtimes takes more memory than the tests of hostile
    // components allow this process.
    if !process::in_child("runtimes::caches::preparing_again_gives_the_same_image", PREPARING) {
        return;
    }
    let mut seen = BTreeMap::new();
    for info in tested_runtimes().into_iter().filter(|info| !is_large(info) || whole_matrix()) {
        let dir = bare_cache_of(&info.name);
        let again = another(dir.path()).prepare(&info.name).unwrap();
        assert_eq!(again.image_sha256, engine().prepare(&info.name).unwrap().image_sha256, "{}", info.name);
        seen.insert(info.name, again.image_sha256);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/images.toml");
    let mut held: BTreeMap<String, String> = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    if Goldens::blessing() {
        held.extend(seen);
        fs::write(path, toml::to_string(&held).unwrap()).unwrap();
        return;
    }
    // The large images are only checked in the full matrix.
    held.retain(|name, _| seen.contains_key(name));
    assert_eq!(seen, held, "run with BLESS=1 if the boot code or a binary was changed on purpose");
}

#[test]
fn the_duration_does_not_count_preparing() {
    // A slow machine can delay an execution, so one fast execution out of five is enough.
    let mut seen = Vec::new();
    for _ in 0..5 {
        let dir = bare_cache();
        let begun = Instant::now();
        let sandbox = Sandbox::builder(&another(dir.path())).language(Language::JavaScript).build().unwrap();
        let execution = sandbox.execute("console.log(1)").unwrap();
        seen.push((execution.duration, begun.elapsed()));
        if execution.duration < begun.elapsed() / 4 {
            return;
        }
    }
    panic!("durations, and times with preparing: {seen:?}");
}

/// Returns the output of a script in a new engine that uses `cache`.
fn prints_one(cache: &Path) -> Result<String, BuildError> {
    let sandbox = Sandbox::builder(&another(cache)).language(Language::JavaScript).build()?;
    Ok(sandbox.execute("console.log(1)").unwrap().stdout.text())
}

#[test]
fn a_damaged_image_is_not_run() {
    let dir = bare_cache();
    assert_eq!(prints_one(dir.path()).unwrap(), "1\n");
    for nth in [0, 1] {
        // Damages first the code, then the image.
        let file = prepared_files(dir.path()).remove(nth);
        let bytes = fs::read(&file).unwrap();
        // Truncates the file, as a full disk would.
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        let error = chain(&prints_one(dir.path()).unwrap_err());
        assert!(error.contains("damaged") && error.contains("runtimes remove"), "{error}");
        // Clearing the cache, as the error suggests, solves the problem.
        let engine = another(dir.path());
        assert!(engine.runtimes().is_ok());
        assert!(engine.clear_prepared().unwrap() > 0);
        assert_eq!(prints_one(dir.path()).unwrap(), "1\n");
    }
}

#[test]
fn an_image_that_others_may_write_to_is_not_run() {
    let dir = bare_cache();
    assert_eq!(prints_one(dir.path()).unwrap(), "1\n");
    for file in prepared_files(dir.path()) {
        let set = |mode| {
            let mut permissions = fs::metadata(&file).unwrap().permissions();
            std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, mode);
            fs::set_permissions(&file, permissions).unwrap();
        };
        set(0o666);
        let error = chain(&prints_one(dir.path()).unwrap_err());
        assert!(error.contains(file.file_name().unwrap().to_str().unwrap()) && error.contains("chmod"), "{error}");
        set(0o400);
        assert_eq!(prints_one(dir.path()).unwrap(), "1\n");
    }
}
