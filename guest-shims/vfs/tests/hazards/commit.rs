use std::sync::Arc;

use glovebox_vfs::{Access, CommitStep, Follow, InodeId, RootId, Vfs, VfsError, VfsLimits};

use crate::fresh;
use crate::support::{FakeHost, HostNode};

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
fn looking_around_plans_nothing() {
    let (host, mut vfs, root, _) = sample();
    vfs.read_file(root, "d/a", 9).unwrap();
    vfs.list(root, "").unwrap();
    assert_eq!(commit(&host, &mut vfs, root), 0);
}

#[test]
fn the_host_becomes_what_the_guest_sees() {
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
    // Continue with files that are still read from their new places.
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
fn a_file_changed_meanwhile_is_told_by_its_base() {
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
fn an_uncommitted_period_is_part_of_the_next_commit() {
    let (host, mut vfs, root, _) = sample();
    vfs.write_file(root, "one", b"1").unwrap();
    vfs.mark();
    vfs.write_file(root, "two", b"2").unwrap();
    assert_eq!(vfs.changes(root).created, ["two"]);
    assert_eq!(commit(&host, &mut vfs, root), 2);
    // A commit does not end the reported period.
    assert_eq!(vfs.changes(root).created, ["two"]);
}

#[test]
fn swapped_names_are_read_before_they_are_written() {
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
fn a_link_that_would_be_a_trap_on_the_host_is_marked() {
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
fn noting_a_path_that_does_not_exist_is_refused() {
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
