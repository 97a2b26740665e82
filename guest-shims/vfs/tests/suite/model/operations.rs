//! Random operations, in memory and over a mount, interleaved with forks, marks and commits.

use std::sync::Arc;

use glovebox_vfs::{Access, Follow, InodeId, OpenOptions, RootId, Vfs, VfsError, VfsLimits};
use proptest::prelude::*;

use super::{
    forged::{check, read_all},
    reference::{NodeKind, PathEnd, Reference},
    runner,
};
use crate::support::{FakeHost, HostNode};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Mkdir(String),
    Rmdir(String),
    Unlink(String),
    Remove(String),
    Rename(String, String),
    Link(String, bool, String),
    Symlink(String, String),
    Open(String, OpenOptions),
    /// Opens a file and retains the handle.
    Hold(String),
    /// Writes through the n-th retained handle.
    WriteHeld(usize, usize, Vec<u8>),
    Write(String, usize, Vec<u8>),
    SetLen(String, usize),
    WriteFile(String, Vec<u8>),
    Drop(usize),
    Fork,
    Mark,
    Commit,
    /// Continues in another file system that is restored from the saved state.
    Restore,
}

fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => Just("a"), 6 => Just("b"), 4 => Just("c"), 2 => Just("d"),
        1 => Just("."), 1 => Just(".."),
    ];
    (prop::collection::vec(part, 1..4), prop::bool::weighted(0.1))
        .prop_map(|(parts, slash)| parts.join("/") + if slash { "/" } else { "" })
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), prop_oneof![Just(0), 1..50_usize, 4_000..9_000_usize]).prop_map(|(byte, len)| vec![byte; len])
}

fn options() -> impl Strategy<Value = OpenOptions> {
    any::<[bool; 6]>().prop_map(|[follow, create, exclusive, truncate, directory, write]| OpenOptions {
        follow: if follow { Follow::Yes } else { Follow::No },
        create,
        exclusive,
        truncate,
        directory,
        write,
    })
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => path().prop_map(Op::Mkdir),
        2 => path().prop_map(Op::Rmdir),
        3 => path().prop_map(Op::Unlink),
        1 => path().prop_map(Op::Remove),
        5 => (path(), path()).prop_map(|(from, to)| Op::Rename(from, to)),
        2 => (path(), any::<bool>(), path()).prop_map(|(from, f, to)| Op::Link(from, f, to)),
        2 => (path(), path()).prop_map(|(target, path)| Op::Symlink(target, path)),
        4 => (path(), options()).prop_map(|(path, options)| Op::Open(path, options)),
        1 => path().prop_map(Op::Hold),
        1 => (0..4_usize, 0..9_000_usize, bytes()).prop_map(|(n, at, b)| Op::WriteHeld(n, at, b)),
        3 => (path(), 0..9_000_usize, bytes()).prop_map(|(path, at, b)| Op::Write(path, at, b)),
        2 => (path(), 0..9_000_usize).prop_map(|(path, len)| Op::SetLen(path, len)),
        4 => (path(), bytes()).prop_map(|(path, data)| Op::WriteFile(path, data)),
        1 => (0..4_usize).prop_map(Op::Drop),
        1 => Just(Op::Fork),
        1 => Just(Op::Mark),
        1 => Just(Op::Commit),
        2 => Just(Op::Restore),
    ]
}

pub(crate) struct World {
    pub(crate) vfs: Vfs,
    pub(crate) root: RootId,
    top: InodeId,
    pub(crate) host: Arc<FakeHost>,
    model: Reference,
    pub(crate) held: Vec<(InodeId, u64)>,
    forks: Vec<(Vfs, Reference, usize)>,
    commits: usize,
    mounted: bool,
}

impl World {
    pub(crate) fn new(mounted: bool) -> Self {
        let host = Arc::new(FakeHost::default());
        let mut model = Reference::default();
        let mut vfs = Vfs::new(VfsLimits {
            // The cache is small enough that some chunks are evicted.
            mount_cache_bytes: 20_000,
            ..VfsLimits::default()
        });
        let root = if mounted {
            for (path, node) in [
                ("a", HostNode::Dir),
                ("a/a", HostNode::File(vec![1; 10_000])),
                ("a/b", HostNode::Dir),
                ("a/b/c", HostNode::File(b"deep".to_vec())),
                ("a/c", HostNode::Link("b/c".into())),
                ("b", HostNode::File(b"b".to_vec())),
                ("c", HostNode::Dir),
                ("d", HostNode::Link("a".into())),
            ] {
                model.put(path, &node);
                host.put(path, node);
            }
            vfs.add_mount(host.clone(), Access::ReadWrite).unwrap()
        } else {
            vfs.add_root(Access::ReadWrite)
        };
        model.mark();
        Self {
            top: vfs.root_dir(root).unwrap(),
            vfs,
            root,
            host,
            model,
            held: Vec::new(),
            forks: Vec::new(),
            commits: 0,
            mounted,
        }
    }

    fn open(&mut self, path: &str, options: OpenOptions) -> Result<(InodeId, u64), VfsError> {
        let expected = self.model.open(path, options);
        let opened = self.vfs.open(self.top, path.as_bytes(), options);
        assert_eq!(opened.map(|o| o.created), expected.clone().map(|(_, created)| created));
        let (opened, (path, _)) = (opened?, expected?);
        let id = if path.is_empty() { 0 } else { self.model.id(&path) };
        Ok((opened.inode, id))
    }

    pub(crate) fn step(&mut self, op: Op) {
        let top = self.top;
        let write = OpenOptions { write: true, ..OpenOptions::default() };
        match op {
            Op::Mkdir(path) => {
                let found = self.vfs.create_dir(top, path.as_bytes()).map(drop);
                assert_eq!(found, self.model.mkdir(&path));
            }
            Op::Rmdir(path) => {
                let found = self.vfs.remove_dir(top, path.as_bytes());
                assert_eq!(found, self.model.rmdir(&path));
            }
            Op::Unlink(path) => {
                let found = self.vfs.unlink(top, path.as_bytes());
                assert_eq!(found, self.model.unlink(&path));
            }
            Op::Remove(path) => {
                let found = self.vfs.remove(self.root, &path).map_err(|e| e.reason);
                assert_eq!(found, self.model.remove(&path));
            }
            Op::Rename(from, to) => {
                let found = self.vfs.rename(top, from.as_bytes(), top, to.as_bytes());
                assert_eq!(found, self.model.rename(&from, &to));
            }
            Op::Link(from, follow, to) => {
                let (follow, end) = if follow { (Follow::Yes, PathEnd::Target) } else { (Follow::No, PathEnd::Node) };
                let found = self.vfs.link(top, from.as_bytes(), follow, top, to.as_bytes());
                assert_eq!(found, self.model.link(&from, end, &to));
            }
            Op::Symlink(target, path) => {
                let found = self.vfs.symlink(target.as_bytes(), top, path.as_bytes());
                assert_eq!(found, self.model.symlink(&target, &path));
            }
            Op::Open(path, options) => {
                if let Ok((inode, _)) = self.open(&path, options) {
                    self.vfs.release(inode);
                }
            }
            Op::Hold(path) => {
                if let Ok((inode, id)) = self.open(&path, write) {
                    self.held.push((inode, id));
                }
            }
            Op::WriteHeld(n, at, data) => {
                if let Some(&(inode, id)) = self.held.get(n) {
                    self.vfs.write_at(inode, at as u64, &data).unwrap();
                    self.model.write(id, at, &data);
                }
            }
            Op::Write(path, at, data) => {
                if let Ok((inode, id)) = self.open(&path, write) {
                    self.vfs.write_at(inode, at as u64, &data).unwrap();
                    self.model.write(id, at, &data);
                    self.vfs.release(inode);
                }
            }
            Op::SetLen(path, len) => {
                if let Ok((inode, id)) = self.open(&path, write) {
                    self.vfs.set_len(inode, len as u64).unwrap();
                    self.model.set_len(id, len);
                    self.vfs.release(inode);
                }
            }
            Op::WriteFile(path, data) => self.write_file(&path, &data),
            Op::Drop(n) => {
                if n < self.held.len() {
                    let (inode, _) = self.held.remove(n);
                    self.vfs.release(inode);
                }
            }
            Op::Fork => {
                let fork = (self.vfs.clone(), self.model.clone(), self.commits);
                self.forks.push(fork);
            }
            Op::Mark => {
                self.vfs.mark();
                self.model.mark();
            }
            Op::Commit => self.commit(),
            Op::Restore => self.restore(),
        }
    }

    /// Creates an empty file system to restore into, as an embedder would.
    pub(crate) fn like_new(&self) -> (Vfs, RootId) {
        let mut fresh = Vfs::new(*self.vfs.limits());
        let root = if self.mounted {
            fresh.add_mount(self.host.clone(), Access::ReadWrite).unwrap()
        } else {
            fresh.add_root(Access::ReadWrite)
        };
        (fresh, root)
    }

    fn restore(&mut self) {
        self.vfs.mark();
        self.model.mark();
        let open = self.held.iter().map(|&(inode, _)| inode).collect();
        let numbers: Vec<u64> = self.held.iter().map(|(inode, _)| inode.get()).collect();
        let saved = self.vfs.save(&open);
        let (mut fresh, root) = self.like_new();
        fresh.write_file(root, "what/was/here", b"before").unwrap();
        fresh.restore(&saved, &numbers).unwrap();
        assert_eq!(fresh.save(&open), saved, "equal file systems are saved as equal bytes");
        assert_eq!(fresh.commit_plan(root), self.vfs.commit_plan(root));
        assert_eq!((root, fresh.root_dir(root)), (self.root, Some(self.top)));
        if !self.mounted {
            let usage = |vfs: &Vfs| (vfs.bytes_used(), vfs.inodes_used());
            assert_eq!(usage(&fresh), usage(&self.vfs));
        }
        self.vfs = fresh;
        if self.commits > 0 {
            // After a commit, several names of one file are separate files on the host.
            let (vfs, top) = (&mut self.vfs, self.top);
            self.model.separate(|path| vfs.lookup(top, path.as_bytes(), Follow::No).unwrap().get());
        }
    }

    /// Writes only to existing directories; other tests cover the creation of ancestor directories.
    fn write_file(&mut self, path: &str, data: &[u8]) {
        let options = OpenOptions { create: true, truncate: true, write: true, ..OpenOptions::default() };
        let mut after = self.model.clone();
        let Ok((opened, _)) = after.open(path, options) else {
            return;
        };
        let id = after.id(&opened);
        after.write(id, 0, data);
        self.model = after;
        self.vfs.write_file(self.root, path, data).unwrap();
    }

    fn commit(&mut self) {
        // Files that are removed while they are open lose their source; another test covers this case.
        let model = &self.model;
        let (held, lost): (Vec<_>, Vec<_>) =
            self.held.drain(..).partition(|&(_, id)| model.tree.values().any(|&(other, _)| other == id));
        self.held = held;
        for (inode, _) in lost {
            self.vfs.release(inode);
        }
        let plan = self.vfs.commit_plan(self.root);
        let written = self.host.apply(&mut self.vfs, &plan);
        self.vfs.mark_committed(self.root, written).unwrap();
        assert!(self.vfs.commit_plan(self.root).is_empty());
        assert_eq!(self.host.tree(), self.model.contents());
        self.commits += 1;
    }

    fn finish(mut self) {
        check(&mut self.vfs, self.root, &self.model);
        for (inode, id) in &self.held {
            let expected = &self.model.data[id];
            assert_eq!(&read_all(&mut self.vfs, *inode), expected);
        }
        for (fork, model, commits) in &mut self.forks {
            // A commit of another fork changes the host, and therefore the files that this fork has not read yet.
            if !self.mounted || *commits == self.commits {
                check(fork, self.root, model);
            }
        }
        self.commit();
        // All charges must be refunded.
        for (inode, _) in std::mem::take(&mut self.held) {
            self.vfs.release(inode);
        }
        for entry in self.vfs.list(self.root, "").unwrap() {
            self.vfs.remove(self.root, &entry.name).unwrap();
        }
        self.vfs.mark();
        self.vfs.mark_committed(self.root, []).unwrap();
        assert_eq!((self.vfs.bytes_used(), self.vfs.inodes_used()), (0, 0));
    }
}

fn run(name: &str, mounted: bool) {
    runner(name)
        .run(&prop::collection::vec(op(), 1..80), |ops| {
            let mut world = World::new(mounted);
            for op in ops {
                world.step(op);
            }
            world.finish();
            Ok(())
        })
        .unwrap();
}

#[test]
fn operations_agree_with_a_map_of_paths() {
    run("operations_agree_with_a_map_of_paths", false);
}

#[test]
fn operations_over_a_mount_agree_with_a_map_of_paths() {
    run("operations_over_a_mount_agree_with_a_map_of_paths", true);
}

fn path_with_dots() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        5 => Just("a"), 5 => Just("b"), 5 => Just("c"), 2 => Just("."), 4 => Just(".."),
        1 => Just(""),
    ];
    prop::collection::vec(part, 1..7).prop_map(|parts| parts.join("/"))
}

/// Generates paths and nodes. Entries whose parent is not a directory are skipped.
fn tree() -> impl Strategy<Value = Vec<(String, HostNode)>> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c")];
    let place = prop::collection::vec(name, 1..4).prop_map(|parts| parts.join("/"));
    let node = prop_oneof![
        3 => Just(HostNode::Dir),
        1 => Just(HostNode::File(Vec::new())),
        4 => path_with_dots().prop_map(HostNode::Link),
    ];
    prop::collection::vec((place, node), 1..20)
}

#[test]
fn paths_stay_inside_and_resolve_as_the_model() {
    let strategy = (tree(), prop::collection::vec((path_with_dots(), any::<bool>()), 20));
    let test = "paths_stay_inside_and_resolve_as_the_model";
    runner(test)
        .run(&strategy, |(nodes, paths)| {
            let host = Arc::new(FakeHost::default());
            let mut model = Reference::default();
            for (path, node) in nodes {
                let parent = path.rsplit_once('/').map_or("", |(dir, _)| dir);
                if model.kind(parent) == Some(NodeKind::Dir) && model.kind(&path).is_none() {
                    model.put(&path, &node);
                    host.put(&path, node);
                }
            }
            let mut vfs = Vfs::new(VfsLimits::default());
            let root = vfs.add_mount(host, Access::ReadOnly).unwrap();
            let top = vfs.root_dir(root).unwrap();
            let mut bases = vec![String::new()];
            let dirs = model.tree.iter().filter(|(_, (_, kind))| *kind == NodeKind::Dir);
            bases.extend(dirs.map(|(path, _)| path.clone()));
            for base in &bases {
                let dir = if base.is_empty() { top } else { vfs.lookup(top, base.as_bytes(), Follow::No).unwrap() };
                for (path, follow) in &paths {
                    let (follow, end) =
                        if *follow { (Follow::Yes, PathEnd::Target) } else { (Follow::No, PathEnd::Node) };
                    let found = vfs.lookup(dir, path.as_bytes(), follow).map(|inode| vfs.path_of(inode).unwrap());
                    let expected = model.lookup(base, path, end);
                    prop_assert_eq!(&found, &expected, "`{}` beneath `{}`", path, base);
                    if let Ok(found) = found {
                        let inside = base.is_empty() || found == *base || found.starts_with(&format!("{base}/"));
                        prop_assert!(inside, "`{}` left `{}` for `{}`", path, base, found);
                    }
                }
            }
            Ok(())
        })
        .unwrap();
}
