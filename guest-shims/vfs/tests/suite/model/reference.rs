//! A file system as a map from path to node, optimized for obvious correctness, not for speed.

use std::collections::BTreeMap;

use glovebox_vfs::{Changes, OpenOptions, VfsError};

use crate::support::HostNode;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NodeKind {
    Dir,
    File,
    Link,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PathEnd {
    Target,
    Node,
    Name,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Reference {
    pub(crate) tree: BTreeMap<String, (u64, NodeKind)>,
    pub(crate) data: BTreeMap<u64, Vec<u8>>,
    pub(crate) targets: BTreeMap<u64, String>,
    versions: BTreeMap<u64, u64>,
    next: u64,
    marked: Box<Option<Reference>>,
}

#[derive(Debug)]
pub(crate) struct PathTarget {
    pub(crate) path: String,
    /// `true` if the path ends with a name rather than `.` or `..`.
    pub(crate) named: bool,
    pub(crate) slash: bool,
    pub(crate) dot_dot: bool,
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

fn parent(path: &str) -> String {
    path.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned()
}

impl Reference {
    pub(crate) fn kind(&self, path: &str) -> Option<NodeKind> {
        if path.is_empty() { Some(NodeKind::Dir) } else { self.tree.get(path).map(|&(_, kind)| kind) }
    }

    pub(crate) fn id(&self, path: &str) -> u64 {
        self.tree[path].0
    }

    /// Resolves a path by rewriting: replaces the first symlink in the path with its target, and restarts.
    pub(crate) fn resolve(&self, base: &str, path: &str, end: PathEnd) -> Result<PathTarget, VfsError> {
        if path.is_empty() {
            return Err(VfsError::NotFound);
        }
        if path.starts_with('/') {
            return Err(VfsError::NotCapable);
        }
        let mut text = path.to_owned();
        let mut hops = 0;
        'again: loop {
            let slash = text.ends_with('/');
            let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
            let mut at = base.to_owned();
            let mut dot_dot = false;
            for (n, part) in parts.iter().enumerate() {
                let last = n + 1 == parts.len();
                dot_dot = *part == "..";
                if *part == "." {
                    continue;
                }
                if dot_dot {
                    if at == base {
                        return Err(VfsError::NotCapable);
                    }
                    at = parent(&at);
                    continue;
                }
                let full = join(&at, part);
                let follow = !last || end == PathEnd::Target || (end == PathEnd::Node && slash);
                match self.kind(&full) {
                    Some(NodeKind::Link) if follow => {
                        hops += 1;
                        if hops > 40 {
                            return Err(VfsError::TooManySymlinks);
                        }
                        let target = &self.targets[&self.id(&full)];
                        if target.is_empty() {
                            return Err(VfsError::NotFound);
                        }
                        if target.starts_with('/') {
                            return Err(VfsError::NotCapable);
                        }
                        let mut new = parts[..n].to_vec();
                        new.push(target);
                        new.extend(&parts[n + 1..]);
                        text = new.join("/") + if slash { "/" } else { "" };
                        continue 'again;
                    }
                    Some(NodeKind::Dir) if !last => at = full,
                    Some(_) if !last => return Err(VfsError::NotADirectory),
                    None if !last => return Err(VfsError::NotFound),
                    _ => {
                        return Ok(PathTarget { path: full, named: true, slash, dot_dot: false });
                    }
                }
            }
            return Ok(PathTarget { path: at, named: false, slash, dot_dot });
        }
    }

    pub(crate) fn put(&mut self, path: &str, node: &HostNode) -> u64 {
        self.next += 1;
        let id = self.next;
        let kind = match node {
            HostNode::Dir => NodeKind::Dir,
            HostNode::File(data) => {
                self.data.insert(id, data.clone());
                NodeKind::File
            }
            HostNode::Link(target) => {
                self.targets.insert(id, target.clone());
                NodeKind::Link
            }
        };
        self.tree.insert(path.to_owned(), (id, kind));
        id
    }

    /// Separates hard links: names of one file become different files if `inode` returns different numbers for them.
    pub(crate) fn separate(&mut self, mut inode: impl FnMut(&str) -> u64) {
        let mut known: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let mut used = std::collections::BTreeSet::new();
        let paths: Vec<(String, u64)> = self.tree.iter().map(|(path, &(id, _))| (path.clone(), id)).collect();
        for (path, id) in paths {
            let number = *known.entry((id, inode(&path))).or_insert_with(|| {
                if used.insert(id) {
                    return id;
                }
                self.next += 1;
                if let Some(data) = self.data.get(&id).cloned() {
                    self.data.insert(self.next, data);
                }
                if let Some(target) = self.targets.get(&id).cloned() {
                    self.targets.insert(self.next, target);
                }
                self.next
            });
            self.tree.get_mut(&path).unwrap().0 = number;
        }
        self.mark();
    }

    fn is_empty_dir(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        !self.tree.keys().any(|key| key.starts_with(&prefix))
    }

    pub(crate) fn mkdir(&mut self, path: &str) -> Result<(), VfsError> {
        let place = self.resolve("", path, PathEnd::Name)?;
        if self.kind(&place.path).is_some() {
            return Err(VfsError::AlreadyExists);
        }
        self.put(&place.path, &HostNode::Dir);
        Ok(())
    }

    pub(crate) fn rmdir(&mut self, path: &str) -> Result<(), VfsError> {
        let place = self.resolve("", path, PathEnd::Name)?;
        if !place.named {
            return Err(if place.dot_dot { VfsError::NotEmpty } else { VfsError::Invalid });
        }
        match self.kind(&place.path) {
            None => Err(VfsError::NotFound),
            Some(NodeKind::Dir) if !self.is_empty_dir(&place.path) => Err(VfsError::NotEmpty),
            Some(NodeKind::Dir) => {
                self.tree.remove(&place.path);
                Ok(())
            }
            Some(_) => Err(VfsError::NotADirectory),
        }
    }

    pub(crate) fn unlink(&mut self, path: &str) -> Result<(), VfsError> {
        let place = self.resolve("", path, PathEnd::Name)?;
        match self.kind(&place.path) {
            None => Err(VfsError::NotFound),
            Some(NodeKind::Dir) => Err(VfsError::IsADirectory),
            Some(_) if place.slash => Err(VfsError::NotADirectory),
            Some(_) => {
                self.tree.remove(&place.path);
                Ok(())
            }
        }
    }

    pub(crate) fn remove(&mut self, path: &str) -> Result<(), VfsError> {
        let place = self.resolve("", path, PathEnd::Name)?;
        let kind = self.kind(&place.path).ok_or(VfsError::NotFound)?;
        if !place.named {
            return Err(VfsError::Invalid);
        }
        if place.slash && kind != NodeKind::Dir {
            return Err(VfsError::NotADirectory);
        }
        let prefix = format!("{}/", place.path);
        self.tree.retain(|key, _| *key != place.path && !key.starts_with(&prefix));
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<(), VfsError> {
        let old = self.resolve("", from, PathEnd::Name)?;
        let new = self.resolve("", to, PathEnd::Name)?;
        if !old.named || !new.named {
            return Err(VfsError::Invalid);
        }
        let kind = self.kind(&old.path).ok_or(VfsError::NotFound)?;
        let target = self.kind(&new.path);
        if kind != NodeKind::Dir && (old.slash || new.slash) {
            return Err(VfsError::NotADirectory);
        }
        if target.is_some() && self.id(&new.path) == self.id(&old.path) {
            return Ok(());
        }
        if kind == NodeKind::Dir {
            if new.path.starts_with(&format!("{}/", old.path)) {
                return Err(VfsError::Invalid);
            }
            match target {
                Some(NodeKind::Dir) if !self.is_empty_dir(&new.path) => {
                    return Err(VfsError::NotEmpty);
                }
                Some(NodeKind::File | NodeKind::Link) => return Err(VfsError::NotADirectory),
                _ => {}
            }
        } else if target == Some(NodeKind::Dir) {
            return Err(VfsError::IsADirectory);
        }
        let prefix = format!("{}/", old.path);
        let moved: Vec<String> =
            self.tree.keys().filter(|key| **key == old.path || key.starts_with(&prefix)).cloned().collect();
        for path in moved {
            let node = self.tree.remove(&path).unwrap();
            let path = format!("{}{}", new.path, &path[old.path.len()..]);
            self.tree.insert(path, node);
        }
        Ok(())
    }

    pub(crate) fn link(&mut self, from: &str, end: PathEnd, to: &str) -> Result<(), VfsError> {
        let source = self.lookup("", from, end)?;
        let place = self.resolve("", to, PathEnd::Name)?;
        if self.kind(&source) == Some(NodeKind::Dir) {
            return Err(VfsError::NotPermitted);
        }
        if self.kind(&place.path).is_some() {
            return Err(VfsError::AlreadyExists);
        }
        if place.slash {
            return Err(VfsError::NotFound);
        }
        self.tree.insert(place.path, self.tree[&source]);
        Ok(())
    }

    pub(crate) fn symlink(&mut self, target: &str, path: &str) -> Result<(), VfsError> {
        let place = self.resolve("", path, PathEnd::Name)?;
        if self.kind(&place.path).is_some() {
            return Err(VfsError::AlreadyExists);
        }
        if place.slash {
            return Err(VfsError::NotFound);
        }
        self.put(&place.path, &HostNode::Link(target.to_owned()));
        Ok(())
    }

    pub(crate) fn lookup(&self, base: &str, path: &str, end: PathEnd) -> Result<String, VfsError> {
        let place = self.resolve(base, path, end)?;
        match self.kind(&place.path) {
            None => Err(VfsError::NotFound),
            Some(kind) if place.slash && kind != NodeKind::Dir => Err(VfsError::NotADirectory),
            Some(_) => Ok(place.path),
        }
    }

    /// Returns the path of the opened file, and `true` if the file was created.
    pub(crate) fn open(&mut self, path: &str, options: OpenOptions) -> Result<(String, bool), VfsError> {
        if options.create && options.directory {
            return Err(VfsError::Invalid);
        }
        let end = match (options.create && options.exclusive, options.follow) {
            (true, _) => PathEnd::Name,
            (false, glovebox_vfs::Follow::Yes) => PathEnd::Target,
            (false, glovebox_vfs::Follow::No) => PathEnd::Node,
        };
        let place = self.resolve("", path, end)?;
        let kind = self.kind(&place.path);
        let changes = options.write || options.truncate;
        match kind {
            Some(_) if options.create && options.exclusive => Err(VfsError::AlreadyExists),
            Some(NodeKind::Link) if options.directory => Err(VfsError::NotADirectory),
            Some(NodeKind::Link) => Err(VfsError::TooManySymlinks),
            Some(NodeKind::Dir) if changes || options.create => Err(VfsError::IsADirectory),
            Some(NodeKind::Dir) => Ok((place.path, false)),
            Some(NodeKind::File) if options.directory || place.slash => Err(VfsError::NotADirectory),
            Some(NodeKind::File) => {
                if options.truncate {
                    self.set_len(self.id(&place.path), 0);
                }
                Ok((place.path, false))
            }
            None if !options.create => Err(VfsError::NotFound),
            None if place.slash => Err(VfsError::IsADirectory),
            None => {
                self.put(&place.path, &HostNode::File(Vec::new()));
                Ok((place.path, true))
            }
        }
    }

    pub(crate) fn write(&mut self, id: u64, offset: usize, bytes: &[u8]) {
        let data = self.data.get_mut(&id).unwrap();
        if bytes.is_empty() {
            return;
        }
        data.resize(data.len().max(offset + bytes.len()), 0);
        data[offset..offset + bytes.len()].copy_from_slice(bytes);
        *self.versions.entry(id).or_default() += 1;
    }

    pub(crate) fn set_len(&mut self, id: u64, len: usize) {
        let data = self.data.get_mut(&id).unwrap();
        if data.len() != len {
            data.resize(len, 0);
            *self.versions.entry(id).or_default() += 1;
        }
    }

    pub(crate) fn mark(&mut self) {
        *self.marked = None;
        *self.marked = Some(self.clone());
    }

    fn leaf(&self, path: &str) -> Option<(u64, u64)> {
        let &(id, kind) = self.tree.get(path)?;
        (kind != NodeKind::Dir).then(|| (id, self.versions.get(&id).copied().unwrap_or(0)))
    }

    pub(crate) fn changes(&self) -> Changes {
        let empty = Self::default();
        let old = self.marked.as_ref().as_ref().unwrap_or(&empty);
        let mut changes = Changes::default();
        let paths: std::collections::BTreeSet<&String> = old.tree.keys().chain(self.tree.keys()).collect();
        for path in paths {
            match (old.leaf(path), self.leaf(path)) {
                (None, Some(_)) => changes.created.push(path.clone()),
                (Some(_), None) => changes.deleted.push(path.clone()),
                (Some(a), Some(b)) if a != b => changes.modified.push(path.clone()),
                _ => {}
            }
        }
        changes
    }

    /// Returns the tree with contents, in the fake host's representation.
    pub(crate) fn contents(&self) -> BTreeMap<String, HostNode> {
        let node = |&(id, kind): &(u64, NodeKind)| match kind {
            NodeKind::Dir => HostNode::Dir,
            NodeKind::File => HostNode::File(self.data[&id].clone()),
            NodeKind::Link => HostNode::Link(self.targets[&id].clone()),
        };
        self.tree.iter().map(|(path, entry)| (path.clone(), node(entry))).collect()
    }
}
