//! Tests of host changes while a guest works on the same files.

use std::fs;

use tempfile::tempdir;

use super::super::{Collision, MountError};
use super::*;

/// Shows the sample to a guest and applies a change on the host. Asserts that the commit fails and leaves the host's
/// state unchanged.
fn refused(path: &str, expected: Collision, change: impl FnOnce(&Path)) {
    let dir = tempdir().unwrap();
    sample(dir.path());
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let plan = sample_plan(&mut guest, &host);
    change(dir.path());
    let before = state(dir.path());
    match guest.commit(&host, &plan) {
        Err(MountError::Conflict { path: at, collision }) => {
            assert_eq!((at.as_str(), collision), (path, expected));
        }
        other => panic!("{path}: {other:?}"),
    }
    assert_eq!(state(dir.path()), before, "{path}");
}

#[test]
fn a_file_that_the_host_changed_is_not_overwritten() {
    refused("changed.txt", Collision::Changed, |dir| {
        fs::write(dir.join("changed.txt"), "longer than before").unwrap();
    });
    refused("held/changed.txt", Collision::Changed, |dir| {
        fs::write(dir.join("held/changed.txt"), "old TOO").unwrap();
    });
}

#[test]
fn file_replaced_with_equal_size_and_time_is_kept() {
    refused("changed.txt", Collision::Changed, |dir| {
        let path = dir.join("changed.txt");
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let other = fs::File::create(dir.join("other")).unwrap();
        std::io::Write::write_all(&mut &other, b"OLD").unwrap();
        other.set_modified(time).unwrap();
        fs::rename(dir.join("other"), &path).unwrap();
    });
}

/// Changes a file in place and restores its modification time, like `cp --preserve=timestamps` and many editors.
fn change_keeping_time(path: &Path, data: &str) {
    let file = fs::File::options().write(true).open(path).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    std::io::Write::write_all(&mut &file, data.as_bytes()).unwrap();
    file.set_modified(time).unwrap();
    assert_eq!(fs::metadata(path).unwrap().modified().unwrap(), time);
}

#[test]
fn file_changed_with_its_time_restored_is_kept() {
    refused("changed.txt", Collision::Changed, |dir| change_keeping_time(&dir.join("changed.txt"), "OLD"));
    refused("held/changed.txt", Collision::Changed, |dir| {
        change_keeping_time(&dir.join("held/changed.txt"), "OLD TOO")
    });
    refused("held/gone.txt", Collision::Changed, |dir| change_keeping_time(&dir.join("held/gone.txt"), "OLD GONE"));
}

#[test]
fn hidden_change_between_steps_rolls_back_the_commit() {
    use super::super::site::CommitSite;
    use super::crashing::prepared;
    let dir = tempdir().unwrap();
    let ready = prepared(dir.path());
    let root = ready.host.root();
    let staging = root.child(&ready.name).unwrap();
    change_keeping_time(&dir.path().join("changed.txt"), "OLD");
    let reason = CommitSite::new(root, &staging, &ready.name).carry_out(&ready.journal.steps).unwrap();
    assert!(matches!(reason, Some(MountError::Conflict { path, .. }) if path == "changed.txt"));
    super::super::recover::remove_staging(root, &ready.name).unwrap();
    let mut expected = ready.before;
    expected.insert("changed.txt".into(), file(b"OLD"));
    assert_eq!(state(dir.path()), expected);
}

#[test]
fn later_commit_conflicts_only_with_foreign_changes() {
    let dir = tempdir().unwrap();
    sample(dir.path());
    fs::hard_link(dir.path().join("changed.txt"), dir.path().join("second-name.txt")).unwrap();
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let mut known: BTreeMap<String, Option<SourceStat>> =
        ["changed.txt", "second-name.txt", "held/changed.txt", "new.txt"]
            .map(|path| (path.to_owned(), shown(&host, path)))
            .into();
    // Commit both names of one file. After the first commit, they are separate files.
    for round in 0..3 {
        let plan: Vec<_> =
            known.iter().map(|(path, base)| guest.write(path, format!("{path} {round}").as_bytes(), *base)).collect();
        for (path, stat) in guest.commit(&host, &plan).unwrap() {
            assert_eq!(shown(&host, &path), Some(stat), "{path}");
            known.insert(path, Some(stat));
        }
    }
    // A rejected commit touches no file, so the next commit finds the files unchanged.
    change_keeping_time(&dir.path().join("new.txt"), "NEW.TXT 2");
    let plan: Vec<_> = known.iter().map(|(path, base)| guest.write(path, b"again", *base)).collect();
    let error = guest.commit(&host, &plan).unwrap_err();
    assert!(matches!(&error, MountError::Conflict { path, .. } if path == "new.txt"), "{error}");
    let plan: Vec<_> = plan
        .into_iter()
        .filter(|step| !matches!(step, CommitStep::WriteFile { path, .. } if path == "new.txt"))
        .collect();
    guest.commit(&host, &plan).unwrap();
}

#[test]
fn a_file_that_the_host_changed_is_not_deleted() {
    refused("held/gone.txt", Collision::Changed, |dir| {
        fs::write(dir.join("held/gone.txt"), "needed after all").unwrap();
    });
}

#[test]
fn a_file_that_the_host_removed_is_not_brought_back() {
    refused("changed.txt", Collision::Vanished, |dir| {
        fs::remove_file(dir.join("changed.txt")).unwrap();
    });
    refused("held/changed.txt", Collision::Vanished, |dir| {
        fs::remove_dir_all(dir.join("held")).unwrap();
    });
}

#[test]
fn files_created_by_the_host_are_not_overwritten() {
    refused("created.txt", Collision::Appeared, |dir| {
        fs::write(dir.join("created.txt"), "host's").unwrap();
    });
    refused("new", Collision::Appeared, |dir| {
        fs::create_dir(dir.join("new")).unwrap();
    });
    refused("held/link", Collision::Appeared, |dir| {
        fs::create_dir(dir.join("held/link")).unwrap();
    });
}

#[test]
fn a_directory_that_is_not_empty_on_the_host_is_not_removed() {
    refused("held/old/deep", Collision::NotEmpty, |dir| {
        fs::write(dir.join("held/old/deep/more.txt"), "host's").unwrap();
    });
    // Entries that are hidden from guests also prevent the removal.
    refused("held/old", Collision::NotEmpty, |dir| {
        let made = std::process::Command::new("mkfifo").arg(dir.join("held/old/pipe")).status();
        assert!(made.unwrap().success());
    });
}

#[test]
fn a_directory_that_became_a_link_is_not_written_through() {
    let outside = tempdir().unwrap();
    fs::write(outside.path().join("changed.txt"), "old too").unwrap();
    refused("held/gone.txt", Collision::Changed, |dir| {
        fs::rename(dir.join("held"), dir.join("held2")).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.join("held")).unwrap();
    });
    assert_eq!(state(outside.path()).len(), 1);
}

#[test]
fn unwritable_subdirectory_aborts_the_commit() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempdir().unwrap();
    sample(dir.path());
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let plan = sample_plan(&mut guest, &host);
    let held = dir.path().join("held");
    fs::set_permissions(&held, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(held.join("probe"), "").is_ok() {
        println!("skipped: file permissions do not restrict this user");
        return;
    }
    let before = state(dir.path());
    let error = guest.commit(&host, &plan).unwrap_err();
    assert!(error.to_string().contains("`held/"), "{error}");
    assert_eq!(state(dir.path()), before);
    fs::set_permissions(&held, fs::Permissions::from_mode(0o700)).unwrap();
    guest.commit(&host, &plan).unwrap();
    assert_eq!(state(dir.path()), sample_result());
}

#[test]
fn deletion_on_both_sides_is_no_conflict() {
    let dir = tempdir().unwrap();
    sample(dir.path());
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let plan = sample_plan(&mut guest, &host);
    fs::remove_file(dir.path().join("gone-link")).unwrap();
    fs::remove_dir_all(dir.path().join("held/old")).unwrap();
    guest.commit(&host, &plan).unwrap();
    assert_eq!(state(dir.path()), sample_result());
}

#[test]
fn change_between_steps_rolls_back_the_commit() {
    use super::super::site::CommitSite;
    use super::crashing::prepared;
    // Makes the host's change before each of the first ten steps. The step that creates the file comes later and fails,
    // so the commit is undone.
    for before_step in 0..10 {
        let dir = tempdir().unwrap();
        let ready = prepared(dir.path());
        let root = ready.host.root();
        let staging = root.child(&ready.name).unwrap();
        let mut site = CommitSite::new(root, &staging, &ready.name);
        for (index, step) in ready.journal.steps.iter().take(before_step).enumerate() {
            site.advance(index, step).unwrap();
        }
        fs::write(dir.path().join("held/link"), "host's").unwrap();
        let reason = site.carry_out(&ready.journal.steps).unwrap();
        assert!(matches!(reason, Some(MountError::Conflict { .. })), "{before_step}");
        super::super::recover::remove_staging(root, &ready.name).unwrap();
        let mut expected = ready.before;
        expected.insert("held/link".into(), file(b"host's"));
        assert_eq!(state(dir.path()), expected, "{before_step}");
    }
}
