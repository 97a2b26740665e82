//! Tests of commits that are interrupted by the death of the process.

use std::fs;
use std::io::BufRead as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::tempdir;

use super::super::journal::{self, Journal};
use super::super::recover::Lock;
use super::super::site::CommitSite;
use super::super::stage::Stager;
use super::super::{HostDirectory, MountError, RESERVED_PREFIX, recover};
use super::*;

/// A commit that was prepared up to its journal.
pub(super) struct PreparedCommit {
    pub(super) host: HostDirectory,
    pub(super) name: String,
    pub(super) journal: Journal,
    pub(super) before: BTreeMap<String, Node>,
}

/// Fills a directory with the sample and prepares a commit of the sample's plan.
pub(super) fn prepared(path: &Path) -> PreparedCommit {
    sample(path);
    let before = state(path);
    let host = writable(path);
    let mut guest = Guest::new();
    let plan = sample_plan(&mut guest, &host);
    let (name, staging) = recover::make_staging(host.root()).unwrap();
    let mut site = CommitSite::new(host.root(), &staging, &name);
    let (journal, _) = super::super::commit::prepare(&mut site, &plan, &mut guest.vfs).unwrap();
    PreparedCommit { host, name, journal, before }
}

fn without_private(mut state: BTreeMap<String, Node>) -> BTreeMap<String, Node> {
    state.retain(|path, _| !path.starts_with(RESERVED_PREFIX));
    state
}

#[test]
fn interrupted_commit_is_completed_from_any_step() {
    let steps = prepared(tempdir().unwrap().path()).journal.steps.len();
    assert!(steps > 10);
    for done in 0..=steps {
        let dir = tempdir().unwrap();
        let ready = prepared(dir.path());
        {
            let staging = ready.host.root().child(&ready.name).unwrap();
            let mut site = CommitSite::new(ready.host.root(), &staging, &ready.name);
            for (index, step) in ready.journal.steps.iter().take(done).enumerate() {
                site.advance(index, step).unwrap();
            }
        }
        // Opening for reading fails in this state.
        let error = HostDirectory::open(dir.path()).unwrap_err();
        assert!(matches!(error, MountError::Unfinished { .. }), "{error}");
        let host = writable(dir.path());
        assert_eq!(host.recovered().finished_count, 1);
        assert_eq!(state(dir.path()), sample_result(), "{done} of {steps}");
        assert!(writable(dir.path()).recovered().is_empty());
        HostDirectory::open(dir.path()).unwrap();
    }
}

#[test]
fn interrupted_rollback_is_completed() {
    let steps = prepared(tempdir().unwrap().path()).journal.steps.len();
    for done in 0..=steps {
        let dir = tempdir().unwrap();
        let ready = prepared(dir.path());
        let staging = ready.host.root().child(&ready.name).unwrap();
        let mut site = CommitSite::new(ready.host.root(), &staging, &ready.name);
        for (index, step) in ready.journal.steps.iter().enumerate() {
            site.advance(index, step).unwrap();
        }
        drop(staging.create_file(journal::UNDO_NAME, 0o600).unwrap());
        for (index, step) in ready.journal.steps.iter().enumerate().rev().take(done) {
            site.undo(index, step).unwrap();
        }
        let host = writable(dir.path());
        assert_eq!(host.recovered().undone_count, 1);
        assert_eq!(state(dir.path()), ready.before, "{done} of {steps}");
    }
}

#[test]
fn commit_interrupted_before_its_journal_has_no_effect() {
    let dir = tempdir().unwrap();
    sample(dir.path());
    let before = state(dir.path());
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let plan = sample_plan(&mut guest, &host);
    let (name, staging) = recover::make_staging(host.root()).unwrap();
    let mut site = CommitSite::new(host.root(), &staging, &name);
    let mut stager = Stager::new(&mut site, &plan);
    for step in &plan {
        stager.add(step, &mut guest.vfs).unwrap();
    }
    fs::write(dir.path().join(&name).join("journal.partial"), "glovebox").unwrap();
    assert_eq!(without_private(state(dir.path())), before);
    // Without a journal, the directory can be opened for reading.
    HostDirectory::open(dir.path()).unwrap();
    assert_eq!(writable(dir.path()).recovered().discarded_count, 1);
    assert_eq!(state(dir.path()), before);
}

#[test]
fn next_commit_recovers_after_a_crash() {
    let dir = tempdir().unwrap();
    let host = writable(dir.path());
    drop(prepared(dir.path()));
    let mut guest = Guest::new();
    let plan = [guest.write("later", b"x", None)];
    guest.commit(&host, &plan).unwrap();
    let mut expected = sample_result();
    expected.insert("later".into(), file(b"x"));
    assert_eq!(state(dir.path()), expected);
}

#[test]
fn files_changed_by_the_host_after_a_crash_are_kept() {
    let steps = prepared(tempdir().unwrap().path()).journal.steps.len();
    for done in 0..=steps {
        let dir = tempdir().unwrap();
        let ready = prepared(dir.path());
        let root = ready.host.root();
        let staging = root.child(&ready.name).unwrap();
        let mut site = CommitSite::new(root, &staging, &ready.name);
        for (index, step) in ready.journal.steps.iter().take(done).enumerate() {
            site.advance(index, step).unwrap();
        }
        let at = |path: &str| {
            let mut steps = ready.journal.steps.iter();
            steps.position(|step| step.path() == path).unwrap()
        };
        fs::write(dir.path().join("changed.txt"), "the host's own").unwrap();
        let edited = file(b"the host's own");
        let mut expected = if at("changed.txt") < done {
            // The file already had the guest's version, so the host edited the new state.
            sample_result()
        } else {
            ready.before.clone()
        };
        let host = writable(dir.path());
        let finished = host.recovered().finished_count;
        assert_eq!(finished, u64::from(at("changed.txt") < done));
        expected.insert("changed.txt".into(), edited);
        assert_eq!(state(dir.path()), expected, "{done} of {steps}");
    }
}

#[test]
fn host_files_in_a_new_tree_are_kept() {
    let dir = tempdir().unwrap();
    let ready = prepared(dir.path());
    let root = ready.host.root();
    let staging = root.child(&ready.name).unwrap();
    let mut site = CommitSite::new(root, &staging, &ready.name);
    let steps = &ready.journal.steps;
    let new = steps.iter().position(|step| step.path() == "new").unwrap();
    for (index, step) in steps.iter().take(new + 1).enumerate() {
        site.advance(index, step).unwrap();
    }
    fs::write(dir.path().join("new/below/added"), "host's").unwrap();
    fs::write(dir.path().join("created.txt"), "host's").unwrap();
    let before = state(dir.path());
    // The commit can be neither finished nor undone: the error names both paths, and nothing is changed.
    let error = HostDirectory::open_for_writing(dir.path(), WAIT).unwrap_err();
    match &error {
        MountError::Torn { redo, undo, staging } => {
            assert_eq!((redo.as_str(), undo.as_str()), ("created.txt", "new"));
            assert_eq!(*staging, ready.name);
        }
        other => panic!("{other}"),
    }
    assert_eq!(state(dir.path()), before);
    // After the host has removed its file, the commit can be finished.
    fs::remove_file(dir.path().join("created.txt")).unwrap();
    writable(dir.path());
    let mut expected = sample_result();
    expected.insert("new/below/added".into(), file(b"host's"));
    assert_eq!(state(dir.path()), expected);
}

#[test]
fn journal_damaged_at_any_byte_is_rejected() {
    let dir = tempdir().unwrap();
    let ready = prepared(dir.path());
    let path = dir.path().join(&ready.name).join(journal::NAME);
    let whole = fs::read(&path).unwrap();
    let before = without_private(state(dir.path()));
    let mut tried = 0;
    let mut refuse = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let error = HostDirectory::open_for_writing(dir.path(), WAIT).unwrap_err();
        assert!(matches!(error, MountError::BadJournal { .. }), "{error}");
        tried += 1;
    };
    for length in 0..whole.len() {
        refuse(&whole[..length]);
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        refuse(&damaged);
    }
    let mut longer = whole.clone();
    longer.push(b' ');
    refuse(&longer);
    assert!(tried > 2000);
    assert_eq!(without_private(state(dir.path())), before);
    fs::write(&path, &whole).unwrap();
    writable(dir.path());
    assert_eq!(state(dir.path()), sample_result());
}

#[test]
fn journal_copied_with_the_files_is_not_applied() {
    // A complete copy of a directory with an interrupted commit, as from an archive.
    let dir = tempdir().unwrap();
    let ready = prepared(dir.path());
    let copy = tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(dir.path().join(".")).arg(copy.path()).status();
    assert!(copied.unwrap().success());
    let before = state(copy.path());
    let error = HostDirectory::open_for_writing(copy.path(), WAIT).unwrap_err();
    assert!(matches!(error, MountError::BadJournal { .. }), "{error}");
    assert!(error.to_string().contains(&ready.name), "{error}");
    assert_eq!(state(copy.path()), before);
}

#[test]
fn journal_with_outside_paths_is_not_applied() {
    let outside = tempdir().unwrap();
    let dir = outside.path().join("mount");
    fs::create_dir(&dir).unwrap();
    fs::write(outside.path().join("victim"), "precious").unwrap();
    let ready = prepared(&dir);
    let staging = ready.host.root().child(&ready.name).unwrap();
    let victim = HostDirectory::open(outside.path()).unwrap();
    let old = victim.root().find("victim").unwrap().into_identity().unwrap();
    for path in ["../victim", "/etc/passwd", "", "a/../../victim", ".glovebox-commit-1/x"] {
        let path = path.to_owned();
        staging.remove_file(journal::NAME).unwrap();
        let forged = Journal { steps: vec![journal::JournalStep::Remove { path, old }], ..ready.journal.clone() };
        forged.write(&staging).unwrap();
        let error = HostDirectory::open_for_writing(&dir, WAIT).unwrap_err();
        assert!(matches!(error, MountError::BadJournal { .. }), "{error}");
    }
    assert_eq!(fs::read(outside.path().join("victim")).unwrap(), b"precious");
}

#[test]
fn foreign_files_with_reserved_names_are_kept() {
    let outside = tempdir().unwrap();
    fs::write(outside.path().join("x"), "precious").unwrap();
    let dir = tempdir().unwrap();
    fs::write(dir.path().join(".glovebox-commit-file"), "x").unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.path().join(".glovebox-commit-link")).unwrap();
    let before = state(dir.path());
    assert!(writable(dir.path()).recovered().is_empty());
    assert_eq!(state(dir.path()), before);
    assert_eq!(state(outside.path()).len(), 1);
}

#[test]
fn a_deep_private_tree_is_removed_without_recursion() {
    let dir = tempdir().unwrap();
    let host = writable(dir.path());
    let (name, _) = recover::make_staging(host.root()).unwrap();
    let made = Command::new("python3")
        .args(["-c", "import os\nfor _ in range(3000):\n  os.mkdir('d'); open('f','w').close(); os.chdir('d')"])
        .current_dir(dir.path().join(&name))
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: `python3` is missing, which creates the nested directories");
        return;
    }
    assert_eq!(writable(dir.path()).recovered().discarded_count, 1);
    assert!(state(dir.path()).is_empty());
}

/// The environment variable that passes the directory to the child process of the kill test.
const CHILD_VARIABLE: &str = "GLOVEBOX_TEST_COMMIT_LOOP";

/// The number of files that each commit of the child process changes. Also the number of files in the tree that each
/// commit creates or removes.
const FILES: usize = 6;

/// Commits in a loop until the process is killed. This is not a test: the kill test runs it in a child process.
#[test]
fn commit_loop_for_the_kill_test() {
    let Some(path) = std::env::var_os(CHILD_VARIABLE) else {
        return;
    };
    let path = Path::new(&path);
    let mut guest = Guest::new();
    let host = writable(path);
    for generation in 0_u32.. {
        let stamp = format!("{}-{generation}", std::process::id());
        let has_tree = path.join("tree").exists();
        let mut plan = Vec::new();
        if has_tree {
            for n in 0..FILES {
                let name = format!("tree/sub/{n}");
                plan.push(delete(&name, shown(&host, &name)));
            }
            plan.extend([remove_dir("tree/sub"), remove_dir("tree")]);
        } else {
            plan.extend([create_dir("tree"), create_dir("tree/sub")]);
        }
        for n in 0..FILES {
            let name = format!("f{n}");
            let base = host.stat(&name).unwrap();
            plan.push(guest.write(&name, stamp.as_bytes(), base));
            if !has_tree {
                plan.push(guest.write(&format!("tree/sub/{n}"), stamp.as_bytes(), None));
            }
        }
        guest.commit(&host, &plan).unwrap();
        println!("committed {stamp}");
    }
}

/// Asserts that all files belong to the same generation, and returns its stamp. Returns `None` if there are no files
/// yet.
fn check_generation(state: &BTreeMap<String, Node>, context: &str) -> Option<String> {
    let mut stamps: Vec<&Node> = state.values().filter(|node| **node != Node::Dir).collect();
    let first = stamps.pop()?;
    assert!(stamps.iter().all(|stamp| *stamp == first), "{context}: {state:?}");
    let whole = [FILES, FILES * 2 + 2].contains(&state.len());
    assert!(whole, "{context}: {state:?}");
    match first {
        Node::File(data) => Some(String::from_utf8(data.clone()).unwrap()),
        other => panic!("{context}: {other:?}"),
    }
}

#[test]
fn killed_commit_leaves_the_old_or_new_state() {
    // On a disk, a commit mostly waits for syncs. In memory, it mostly moves files.
    let mut settled = kill_repeatedly(&tempdir().unwrap(), Duration::from_secs(5), 40_000);
    if let Ok(in_memory) = tempfile::tempdir_in("/dev/shm") {
        settled += kill_repeatedly(&in_memory, Duration::from_secs(3), 3_000);
    }
    assert!(settled > 0);
}

/// Repeatedly kills the child process at most `within_us` microseconds after its first commit. Returns the number of
/// kills after which recovery had work to do.
fn kill_repeatedly(dir: &tempfile::TempDir, time: Duration, within_us: u64) -> u32 {
    let seed = std::process::id();
    let mut random = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let (mut kills, mut journals, mut settled) = (0_u32, 0_u32, 0_u32);
    let begun = Instant::now();
    while begun.elapsed() < time || kills < 6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["commit_loop_for_the_kill_test", "--nocapture"])
            .env(CHILD_VARIABLE, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Read concurrently, because a full pipe would block the child.
        let output = std::io::BufReader::new(child.stdout.take().unwrap());
        let (send, receive) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, stamp)) = line.split_once("committed ") {
                    let _ = send.send(stamp.to_owned());
                }
            }
        });
        let first = receive.recv().expect("the child process ended before its first commit");
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % within_us));
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap();
        kills += 1;
        // Commits that the child reported before its death must be durable.
        let last = receive.try_iter().last().unwrap_or(first);

        let left = state(dir.path());
        journals += u32::from(left.keys().any(|path| path.ends_with("/journal")));
        let host = writable(dir.path());
        settled += u32::from(!host.recovered().is_empty());
        let context = format!("seed {seed}, kill {kills}");
        let found = check_generation(&state(dir.path()), &context).unwrap();
        let number = |stamp: &str| stamp.rsplit_once('-').unwrap().1.parse::<u32>().unwrap();
        assert!(found == last || number(&found) == number(&last) + 1, "{context}: reported {last}, found {found}");
        // The lock may stay held for a moment: a child process of another test has a copy of the lock's descriptor
        // between its fork and its exec.
        drop(Lock::take(host.root(), dir.path(), Duration::from_secs(60)).unwrap());
    }
    println!("seed {seed}: {kills} kills, {settled} to settle, {journals} of them with a journal");
    settled
}
