//! Tests of host directories.

mod committing;
mod conflicts;
mod crashing;
mod guarded;
mod guest;
mod reading;

use std::{collections::BTreeMap, path::Path, time::Duration};

use glovebox_vfs::{Access, CommitStep, FileKind, MountSource as _, RootId, SourceStat, Vfs, VfsLimits};

use super::{HostDirectory, MountError, commit::WrittenFiles};

/// The maximum wait for other commits. Long enough for a busy machine.
const WAIT: Duration = Duration::from_secs(20);

/// A guest's file system, with the new contents of the files in a commit plan.
struct Guest {
    vfs: Vfs,
    root: RootId,
    count: u32,
}

impl Guest {
    fn new() -> Self {
        let mut vfs = Vfs::new(VfsLimits::default());
        let root = vfs.add_root(Access::ReadWrite);
        Self { vfs, root, count: 0 }
    }

    fn write(&mut self, path: &str, data: &[u8], base: Option<SourceStat>) -> CommitStep {
        self.count += 1;
        let name = self.count.to_string();
        self.vfs.write_file(self.root, &name, data).unwrap();
        let stat = self.vfs.file_stat(self.root, &name).unwrap();
        CommitStep::WriteFile {
            path: path.to_owned(),
            inode: stat.inode,
            size_bytes: stat.size_bytes,
            modified_ns: stat.modified_ns,
            base,
        }
    }

    fn commit(&mut self, host: &HostDirectory, plan: &[CommitStep]) -> Result<WrittenFiles, MountError> {
        host.commit(plan, &mut self.vfs)
    }
}

fn delete(path: &str, base: Option<SourceStat>) -> CommitStep {
    CommitStep::DeleteFile { path: path.to_owned(), base }
}

fn create_dir(path: &str) -> CommitStep {
    CommitStep::CreateDir { path: path.to_owned() }
}

fn remove_dir(path: &str) -> CommitStep {
    CommitStep::RemoveDir { path: path.to_owned() }
}

fn link(path: &str, target: &str) -> CommitStep {
    CommitStep::Symlink { path: path.to_owned(), target: target.into(), escapes: false, base: None }
}

fn writable(path: &Path) -> HostDirectory {
    HostDirectory::open_for_writing(path, WAIT).unwrap()
}

/// Returns the state of a file that a guest would see now.
fn shown(host: &HostDirectory, path: &str) -> Option<SourceStat> {
    host.stat(path).unwrap()
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    File(Vec<u8>),
    Dir,
    Link(String),
    Other,
}

/// Returns all entries of a directory tree with their contents, including private directories.
fn state(path: &Path) -> BTreeMap<String, Node> {
    let mut state = BTreeMap::new();
    let mut pending = vec![String::new()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(path.join(&dir)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let below = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            let kind = entry.file_type().unwrap();
            let node = if kind.is_symlink() {
                let target = std::fs::read_link(entry.path()).unwrap();
                Node::Link(target.into_os_string().into_string().unwrap())
            } else if kind.is_dir() {
                pending.push(below.clone());
                Node::Dir
            } else if kind.is_file() {
                Node::File(std::fs::read(entry.path()).unwrap())
            } else {
                Node::Other
            };
            state.insert(below, node);
        }
    }
    state
}

fn file(data: &[u8]) -> Node {
    Node::File(data.to_vec())
}

/// Fills the directory with the entries that [`sample_plan`] changes.
fn sample(path: &Path) {
    std::fs::create_dir_all(path.join("held/old/deep")).unwrap();
    std::fs::write(path.join("changed.txt"), "old").unwrap();
    std::fs::write(path.join("untouched.txt"), "same").unwrap();
    std::fs::write(path.join("held/changed.txt"), "old too").unwrap();
    std::fs::write(path.join("held/gone.txt"), "old gone").unwrap();
    std::fs::write(path.join("held/old/deep/gone.txt"), "deep gone").unwrap();
    std::fs::write(path.join("becomes-dir"), "was a file").unwrap();
    std::os::unix::fs::symlink("untouched.txt", path.join("gone-link")).unwrap();
}

/// Returns a plan of changes to [`sample`], in the order of the guest's file system.
fn sample_plan(guest: &mut Guest, host: &HostDirectory) -> Vec<CommitStep> {
    vec![
        delete("becomes-dir", shown(host, "becomes-dir")),
        delete("gone-link", shown(host, "gone-link")),
        delete("held/gone.txt", shown(host, "held/gone.txt")),
        delete("held/old/deep/gone.txt", shown(host, "held/old/deep/gone.txt")),
        remove_dir("held/old/deep"),
        remove_dir("held/old"),
        create_dir("becomes-dir"),
        create_dir("new"),
        create_dir("new/below"),
        guest.write("becomes-dir/inside.txt", b"inside", None),
        guest.write("changed.txt", b"new contents", shown(host, "changed.txt")),
        guest.write("created.txt", b"created", None),
        guest.write("held/changed.txt", b"new too", shown(host, "held/changed.txt")),
        guest.write("held/old", b"was a directory", None),
        guest.write("new/below/file.txt", b"in a new tree", None),
        link("held/link", "../untouched.txt"),
        link("new/below/link", "../../changed.txt"),
    ]
}

/// Returns the state after applying [`sample_plan`] to [`sample`].
fn sample_result() -> BTreeMap<String, Node> {
    [
        ("becomes-dir", Node::Dir),
        ("becomes-dir/inside.txt", file(b"inside")),
        ("changed.txt", file(b"new contents")),
        ("created.txt", file(b"created")),
        ("held", Node::Dir),
        ("held/changed.txt", file(b"new too")),
        ("held/link", Node::Link("../untouched.txt".into())),
        ("held/old", file(b"was a directory")),
        ("new", Node::Dir),
        ("new/below", Node::Dir),
        ("new/below/file.txt", file(b"in a new tree")),
        ("new/below/link", Node::Link("../../changed.txt".into())),
        ("untouched.txt", file(b"same")),
    ]
    .into_iter()
    .map(|(path, node)| (path.to_owned(), node))
    .collect()
}

#[test]
fn file_kinds_match_the_file_system() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let host = writable(dir.path());
    assert_eq!(host.stat("").unwrap().unwrap().kind, FileKind::Directory);
    assert_eq!(host.stat("changed.txt").unwrap().unwrap().kind, FileKind::File);
    assert_eq!(host.stat("gone-link").unwrap().unwrap().kind, FileKind::Symlink);
}
