//! Tests that each download is checked against its pin before it is stored, and that no file is downloaded twice.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::Mutex,
    time::{Duration, Instant, SystemTime},
};

use glovebox_runtimes::{
    ArtefactKey, CacheKind, Digest, FetchOutcome, Fetcher, KeyParts, Language, Manifest, NoProgress, PackageList,
    Progress, RuntimeError, Runtimes,
};

use crate::support::{CHILD, World, artefact, child, manifest, parts, pinned};

fn fetch(runtimes: &Runtimes) -> Result<FetchOutcome, RuntimeError> {
    let entry = runtimes.manifest().find("fake").unwrap();
    runtimes.fetch(entry, &NoProgress)
}

fn requested(world: &World) -> Vec<String> {
    let text = fs::read_to_string(world.path("asked")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn binary_is_fetched_once_and_then_used_offline() {
    let world = World::with_wheels();
    world.wheel("first", "a/fake.wasm", &pinned());
    let runtimes = world.runtimes();
    let entry = runtimes.manifest().find("fake").unwrap();
    let missing = runtimes.load(entry).unwrap_err().to_string();
    assert!(missing.contains("`glovebox runtimes fetch fake`") && missing.contains("--runtime-path"), "{missing}");
    assert!(missing.contains(&runtimes.path(entry).display().to_string()), "{missing}");

    assert_eq!(fetch(&runtimes).unwrap(), FetchOutcome::Now);
    let binary = runtimes.load(entry).unwrap();
    assert_eq!((binary.bytes, binary.sha256), (pinned(), entry.sha256));
    assert!(binary.recipe.is_some() && binary.path == runtimes.path(entry));
    runtimes.verify(entry).unwrap();
    assert_eq!(world.files("binaries").len(), 1);

    // Use a pip command that cannot start, to show that pip is not needed.
    let offline = world.runtimes().with_fetcher(Fetcher::with_commands(vec![vec!["/nonexistent".into()]]));
    assert_eq!(fetch(&offline).unwrap(), FetchOutcome::AlreadyThere);
    offline.load_or_fetch(entry, &NoProgress).unwrap();
    assert_eq!(requested(&world), ["first==1"]);
    assert_eq!((runtimes.remove(entry).unwrap(), runtimes.remove(entry).unwrap()), (entry.size_bytes, 0));
    assert!(!runtimes.present(entry).unwrap());
}

#[test]
fn wrong_checksum_is_rejected_with_both_values() {
    let world = World::with_wheels();
    let mut wrong = pinned();
    wrong[100_000] ^= 1;
    world.wheel("first", "a/fake.wasm", &wrong);
    world.wheel("second", "b/fake.wasm", &wrong);
    let error = fetch(&world.runtimes()).unwrap_err().to_string();
    for digest in [Digest::of(&pinned()), Digest::of(&wrong)] {
        assert_eq!(
            error.matches(&digest.to_string()).count(),
            2 + usize::from(digest == Digest::of(&pinned())),
            "{error}"
        );
    }
    assert!(error.contains("expected sha256") && error.contains("got"), "{error}");
    assert_eq!(world.files("binaries"), [""; 0]);
}

#[test]
fn sources_are_tried_in_order() {
    let world = World::with_wheels();
    world.wheel("second", "b/fake.wasm", &pinned());
    assert_eq!(fetch(&world.runtimes()).unwrap(), FetchOutcome::Now);
    assert_eq!(requested(&world), ["first==1", "second==2"]);
}

#[test]
fn failure_names_each_source_and_reason() {
    let world = World::with_wheels();
    world.wheel("first", "elsewhere.wasm", &pinned());
    let error = fetch(&world.runtimes()).unwrap_err().to_string();
    let entry = manifest(&pinned()).find("fake").unwrap().clone();
    for part in [
        "`fake`",
        "`a/fake.wasm` in the wheel first 1: the package has no file `a/fake.wasm`",
        "`b/fake.wasm` in the wheel second 2: ",
        "ERROR: No matching distribution for second==2",
        "check the network",
        &world.runtimes().path(&entry).display().to_string(),
        &entry.sha256.to_string(),
        "--runtime-path",
    ] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
    assert_eq!(world.files("binaries"), [""; 0]);
}

#[test]
fn missing_pip_error_says_what_to_install() {
    let world = World::new("");
    let none = Fetcher::with_commands(vec![vec!["/nonexistent/pip".into()], vec!["/bin/false".into(), "x".into()]]);
    let error = fetch(&world.runtimes().with_fetcher(none)).unwrap_err().to_string();
    assert!(error.contains("`/nonexistent/pip`, `/bin/false x`") && error.contains("install Python's pip"), "{error}");
}

#[test]
fn endless_wheel_stops_at_the_pinned_length() {
    let world = World::with_wheels();
    world.wheel("first", "a/fake.wasm", &vec![0; 64 << 20]);
    world.wheel("second", "b/fake.wasm", &pinned()[..1000]);
    let error = fetch(&world.runtimes()).unwrap_err().to_string();
    assert!(error.contains("expected 800008 bytes, got more"), "{error}");
    assert!(error.contains("expected 800008 bytes, got 1000"), "{error}");
    assert_eq!(world.files("binaries"), [""; 0]);
}

#[test]
fn broken_or_missing_wheel_is_an_error() {
    let world = World::new("case $wanted in first*) echo rubbish > x.whl ;; esac");
    let error = fetch(&world.runtimes()).unwrap_err().to_string();
    assert!(error.contains("cannot be read") && error.contains("contains no package"), "{error}");
}

#[test]
fn pip_output_cannot_control_the_terminal() {
    let world = World::new("printf 'ERROR: \\033[2Jgone\\n'; exit 1");
    let error = fetch(&world.runtimes()).unwrap_err().to_string();
    assert!(error.contains("ERROR: [2Jgone") && !error.contains('\u{1b}'), "{error}");
}

#[test]
fn pip_runs_in_an_empty_directory() {
    let world = World::new("pwd > $world/where; ls -A | grep -v pip.log > $world/seen; exit 1");
    fetch(&world.runtimes()).unwrap_err();
    let place = fs::read_to_string(world.path("where")).unwrap();
    assert!(Path::new(place.trim()).starts_with(fs::canonicalize(world.path("cache/binaries")).unwrap()), "{place}");
    assert_eq!(fs::read_to_string(world.path("seen")).unwrap(), "");
}

/// A receiver that cancels after the fake pip has written its process ID.
struct CancelWhenRunning<'a>(&'a World);

impl Progress for CancelWhenRunning<'_> {
    fn cancelled(&self) -> bool {
        fs::read_to_string(self.0.path("pid")).is_ok_and(|text| text.ends_with('\n'))
    }
}

#[test]
fn a_cancelled_fetch_kills_its_child_and_leaves_nothing() {
    let world = World::new("echo $$ > $world/pid; exec sleep 300");
    let runtimes = world.runtimes();
    let entry = runtimes.manifest().find("fake").unwrap();
    let began = Instant::now();
    let error = runtimes.fetch(entry, &CancelWhenRunning(&world)).unwrap_err();
    assert!(matches!(error, RuntimeError::Cancelled(name) if name == "fake"));
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_child_is_gone(&world);
    assert_eq!(world.files("binaries"), [""; 0]);
}

#[test]
fn hanging_pip_is_stopped() {
    // Retry with longer timeouts, because a slow machine needs more time to start the child.
    let has_started = [300, 3_000, 30_000].into_iter().any(|timeout_ms| {
        let world = World::new("echo $$ > $world/pid; exec sleep 60");
        let timeout = Duration::from_millis(timeout_ms);
        let runtimes = world.runtimes().with_fetcher(world.fetcher().with_timeout(timeout));
        let error = fetch(&runtimes).unwrap_err().to_string();
        assert!(error.contains(&format!("was stopped after {} s", timeout.as_secs())), "{error}");
        assert_eq!(world.files("binaries"), [""; 0]);
        let has_started = CancelWhenRunning(&world).cancelled();
        if has_started {
            assert_child_is_gone(&world);
        }
        has_started
    });
    assert!(has_started, "the child wrote no process ID");
}

fn assert_child_is_gone(world: &World) {
    let pid = fs::read_to_string(world.path("pid")).unwrap();
    let alive = std::process::Command::new("kill").args(["-0", pid.trim()]).output().unwrap();
    assert!(!alive.status.success(), "{pid} still runs");
}

#[test]
fn progress_reports_steps_and_bytes() {
    #[derive(Default)]
    struct RecordedProgress {
        messages: Mutex<Vec<String>>,
        bytes: Mutex<Vec<(u64, u64)>>,
    }
    impl Progress for RecordedProgress {
        fn message(&self, text: &str) {
            self.messages.lock().unwrap().push(text.to_owned());
        }
        fn bytes(&self, done_bytes: u64, total_bytes: u64) {
            self.bytes.lock().unwrap().push((done_bytes, total_bytes));
        }
        fn done(&self) {
            self.message("done");
        }
    }
    let world = World::with_wheels();
    world.wheel("first", "a/fake.wasm", &pinned());
    let runtimes = world.runtimes();
    let notes = RecordedProgress::default();
    let entry = runtimes.manifest().find("fake").unwrap();
    runtimes.fetch(entry, &notes).unwrap();
    // This call reports nothing, because the file is present.
    runtimes.fetch(entry, &notes).unwrap();
    let (messages, bytes) = (notes.messages.into_inner().unwrap(), notes.bytes.into_inner().unwrap());
    assert_eq!(messages, ["fetching `fake` 1.0 from `a/fake.wasm` in the wheel first 1", "done"]);
    let total = u64::try_from(pinned().len()).unwrap();
    assert_eq!(bytes.last(), Some(&(total, total)));

    runtimes.remove(entry).unwrap();
    fs::remove_file(world.path("first.whl")).unwrap();
    let notes = RecordedProgress::default();
    runtimes.fetch(entry, &notes).unwrap_err();
    assert_eq!(notes.messages.into_inner().unwrap().last().unwrap(), "done", "a failed download");
}

#[test]
fn damaged_file_error_states_both_checksums() {
    let world = World::with_wheels();
    world.wheel("first", "a/fake.wasm", &pinned());
    let runtimes = world.runtimes();
    let entry = runtimes.manifest().find("fake").unwrap();
    fetch(&runtimes).unwrap();
    let path = runtimes.path(entry);
    let mut wrong = pinned();
    wrong[4242] ^= 1;
    fs::write(&path, &wrong).unwrap();
    // The length is unchanged, so only hashing the contents detects the damage.
    assert!(runtimes.present(entry).unwrap());
    for error in [runtimes.load(entry).unwrap_err(), runtimes.verify(entry).unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains(&Digest::of(&wrong).to_string()) && text.contains(&entry.sha256.to_string()), "{text}");
        assert!(text.contains("`glovebox runtimes remove fake`"), "{text}");
    }
    fs::write(&path, &wrong[1..]).unwrap();
    let text = runtimes.present(entry).unwrap_err().to_string();
    assert!(text.contains("expected 800008 bytes, got 800007 bytes"), "{text}");
}

#[test]
fn only_known_custom_binaries_get_a_recipe() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let write = |name: &str, bytes: &[u8]| fs::write(world.path(name), bytes).unwrap();
    write("known.wasm", &pinned());
    write("other.wasm", b"\0asm\x01\0\0\0");
    write("script.py", b"print(1)");
    let known = runtimes.load_custom(&world.path("known.wasm")).unwrap();
    assert_eq!(known.entry.unwrap().name, "fake");
    assert!(known.recipe.is_some());
    // Links are accepted, because the user passed the path.
    symlink(world.path("other.wasm"), world.path("link.wasm")).unwrap();
    let other = runtimes.load_custom(&world.path("link.wasm")).unwrap();
    assert!(other.entry.is_none() && other.recipe.is_none());
    assert_eq!(other.sha256, Digest::of(b"\0asm\x01\0\0\0"));

    let error = runtimes.load_custom(&world.path("absent.wasm")).unwrap_err().to_string();
    assert!(error.contains("absent.wasm") && error.contains("--runtime-path"), "{error}");
    assert!(error.contains("`glovebox runtimes fetch`"), "{error}");
    let error = runtimes.load_custom(&world.path("script.py")).unwrap_err().to_string();
    assert!(error.contains("script.py") && error.contains("bad magic number"), "{error}");
    let error = runtimes.load_custom(world.dir.path()).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    // The sparse file takes no disk space. The file must not be read into memory completely.
    let large = fs::File::create(world.path("large.wasm")).unwrap();
    std::io::Write::write_all(&mut &large, b"\0asm").unwrap();
    large.set_len(glovebox_runtimes::MAX_BINARY_BYTES + 1).unwrap();
    let error = runtimes.load_custom(&world.path("large.wasm")).unwrap_err().to_string();
    assert!(error.contains("is larger than 268435456 bytes"), "{error}");
}

/// A helper process for the next test, not a test. Fetches the runtime.
#[test]
fn child_fetches() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let dir = Path::new(&dir);
    let pip = Fetcher::with_commands(vec![vec!["/bin/sh".into(), dir.join("pip").into()]]);
    let cache = glovebox_runtimes::CacheDir::open(dir.join("cache")).unwrap();
    let runtimes = Runtimes::new(manifest(&pinned()), cache).with_fetcher(pip);
    fetch(&runtimes).unwrap();
    runtimes.load(runtimes.manifest().find("fake").unwrap()).unwrap();
}

#[test]
fn several_processes_and_threads_fetch_once() {
    let world = World::with_wheels();
    world.wheel("first", "a/fake.wasm", &pinned());
    let mut children: Vec<_> =
        (0..4).map(|_| child("fetch::child_fetches", world.dir.path()).spawn().unwrap()).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| fetch(&world.runtimes()).unwrap());
        }
    });
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(requested(&world), ["first==1"]);
    assert_eq!(world.files("binaries").len(), 1);
}

#[test]
fn downloads_of_killed_processes_are_removed() {
    let world = World::with_wheels();
    world.wheel("first", "a/fake.wasm", &pinned());
    world.runtimes().present(manifest(&pinned()).find("fake").unwrap()).unwrap();
    let binaries = world.path("cache/binaries");
    let old = SystemTime::now() - Duration::from_secs(3600);
    let make = |name: &str, time: SystemTime| {
        let file = fs::File::create(binaries.join(name)).unwrap();
        file.set_modified(time).unwrap();
        file
    };
    make(".tmp-dead", old);
    make(".tmp-young", SystemTime::now());
    let held = make(".tmp-held", old);
    held.lock().unwrap();
    make("unrelated", old);
    fs::create_dir(binaries.join(".tmp-dir")).unwrap();
    fs::write(binaries.join(".tmp-dir/x.whl"), "x").unwrap();
    fs::File::open(binaries.join(".tmp-dir")).unwrap().set_modified(old).unwrap();
    fetch(&world.runtimes()).unwrap();
    let fetched = manifest(&pinned()).find("fake").unwrap().sha256.short();
    assert_eq!(world.files("binaries"), [".tmp-held", ".tmp-young", &format!("fake-1.0-{fetched}.wasm"), "unrelated"]);
}

const WHEEL: &str = "thing-1.0-py3-none-any.whl";

/// Returns a package's wheel as an index would serve it.
fn wheel() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("thing/__init__.py", zip::write::SimpleFileOptions::default()).unwrap();
    std::io::Write::write_all(&mut zip, b"x = 1\n").unwrap();
    zip.finish().unwrap().into_inner()
}

fn packages() -> PackageList {
    let (sha256, size) = (Digest::of(&wheel()), wheel().len());
    let package = format!(
        "[[package]]\nname = \"thing\"\nversion = \"1.0\"\nfile = \"{WHEEL}\"\nsha256 = \"{sha256}\"\nsize_bytes = {size}\nlicence = \"MIT\"\nimports = [\"thing\"]\n"
    );
    PackageList::parse(&package).unwrap()
}

/// Returns a world whose index contains the runtime and the package.
fn full() -> World {
    let world = World::new(
        "echo \"$wanted\" >> $world/asked; [ $wanted = thing==1.0 ] && cp $world/thing-*.whl . || cp \"$world/${wanted%%==*}.whl\" .",
    );
    world.wheel("first", "a/fake.wasm", &pinned());
    fs::write(world.path(WHEEL), wheel()).unwrap();
    world
}

fn bundle(world: &World, name: &str) -> u64 {
    let runtimes = world.runtimes().with_packages(packages());
    let entry = runtimes.manifest().find("fake").unwrap().clone();
    // List the runtime twice, because a runtime and its images have the same files.
    runtimes.write_bundle(&[entry.clone(), entry], &[], true, &world.path(name), &NoProgress).unwrap()
}

/// Returns the runtimes of another world, which can only use a bundle.
fn offline(world: &World, bundle: &Path) -> Runtimes {
    let nobody = Fetcher::with_commands(vec![vec!["/nonexistent".into()]]).with_bundles([bundle.to_owned()]);
    Runtimes::new(manifest(&pinned()), world.cache()).with_packages(packages()).with_fetcher(nobody)
}

#[test]
fn bundled_files_need_no_network() {
    let from = full();
    let bytes = bundle(&from, "one.zip");
    assert_eq!(bytes, fs::metadata(from.path("one.zip")).unwrap().len());
    assert!(bytes < pinned().len() as u64, "the bundle is compressed");
    bundle(&from, "two.zip");
    assert_eq!(fs::read(from.path("one.zip")).unwrap(), fs::read(from.path("two.zip")).unwrap());

    let to = World::new("");
    let runtimes = offline(&to, &from.path("one.zip"));
    let entry = runtimes.manifest().find("fake").unwrap();
    assert_eq!(runtimes.fetch(entry, &NoProgress).unwrap(), FetchOutcome::Now);
    assert_eq!(runtimes.load(entry).unwrap().bytes, pinned());
    assert_eq!(runtimes.fetch_packages(&NoProgress).unwrap(), FetchOutcome::Now);
    assert_eq!(runtimes.package_files().unwrap(), [("thing/__init__.py".to_owned(), b"x = 1\n".to_vec())]);
    assert_eq!((to.files("binaries").len(), to.files("packages")), (1, vec![WHEEL.to_owned()]));
}

/// Returns a manifest with two runtimes of one language. The second runtime is the default.
fn two() -> Manifest {
    let entry = |name: &str, rest: &str| {
        format!(
            "[[runtime]]\nname = \"{name}\"\nlanguage = \"python\"\nversion = \"1\"\nsha256 = \"{}\"\nsize_bytes = {}\nlicence = \"MIT\"\n\
             homepage = \"https://example.org\"\norigin = \"a test\"\nrecipe = \"r\"\n{rest}\n\
             sources = [{{ kind = \"pypi\", package = \"first\", version = \"1\", file = \"a/fake.wasm\" }}]\n",
            Digest::of(&pinned()),
            pinned().len(),
        )
    };
    let large = entry("large", "default = true").replace(&Digest::of(&pinned()).to_string(), &"ab".repeat(32));
    Manifest::parse(&format!("{}{large}[recipe.r]\ndriver = \"cpython\"\n", entry("fake", ""))).unwrap()
}

#[test]
fn bundled_runtime_is_the_default() {
    let from = full();
    let of = |world: &World, fetcher: Fetcher| Runtimes::new(two(), world.cache()).with_fetcher(fetcher);
    let online = of(&from, from.fetcher());
    let name = |runtimes: &Runtimes| runtimes.preferred(Language::Python).unwrap().unwrap().name.clone();
    assert_eq!(name(&online), "large", "without a bundle, the manifest's default applies");
    let fake = online.manifest().find("fake").unwrap().clone();
    online.write_bundle(&[fake], &[], true, &from.path("one.zip"), &NoProgress).unwrap();
    online.write_bundle(&[], &[], true, &from.path("none.zip"), &NoProgress).unwrap();
    let with = |world: &World, bundle: &str| of(world, from.fetcher().with_bundles([from.path(bundle)]));
    let to = World::new("");
    assert_eq!(name(&with(&to, "one.zip")), "fake");
    assert_eq!(name(&with(&to, "none.zip")), "large", "the bundle contains no runtime");
    assert_eq!(name(&with(&to, "not-there.zip")), "large", "the bundle does not exist");
    // A prepared image takes precedence over a binary.
    for (runtime, bundle) in [("fake", "none.zip"), ("large", "one.zip")] {
        let key = ArtefactKey::new(KeyParts { label: format!("{runtime}-1"), ..parts() });
        let image = from.runtimes().prepared().store(&key, &artefact(vec![1])).unwrap();
        let path = from.path("prepared.zip");
        from.runtimes().write_prepared(vec![(CacheKind::Images, key, image)], None, &path).unwrap();
        let runtimes = with(&to, bundle).with_prepared([path]);
        assert_eq!(name(&runtimes), runtime);
        let is_bundled = |name| runtimes.is_bundled(runtimes.manifest().find(name).unwrap());
        assert_eq!((is_bundled("fake"), is_bundled("large")), (true, runtime == "large"));
    }
    let runtimes = with(&to, "one.zip");
    runtimes.add(runtimes.manifest().find("large").unwrap()).unwrap();
    assert_eq!(name(&runtimes), "large", "an added runtime takes precedence");
}

#[test]
fn bundled_file_with_a_wrong_pin_is_not_used() {
    let mut wrong = pinned();
    wrong[100_000] ^= 1;
    let world = World::with_wheels();
    let runtimes = world.runtimes();
    let path = runtimes.path(runtimes.manifest().find("fake").unwrap());
    let name = path.file_name().unwrap().to_str().unwrap();
    world.wheel("bundle", name, &wrong);
    let fetch = |runtimes: &Runtimes| runtimes.fetch(runtimes.manifest().find("fake").unwrap(), &NoProgress);
    let error = fetch(&offline(&world, &world.path("bundle.whl"))).unwrap_err();
    assert!(matches!(error, RuntimeError::Unavailable(_)), "{error}");
    assert_eq!(world.files("binaries"), [""; 0]);

    // An unusable bundle does not prevent downloads.
    world.wheel("first", "a/fake.wasm", &pinned());
    for bundle in ["bundle.whl", "missing.zip", "pip"] {
        let fetcher = world.fetcher().with_bundles([world.path(bundle)]);
        let runtimes = Runtimes::new(manifest(&pinned()), world.cache()).with_fetcher(fetcher);
        assert_eq!(fetch(&runtimes).unwrap(), FetchOutcome::Now, "{bundle}");
        runtimes.remove(runtimes.manifest().find("fake").unwrap()).unwrap();
    }
    assert_eq!(fs::read_to_string(world.path("asked")).unwrap(), "first==1\n".repeat(3));
}
