//! A fake host directory, and random seeds that the tests print.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use glovebox_vfs::{CommitStep, FileIdentity, FileKind, MountSource, SourceEntry, SourceError, SourceStat, Vfs};

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum HostNode {
    Dir,
    File(Vec<u8>),
    Link(String),
}

#[derive(Clone, Debug)]
struct StoredNode {
    node: HostNode,
    inode: u64,
    modified_ns: u64,
}

/// A host directory in memory that counts accesses.
#[derive(Debug, Default)]
pub(crate) struct FakeHost {
    nodes: Mutex<BTreeMap<String, StoredNode>>,
    next: AtomicU64,
    pub(crate) lists: AtomicU64,
    pub(crate) stats: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) longest_read: AtomicU64,
    /// A value greater than 0 makes every call fail.
    pub(crate) broken: AtomicU64,
}

impl FakeHost {
    pub(crate) fn put(&self, path: &str, node: HostNode) {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let stored = StoredNode { node, inode: number, modified_ns: number * 1_000 };
        self.nodes.lock().unwrap().insert(path.to_owned(), stored);
    }

    pub(crate) fn file(&self, path: &str, data: &[u8]) {
        self.put(path, HostNode::File(data.to_vec()));
    }

    pub(crate) fn dir(&self, path: &str) {
        self.put(path, HostNode::Dir);
    }

    pub(crate) fn remove(&self, path: &str) {
        assert!(self.nodes.lock().unwrap().remove(path).is_some(), "{path}");
    }

    pub(crate) fn tree(&self) -> BTreeMap<String, HostNode> {
        let nodes = self.nodes.lock().unwrap();
        nodes.iter().map(|(path, stored)| (path.clone(), stored.node.clone())).collect()
    }

    pub(crate) fn known(&self, path: &str) -> Option<SourceStat> {
        self.nodes.lock().unwrap().get(path).map(stat_of)
    }

    fn check(&self) -> Result<(), SourceError> {
        match self.broken.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(SourceError::new("broken on purpose")),
        }
    }

    /// Carries out a plan as an engine would: reads all content first, and treats conflicts as errors.
    pub(crate) fn apply(&self, vfs: &mut Vfs, plan: &[CommitStep]) -> Vec<(String, SourceStat)> {
        let mut staged = BTreeMap::new();
        for step in plan {
            if let CommitStep::WriteFile { path, inode, size_bytes, .. } = step {
                let mut data = vec![0; usize::try_from(*size_bytes).unwrap()];
                let mut done = 0;
                while done < data.len() {
                    let read = vfs.read_at(*inode, done as u64, &mut data[done..]).unwrap();
                    assert!(read > 0, "{path} ended early");
                    done += read;
                }
                staged.insert(path.clone(), data);
            }
        }
        let mut written = Vec::new();
        for step in plan {
            match step {
                CommitStep::DeleteFile { path, base } => {
                    assert_eq!(self.known(path), *base, "base of deleted {path}");
                    self.remove(path);
                }
                CommitStep::RemoveDir { path } => {
                    let prefix = format!("{path}/");
                    let tree = self.tree();
                    assert!(!tree.keys().any(|key| key.starts_with(&prefix)), "{path}");
                    assert_eq!(tree.get(path), Some(&HostNode::Dir), "{path}");
                    self.remove(path);
                }
                CommitStep::CreateDir { path } => {
                    assert_eq!(self.known(path), None, "{path} already exists");
                    self.check_parent(path);
                    self.dir(path);
                }
                CommitStep::WriteFile { path, base, .. } => {
                    assert_eq!(self.known(path), *base, "base of written {path}");
                    self.check_parent(path);
                    self.file(path, &staged[path]);
                    written.push((path.clone(), self.known(path).unwrap()));
                }
                CommitStep::Symlink { path, target, base, .. } => {
                    assert_eq!(self.known(path), *base, "base of link {path}");
                    self.check_parent(path);
                    self.put(path, HostNode::Link(target.to_string()));
                    written.push((path.clone(), self.known(path).unwrap()));
                }
                _ => panic!("unknown step"),
            }
        }
        written
    }

    fn check_parent(&self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            assert_eq!(self.tree().get(parent), Some(&HostNode::Dir), "{path}");
        }
    }
}

fn stat_of(stored: &StoredNode) -> SourceStat {
    let (kind, size_bytes) = match &stored.node {
        HostNode::Dir => (FileKind::Directory, 0),
        HostNode::File(data) => (FileKind::File, data.len() as u64),
        HostNode::Link(target) => (FileKind::Symlink, target.len() as u64),
    };
    SourceStat {
        kind,
        size_bytes,
        modified_ns: stored.modified_ns,
        changed_ns: stored.modified_ns + 1,
        identity: FileIdentity { device: 1, inode: stored.inode },
    }
}

impl MountSource for FakeHost {
    fn list(&self, dir: &str, limit: usize) -> Result<Vec<SourceEntry>, SourceError> {
        self.check()?;
        self.lists.fetch_add(1, Ordering::Relaxed);
        let nodes = self.nodes.lock().unwrap();
        let mut found: Vec<SourceEntry> = nodes
            .iter()
            .filter_map(|(path, stored)| {
                let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
                (parent == dir).then(|| SourceEntry { name: name.to_owned(), stat: stat_of(stored) })
            })
            .take(limit.saturating_add(1))
            .collect();
        found.reverse();
        Ok(found)
    }

    fn stat(&self, path: &str) -> Result<Option<SourceStat>, SourceError> {
        self.check()?;
        self.stats.fetch_add(1, Ordering::Relaxed);
        if path.is_empty() {
            return Ok(Some(SourceStat {
                kind: FileKind::Directory,
                size_bytes: 0,
                modified_ns: 0,
                changed_ns: 0,
                identity: FileIdentity::default(),
            }));
        }
        Ok(self.known(path))
    }

    fn read(&self, path: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        self.check()?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.longest_read.fetch_max(into.len() as u64, Ordering::Relaxed);
        let nodes = self.nodes.lock().unwrap();
        let Some(HostNode::File(data)) = nodes.get(path).map(|stored| &stored.node) else {
            return Err(SourceError::new("not a file"));
        };
        let rest = data.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        // A source may return fewer bytes than requested, so long reads are cut at an odd number of bytes.
        let len = rest.len().min(into.len()).min(40_961);
        into[..len].copy_from_slice(&rest[..len]);
        self.bytes_read.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }

    fn read_link(&self, path: &str) -> Result<String, SourceError> {
        self.check()?;
        match self.nodes.lock().unwrap().get(path).map(|s| &s.node) {
            Some(HostNode::Link(target)) => Ok(target.clone()),
            _ => Err(SourceError::new("not a link")),
        }
    }
}

/// Returns and prints the seed of a random test: the value of `GLOVEBOX_TEST_SEED`, or a random number.
pub(crate) fn seed(test: &str) -> u64 {
    let given =
        std::env::var("GLOVEBOX_TEST_SEED").ok().map(|text| text.parse().expect("GLOVEBOX_TEST_SEED is a number"));
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(test));
    println!("{test}: GLOVEBOX_TEST_SEED={seed}");
    seed
}

/// A small generator (SplitMix64), so that a seed produces the same numbers everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
}
