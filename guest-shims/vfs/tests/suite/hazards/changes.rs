use std::sync::Arc;

use glovebox_vfs::{Access, Changes, CommitStep, FileKind, Follow, InodeId, RootId, Vfs, VfsError, VfsLimits};

use super::{fresh, touch};
use crate::support::{FakeHost, HostNode};

#[track_caller]
fn expect(vfs: &Vfs, root: RootId, created: &[&str], modified: &[&str], deleted: &[&str]) {
    let list = |paths: &[&str]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    let Changes { created: c, modified: m, deleted: d } = vfs.changes(root);
    assert_eq!((c, m, d), (list(created), list(modified), list(deleted)), "created, modified, deleted");
}

#[test]
fn change_lists_contain_their_kind() {
    let (mut vfs, root, top) = fresh();
    for path in ["d/a", "d/b", "d/c", "x"] {
        vfs.write_file(root, path, b"1").unwrap();
    }
    vfs.mark();
    expect(&vfs, root, &[], &[], &[]);
    vfs.write_file(root, "d/a", b"2").unwrap();
    vfs.write_file(root, "d/z/new", b"2").unwrap();
    vfs.symlink(b"d/a", top, b"link").unwrap();
    vfs.unlink(top, b"d/b").unwrap();
    vfs.create_dir(top, b"only-a-directory").unwrap();
    expect(&vfs, root, &["d/z/new", "link"], &["d/a"], &["d/b"]);
    vfs.mark();
    expect(&vfs, root, &[], &[], &[]);
}

#[test]
fn files_created_and_deleted_are_not_reported() {
    let (mut vfs, root, top) = fresh();
    vfs.mark();
    vfs.write_file(root, "d/e/f", b"x").unwrap();
    vfs.rename(top, b"d", top, b"g").unwrap();
    vfs.remove(root, "g").unwrap();
    expect(&vfs, root, &[], &[], &[]);
}

#[test]
fn file_deleted_and_recreated_is_modified() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "f", b"same").unwrap();
    vfs.write_file(root, "g", b"old").unwrap();
    vfs.mark();
    vfs.unlink(top, b"f").unwrap();
    vfs.write_file(root, "f", b"same").unwrap();
    // Editors save files this way: they write a new file and rename it over the old one.
    vfs.write_file(root, ".g.tmp", b"new").unwrap();
    vfs.rename(top, b".g.tmp", top, b"g").unwrap();
    expect(&vfs, root, &[], &["f", "g"], &[]);
}

#[test]
fn edit_that_restores_time_and_length_is_reported() {
    let (mut vfs, root, _) = fresh();
    vfs.set_now_ns(5);
    vfs.write_file(root, "f", b"one").unwrap();
    vfs.mark();
    let file = vfs.file_stat(root, "f").unwrap().inode;
    vfs.write_at(file, 0, b"two").unwrap();
    vfs.set_times(file, Some(5), Some(5)).unwrap();
    expect(&vfs, root, &[], &["f"], &[]);
}

#[test]
fn times_alone_and_empty_writes_are_no_change() {
    let (mut vfs, root, _) = fresh();
    vfs.write_file(root, "f", b"one").unwrap();
    vfs.mark();
    let file = vfs.file_stat(root, "f").unwrap().inode;
    vfs.set_times(file, Some(9), Some(9)).unwrap();
    vfs.write_at(file, 0, b"").unwrap();
    vfs.set_len(file, 3).unwrap();
    vfs.allocate(file, 0, 2).unwrap();
    expect(&vfs, root, &[], &[], &[]);
}

#[test]
fn renaming_a_directory_reports_every_file_below() {
    let (mut vfs, root, top) = fresh();
    for path in ["d/a", "d/e/b", "d/e/c"] {
        vfs.write_file(root, path, b"1").unwrap();
    }
    vfs.mark();
    vfs.write_file(root, "d/e/c", b"2").unwrap();
    vfs.unlink(top, b"d/a").unwrap();
    vfs.write_file(root, "d/new", b"2").unwrap();
    vfs.rename(top, b"d", top, b"z").unwrap();
    let deleted = ["d/a", "d/e/b", "d/e/c"];
    expect(&vfs, root, &["z/e/b", "z/e/c", "z/new"], &[], &deleted);
    vfs.rename(top, b"z", top, b"d").unwrap();
    expect(&vfs, root, &["d/new"], &["d/e/c"], &["d/a"]);
}

#[test]
fn swapping_directories_modifies_their_common_files() {
    let (mut vfs, root, top) = fresh();
    for path in ["a/both", "a/only-a", "b/both", "b/only-b"] {
        vfs.write_file(root, path, b"1").unwrap();
    }
    vfs.mark();
    for (from, to) in [("a", "t"), ("b", "a"), ("t", "b")] {
        vfs.rename(top, from.as_bytes(), top, to.as_bytes()).unwrap();
    }
    expect(&vfs, root, &["a/only-b", "b/only-a"], &["a/both", "b/both"], &["a/only-a", "b/only-b"]);
}

#[test]
fn file_moved_out_and_back_is_unchanged() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "d/f", b"1").unwrap();
    vfs.mark();
    vfs.rename(top, b"d/f", top, b"f").unwrap();
    vfs.remove_dir(top, b"d").unwrap();
    vfs.create_dir(top, b"d").unwrap();
    vfs.rename(top, b"f", top, b"d/f").unwrap();
    expect(&vfs, root, &[], &[], &[]);
}

#[test]
fn every_name_of_a_file_is_reported() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "d/a", b"1").unwrap();
    vfs.link(top, b"d/a", Follow::No, top, b"b").unwrap();
    vfs.mark();
    vfs.link(top, b"b", Follow::No, top, b"c").unwrap();
    vfs.write_file(root, "b", b"2").unwrap();
    expect(&vfs, root, &["c"], &["b", "d/a"], &[]);
    vfs.unlink(top, b"b").unwrap();
    expect(&vfs, root, &["c"], &["d/a"], &["b"]);
}

#[test]
fn file_replaced_by_a_directory_and_back_is_reported() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "f", b"1").unwrap();
    vfs.write_file(root, "d/x", b"1").unwrap();
    vfs.mark();
    vfs.unlink(top, b"f").unwrap();
    vfs.write_file(root, "f/x", b"1").unwrap();
    vfs.remove(root, "d").unwrap();
    vfs.write_file(root, "d", b"1").unwrap();
    expect(&vfs, root, &["d", "f/x"], &[], &["d/x", "f"]);
    vfs.remove(root, "f").unwrap();
    touch(&mut vfs, top, "f").unwrap();
    expect(&vfs, root, &["d"], &["f"], &["d/x"]);
}

#[test]
fn write_to_a_removed_file_is_not_reported() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "f", b"1").unwrap();
    vfs.mark();
    let file = vfs.file_stat(root, "f").unwrap().inode;
    vfs.retain(file).unwrap();
    vfs.unlink(top, b"f").unwrap();
    vfs.write_at(file, 0, b"2").unwrap();
    expect(&vfs, root, &[], &[], &["f"]);
    vfs.release(file);
    expect(&vfs, root, &[], &[], &["f"]);
}

#[test]
fn changes_are_reported_per_root() {
    let (mut vfs, root, _) = fresh();
    let other = vfs.add_root(Access::ReadWrite);
    vfs.write_file(root, "a", b"1").unwrap();
    vfs.write_file(other, "b", b"1").unwrap();
    expect(&vfs, root, &["a"], &[], &[]);
    expect(&vfs, other, &["b"], &[], &[]);
}

#[test]
fn forks_are_isolated() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "d/shared", &[1; 20_000]).unwrap();
    let shared = vfs.file_stat(root, "d/shared").unwrap().inode;
    let mut fork = vfs.clone();
    fork.write_at(shared, 10_000, b"fork").unwrap();
    fork.write_file(root, "d/new", b"fork").unwrap();
    vfs.rename(top, b"d", top, b"e").unwrap();
    vfs.set_len(shared, 3).unwrap();
    assert_eq!(vfs.read_file(root, "e/shared", 99).unwrap(), [1; 3]);
    let data = fork.read_file(root, "d/shared", 99_999).unwrap();
    assert_eq!(data.len(), 20_000);
    assert_eq!(&data[9_999..10_005], b"\x01fork\x01");
    assert!(!vfs.exists(root, "e/new").unwrap());
    assert_eq!(fork.changes(root).created, ["d/new", "d/shared"]);
    assert_eq!(vfs.changes(root).created, ["e/shared"]);
}

#[test]
fn a_fork_keeps_its_own_handles_and_removed_files() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "f", b"data").unwrap();
    let file = vfs.file_stat(root, "f").unwrap().inode;
    vfs.retain(file).unwrap();
    vfs.unlink(top, b"f").unwrap();
    let mut fork = vfs.clone();
    vfs.release(file);
    assert_eq!(vfs.stat(file), Err(VfsError::BadInode));
    let mut data = [0; 4];
    assert_eq!(fork.read_at(file, 0, &mut data), Ok(4));
    assert_eq!(&data, b"data");
    assert!(fork.bytes_used() > vfs.bytes_used());
    fork.release(file);
    assert_eq!(fork.bytes_used(), 0);
}

/// Forks before each write. The cost of a write must depend on the size of the change, not on the size of the tree.
#[test]
fn forking_a_large_tree_is_cheap() {
    let mut vfs = Vfs::new(VfsLimits { bytes: 1 << 30, inodes: u64::MAX, ..VfsLimits::default() });
    let root = vfs.add_root(Access::ReadWrite);
    for n in 0..200 {
        vfs.write_file(root, &format!("d{}/f{n}", n % 10), &[1; 100_000]).unwrap();
    }
    let start = std::time::Instant::now();
    let forks: Vec<Vfs> = (0..100_000).map(|_| vfs.clone()).collect();
    assert!(start.elapsed().as_secs() < 60);
    drop(forks);
    let start = std::time::Instant::now();
    for n in 0..1_000 {
        let mut fork = vfs.clone();
        fork.write_file(root, &format!("d1/g{n}"), b"x").unwrap();
    }
    assert!(start.elapsed().as_secs() < 60);
}

#[test]
fn file_system_may_cross_threads() {
    fn check<T: Send + Sync + Clone + 'static>() {}
    check::<Vfs>();
    let (mut vfs, root, top) = fresh();
    touch(&mut vfs, top, "f").unwrap();
    let forks: Vec<_> = (0..4)
        .map(|n| {
            let mut fork = vfs.clone();
            std::thread::spawn(move || {
                for m in 0..100 {
                    fork.write_file(root, &format!("{n}/{m}"), b"x").unwrap();
                }
                fork.changes(root).created.len()
            })
        })
        .collect();
    for fork in forks {
        assert_eq!(fork.join().unwrap(), 101);
    }
    assert_eq!(vfs.list(root, "").unwrap().len(), 1);
    assert_eq!(vfs.file_stat(root, "f").unwrap().kind, FileKind::File);
}

#[test]
fn debug_output_contains_no_guest_data() {
    let (mut vfs, root, _) = fresh();
    vfs.write_file(root, "name-of-a-file", b"its secret").unwrap();
    let logged = format!("{vfs:?}");
    assert!(logged.contains("bytes_used") && logged.len() < 500, "{logged}");
    assert!(!logged.contains("name-of-a-file"));
}

fn sample() -> (Arc<FakeHost>, Vfs, RootId, InodeId) {
    let host = Arc::new(FakeHost::default());
    host.dir("d");
    host.file("d/a", b"a");
    host.file("d/b", b"b");
    host.file("f", b"f");
    let mut vfs = Vfs::new(VfsLimits::default());
    let root = vfs.add_mount(host.clone(), Access::ReadWrite).unwrap();
    let dir = vfs.root_dir(root).unwrap();
    (host, vfs, root, dir)
}

fn commit(host: &FakeHost, vfs: &mut Vfs, root: RootId) -> usize {
    let plan = vfs.commit_plan(root);
    let written = host.apply(vfs, &plan);
    vfs.mark_committed(root, written).unwrap();
    assert!(vfs.commit_plan(root).is_empty());
    plan.len()
}

#[test]
fn reading_plans_no_commit() {
    let (host, mut vfs, root, _) = sample();
    vfs.read_file(root, "d/a", 9).unwrap();
    vfs.list(root, "").unwrap();
    assert_eq!(commit(&host, &mut vfs, root), 0);
}

#[test]
fn commit_makes_the_host_match_the_guest() {
    let (host, mut vfs, root, top) = sample();
    vfs.rename(top, b"d", top, b"g").unwrap();
    vfs.unlink(top, b"f").unwrap();
    vfs.write_file(root, "f/now/a/tree", b"1").unwrap();
    vfs.write_file(root, "g/b", b"2").unwrap();
    vfs.write_file(root, "d", b"a file now").unwrap();
    vfs.symlink(b"../d", top, b"g/l").unwrap();
    commit(&host, &mut vfs, root);
    let tree = host.tree();
    let names: Vec<&str> = tree.keys().map(String::as_str).collect();
    assert_eq!(names, ["d", "f", "f/now", "f/now/a", "f/now/a/tree", "g", "g/a", "g/b", "g/l"]);
    assert_eq!(tree["g/a"], HostNode::File(b"a".to_vec()));
    assert_eq!(tree["g/b"], HostNode::File(b"2".to_vec()));
    assert_eq!(tree["g/l"], HostNode::Link("../d".into()));
    // Continue with files that are still read from the source, at their new paths.
    assert_eq!(vfs.read_file(root, "g/a", 9).unwrap(), b"a");
    vfs.write_file(root, "g/b", b"3").unwrap();
    vfs.unlink(top, b"g/a").unwrap();
    assert_eq!(commit(&host, &mut vfs, root), 2);
    vfs.remove(root, "g").unwrap();
    vfs.remove(root, "f").unwrap();
    commit(&host, &mut vfs, root);
    assert_eq!(host.tree().len(), 1);
}

#[test]
fn commit_plan_contains_the_base_of_a_changed_file() {
    let (host, mut vfs, root, top) = sample();
    vfs.write_file(root, "f", b"mine").unwrap();
    vfs.unlink(top, b"d/a").unwrap();
    vfs.write_file(root, "new", b"mine").unwrap();
    let seen = (host.known("f"), host.known("d/a"));
    host.file("f", b"theirs");
    host.file("d/a", b"theirs");
    let plan = vfs.commit_plan(root);
    let base = |wanted: &str| {
        plan.iter().find_map(|step| match step {
            CommitStep::WriteFile { path, base, .. } | CommitStep::DeleteFile { path, base } if path == wanted => {
                Some(*base)
            }
            _ => None,
        })
    };
    assert_eq!(base("f"), Some(seen.0));
    assert_eq!(base("d/a"), Some(seen.1));
    assert_eq!(base("new"), Some(None));
    assert_ne!(seen.0, host.known("f"));
}

#[test]
fn changes_of_earlier_executions_are_in_the_next_commit() {
    let (host, mut vfs, root, _) = sample();
    vfs.write_file(root, "one", b"1").unwrap();
    vfs.mark();
    vfs.write_file(root, "two", b"2").unwrap();
    assert_eq!(vfs.changes(root).created, ["two"]);
    assert_eq!(commit(&host, &mut vfs, root), 2);
    // A commit does not reset the reported changes.
    assert_eq!(vfs.changes(root).created, ["two"]);
}

#[test]
fn swapped_files_are_read_before_they_are_overwritten() {
    let (host, mut vfs, root, top) = sample();
    for (from, to) in [("d/a", "t"), ("d/b", "d/a"), ("t", "d/b")] {
        vfs.rename(top, from.as_bytes(), top, to.as_bytes()).unwrap();
    }
    assert_eq!(commit(&host, &mut vfs, root), 2);
    assert_eq!(host.tree()["d/a"], HostNode::File(b"b".to_vec()));
    assert_eq!(host.tree()["d/b"], HostNode::File(b"a".to_vec()));
    assert_eq!(vfs.read_file(root, "d/a", 9).unwrap(), b"b");
}

#[test]
fn hard_links_are_committed_as_files() {
    let (host, mut vfs, root, top) = sample();
    vfs.link(top, b"f", Follow::No, top, b"g").unwrap();
    assert_eq!(commit(&host, &mut vfs, root), 1);
    vfs.write_file(root, "g", b"both").unwrap();
    assert_eq!(vfs.changes(root).created, ["g"]);
    assert_eq!(vfs.changes(root).modified, ["f"]);
    let plan = vfs.commit_plan(root);
    assert_eq!(plan.len(), 2);
}

#[test]
fn link_that_leads_out_on_the_host_is_marked() {
    let (_, mut vfs, root, top) = sample();
    vfs.symlink(b"../../etc/passwd", top, b"d/trap").unwrap();
    vfs.symlink(b"../f", top, b"d/fine").unwrap();
    let marks: Vec<(String, bool)> = vfs
        .commit_plan(root)
        .into_iter()
        .filter_map(|step| match step {
            CommitStep::Symlink { path, escapes, .. } => Some((path, escapes)),
            _ => None,
        })
        .collect();
    assert_eq!(marks, [("d/fine".into(), false), ("d/trap".into(), true)]);
}

#[test]
fn marking_a_missing_path_as_committed_is_rejected() {
    let (mut vfs, root, _) = fresh();
    vfs.write_file(root, "f", b"x").unwrap();
    let (host, ..) = sample();
    let stat = host.known("f").unwrap();
    let refused = vfs.mark_committed(root, [("no/f".to_owned(), stat)]);
    assert_eq!(refused, Err(VfsError::NotFound));
    assert_eq!(vfs.commit_plan(root).len(), 1);
    vfs.mark_committed(root, [("f".to_owned(), stat)]).unwrap();
    vfs.write_file(root, "f", b"y").unwrap();
    let plan = vfs.commit_plan(root);
    assert!(matches!(&plan[..], [CommitStep::WriteFile { base: Some(base), .. }] if *base == stat));
}
