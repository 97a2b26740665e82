//! A read-only snapshot of a workspace, and recursive listings.

use std::collections::BTreeMap;

use glovebox_vfs::{Access, FileKind, Follow, InodeId, RootId, Vfs, VfsError, VfsLimits};

use super::{
    FileEntry, FileError, FilePage, ListLimits, entry_path, inside_path, path_bytes,
    pattern::{self, Pattern},
};

/// Maximum length of a single read, in bytes. Bounds the buffer that a read allocates on the host.
const MAX_READ_BYTES: u64 = 1 << 30;

/// Maximum number of steps for matching the paths of one listing, which takes about a second. A step advances one state
/// of the pattern by one character.
const MAX_MATCHING_STEPS: usize = 200_000_000;

/// A snapshot of a workspace. Shares all unchanged data with the workspace.
#[derive(Clone, Debug)]
pub struct Snapshot {
    vfs: Vfs,
    root: RootId,
}

/// Checks the syntax of a pattern without reading files.
///
/// # Errors
/// Fails if the pattern is invalid or too long.
pub fn check_pattern(pattern: &str) -> Result<(), FileError> {
    Pattern::parse(pattern).map(drop)
}

impl Snapshot {
    /// Creates a snapshot of the workspace at `root`. Without a root, the snapshot is empty.
    pub fn new(mut vfs: Vfs, root: Option<RootId>) -> Self {
        let root = root.unwrap_or_else(|| vfs.add_root(Access::ReadOnly));
        Self { vfs, root }
    }

    /// Creates the empty snapshot of a session without a workspace.
    pub fn none() -> Self {
        Self::new(Vfs::new(VfsLimits::default()), None)
    }

    /// Lists the files, directories and links that match a pattern, sorted by path. Names with a leading dot also
    /// match. Links are not followed.
    ///
    /// # Errors
    /// Fails if the pattern is invalid, if matching takes more than 200 million steps, or if a directory is unreadable.
    pub fn list(&self, pattern: &str) -> Result<Vec<FileEntry>, FileError> {
        Ok(self.list_page(pattern, None, ListLimits::NONE)?.entries)
    }

    /// Returns the first entries of [`list`](Self::list) whose paths are greater than `after`. Entries beyond the
    /// limits are counted but not collected.
    ///
    /// # Errors
    /// Fails like [`list`](Self::list).
    pub fn list_page(&self, pattern: &str, after: Option<&str>, limits: ListLimits) -> Result<FilePage, FileError> {
        let Pattern { matcher, prefix, max_depth } = Pattern::parse(pattern)?;
        let (mut vfs, mut top) = self.state()?;
        for name in &prefix {
            // A link is not a directory, so it has no entries below it.
            top = match vfs.lookup(top, name.as_bytes(), Follow::No) {
                Ok(inode) => inode,
                Err(VfsError::NotFound | VfsError::NotADirectory) => return Ok(FilePage::default()),
                Err(error) => return Err(FileError::refused("list", name)(error)),
            };
        }
        let mut steps = 0_usize;
        let is_listed = |path: &str| {
            if after.is_some_and(|after| path <= after) || steps > MAX_MATCHING_STEPS {
                return false;
            }
            let (is_match, taken) = matcher.run(path);
            steps += taken;
            is_match
        };
        let page = page_below(&mut vfs, (&prefix.join("/"), top), max_depth, limits, is_listed)?;
        if steps > MAX_MATCHING_STEPS {
            let reason = format!(
                "matching it takes more than {MAX_MATCHING_STEPS} steps; use fewer `*`, or begin it with a directory"
            );
            return Err(pattern::rejected(pattern, reason));
        }
        Ok(page)
    }

    /// Returns the first entries below the directory `dir`, up to `max_depth` levels deep, sorted by path. Fails if
    /// `dir` does not exist. Returns an empty page if `dir` is a file.
    pub fn list_below(&self, dir: &str, max_depth: usize, limits: ListLimits) -> Result<FilePage, FileError> {
        let (mut vfs, root) = self.state()?;
        let dir = inside_path(dir)?;
        let top = vfs.lookup(root, path_bytes(&dir), Follow::No).map_err(FileError::refused("list", &dir))?;
        page_below(&mut vfs, (&dir, top), max_depth, limits, |_| true)
    }

    /// Returns a path's attributes. Follows links to directories on the path, but not a link at its end.
    ///
    /// # Errors
    /// Fails if the path is invalid or does not exist.
    pub fn stat(&self, path: &str) -> Result<FileEntry, FileError> {
        let (mut vfs, root) = self.state()?;
        let path = inside_path(path)?;
        let inode = vfs.lookup(root, path_bytes(&path), Follow::No).map_err(FileError::refused("stat", &path))?;
        let stat = vfs.stat(inode).map_err(FileError::refused("stat", &path))?;
        Ok(FileEntry::new(path, &stat))
    }

    /// Returns the size of a file in bytes. Follows links, like [`read`](Self::read).
    ///
    /// # Errors
    /// Fails if the path is invalid or does not exist.
    pub fn size_bytes(&self, path: &str) -> Result<u64, FileError> {
        let (mut vfs, root) = self.state()?;
        let path = entry_path(path)?;
        let refused = || FileError::refused("read", &path);
        let inode = vfs.lookup(root, path.as_bytes(), Follow::Yes).map_err(refused())?;
        Ok(vfs.stat(inode).map_err(refused())?.size_bytes)
    }

    /// Reads at most `len_bytes` of a file, starting at `offset`. Without a length, reads to the end. Returns fewer
    /// bytes only at the end of the file, and none beyond it.
    ///
    /// # Errors
    /// Fails if the path is invalid, is not a file, or the result would be longer than 1 GiB.
    pub fn read(&self, path: &str, offset: u64, len_bytes: Option<u64>) -> Result<Vec<u8>, FileError> {
        let (mut vfs, root) = self.state()?;
        let path = entry_path(path)?;
        let refused = || FileError::refused("read", &path);
        let inode = vfs.lookup(root, path.as_bytes(), Follow::Yes).map_err(refused())?;
        let left = vfs.stat(inode).map_err(refused())?.size_bytes.saturating_sub(offset);
        let len = len_bytes.unwrap_or(u64::MAX).min(left);
        if len > MAX_READ_BYTES {
            return Err(refused()(VfsError::FileTooBig));
        }
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| refused()(VfsError::FileTooBig))?];
        let done = fill(&mut vfs, inode, offset, &mut bytes).map_err(refused())?;
        bytes.truncate(done);
        Ok(bytes)
    }

    /// Returns the number of bytes that the file system uses.
    pub fn held_bytes(&self) -> u64 {
        self.vfs.bytes_used()
    }

    /// Returns a copy of the file system, which lookups may modify, and the workspace's root directory.
    ///
    /// # Errors
    /// Fails if the snapshot has no workspace.
    pub fn state(&self) -> Result<(Vfs, InodeId), FileError> {
        let top = self.vfs.root_dir(self.root).ok_or(VfsError::BadInode).map_err(FileError::refused("find", "."))?;
        Ok((self.vfs.clone(), top))
    }
}

/// Lists the entries below the directory `top`, whose path is `dir`, that satisfy `is_listed`.
fn page_below(
    vfs: &mut Vfs,
    (dir, top): (&str, InodeId),
    max_depth: usize,
    limits: ListLimits,
    mut is_listed: impl FnMut(&str) -> bool,
) -> Result<FilePage, FileError> {
    if vfs.stat(top).is_ok_and(|stat| stat.kind != FileKind::Directory) {
        return Ok(FilePage::default());
    }
    let (mut first, mut path_bytes, mut more) = (BTreeMap::new(), 0, 0_u64);
    let walked = walk_each(vfs, top, max_depth, |WalkedEntry { path, inode, .. }| {
        let path = if dir.is_empty() { path } else { format!("{dir}/{path}") };
        if is_listed(&path) {
            path_bytes += path.len();
            first.insert(path, inode);
            while first.len() > limits.entries || (first.len() > 1 && path_bytes > limits.path_bytes) {
                path_bytes -= first.pop_last().map_or(0, |(path, _)| path.len());
                more += 1;
            }
        }
    });
    walked.map_err(|(path, error)| FileError::refused("list", &path)(error))?;
    let entry = |(path, inode): (String, InodeId)| {
        let stat = vfs.stat(inode).map_err(FileError::refused("list", &path))?;
        Ok(FileEntry::new(path, &stat))
    };
    Ok(FilePage { entries: first.into_iter().map(entry).collect::<Result<_, _>>()?, more })
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes read.
///
/// # Errors
/// Fails if the inode is not a file, or its contents cannot be read from the host.
pub fn fill(vfs: &mut Vfs, inode: InodeId, offset: u64, into: &mut [u8]) -> Result<usize, VfsError> {
    let mut done = 0_usize;
    // Reading zero bytes of a directory is still an error.
    while let Some(rest) = into.get_mut(done..) {
        let read = vfs.read_at(inode, offset.saturating_add(done as u64), rest)?;
        if read == 0 {
            break;
        }
        done = done.saturating_add(read);
    }
    Ok(done)
}

/// An entry of a recursive listing.
#[derive(Clone, Debug)]
pub struct WalkedEntry {
    /// The path, relative to the start of the walk.
    pub path: String,
    /// The entry's inode.
    pub inode: InodeId,
    /// The entry's type; links are not followed.
    pub kind: FileKind,
}

/// Returns all entries below `top`, at most `max_depth` levels deep, sorted by path: a directory comes before its
/// entries. Does not follow links. The file system's quotas bound the result.
///
/// # Errors
/// Returns the path of a directory that cannot be read, and the reason.
pub fn walk(vfs: &mut Vfs, top: InodeId, max_depth: usize) -> Result<Vec<WalkedEntry>, (String, VfsError)> {
    let mut found = Vec::new();
    walk_each(vfs, top, max_depth, |entry| found.push(entry))?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Calls `visit` with each entry that [`walk`] returns, in no particular order.
fn walk_each(
    vfs: &mut Vfs,
    top: InodeId,
    max_depth: usize,
    mut visit: impl FnMut(WalkedEntry),
) -> Result<(), (String, VfsError)> {
    let mut left = vec![(String::new(), top, 0_usize)];
    while let Some((dir, inode, depth)) = left.pop() {
        if depth >= max_depth {
            continue;
        }
        let mut cookie = 0;
        loop {
            let part = vfs.read_dir(inode, cookie, usize::MAX).map_err(|error| (dir.clone(), error))?;
            let Some(last) = part.last() else { break };
            cookie = last.next_cookie;
            for entry in part.iter().filter(|entry| !matches!(&*entry.name, "." | "..")) {
                let path = if dir.is_empty() { entry.name.to_string() } else { format!("{dir}/{}", entry.name) };
                if entry.kind == FileKind::Directory {
                    left.push((path.clone(), entry.inode, depth + 1));
                }
                visit(WalkedEntry { path, inode: entry.inode, kind: entry.kind });
            }
        }
    }
    Ok(())
}
