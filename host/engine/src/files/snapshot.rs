//! A workspace as it was at one moment.

use std::{io::Write, path::Path};

use globset::{ErrorKind, GlobBuilder, GlobSet, GlobSetBuilder};
use glovebox_vfs::{FileKind, Follow, InodeId, RootId, Vfs, VfsError, VfsLimits};

use super::{CopyReport, FileEntry, FilesError, IfExists, archive, carry, path, walk};

/// The most bytes that [`Files::read`] brings into memory.
const READ_BYTES_MOST: u64 = 1 << 30;

/// The longest pattern, as the longest path.
const PATTERN_BYTES_MOST: usize = 4_096;

/// How deeply alternatives stand in one another: each level is one of the expression that the pattern becomes.
const PATTERN_DEPTH_MOST: usize = 32;

/// A workspace as it was at one moment: as an execution left it, committed to a host directory or not, or as a session
/// had it. A copy that shares what has not changed since; keeping it costs what the session changes afterwards.
///
/// Where the workspace stands for a host directory, what has never been looked at is read from there when asked for.
#[derive(Clone, Debug)]
pub struct Files {
    pub(crate) vfs: Vfs,
    pub(crate) root: Option<RootId>,
}

impl Files {
    /// Those of what has no workspace.
    pub(crate) fn none() -> Self {
        Self { vfs: Vfs::new(VfsLimits::default()), root: None }
    }

    /// What matches a pattern, in ascending order of paths: files, directories and links, names with a leading dot
    /// too. No links are gone through.
    ///
    /// `*` and `?` match within one name, `**` any number of directories, `[ab]` one of these characters, `{a,b}` one of
    /// these patterns; `\` takes the next character as it is. `*` is what lies in the workspace itself, `**` everything,
    /// `src/**/*.py` every such file below `src`.
    ///
    /// # Errors
    /// [`FilesError::Pattern`] for a pattern that is malformed, absolute, has `..` in it, is over 4,096 bytes or has
    /// alternatives more than 32 levels deep; [`FilesError::Refused`] when a host directory cannot be listed.
    pub fn list(&self, pattern: &str) -> Result<Vec<FileEntry>, FilesError> {
        let Pattern { matcher, prefix, depth_most } = Pattern::parse(pattern)?;
        let (mut vfs, mut top) = self.state()?;
        for name in &prefix {
            // Beneath a link there is nothing: it is no directory itself.
            top = match vfs.lookup(top, name.as_bytes(), Follow::No) {
                Ok(inode) => inode,
                Err(VfsError::NotFound | VfsError::NotADirectory) => return Ok(Vec::new()),
                Err(error) => return Err(FilesError::refused("list", name)(error)),
            };
        }
        if vfs.stat(top).is_ok_and(|stat| stat.kind != FileKind::Directory) {
            return Ok(Vec::new());
        }
        let found = walk::below(&mut vfs, top, depth_most);
        let mut entries = Vec::new();
        for walk::Walked { path, inode, .. } in
            found.map_err(|(path, error)| FilesError::refused("list", &path)(error))?
        {
            let path = prefix.iter().map(String::as_str).chain([path.as_str()]).collect::<Vec<_>>().join("/");
            if matcher.is_match(&path) {
                let stat = vfs.stat(inode).map_err(FilesError::refused("list", &path))?;
                entries.push(FileEntry::new(path, &stat));
            }
        }
        Ok(entries)
    }

    /// What is known of a path. A link at its end is described itself; those before it are followed.
    ///
    /// # Errors
    /// [`FilesError::Path`]; [`FilesError::Refused`] when nothing is there.
    pub fn stat(&self, path: &str) -> Result<FileEntry, FilesError> {
        let (mut vfs, root) = self.state()?;
        let path = path::inside(path)?;
        let inode = vfs.lookup(root, path::bytes(&path), Follow::No).map_err(FilesError::refused("stat", &path))?;
        let stat = vfs.stat(inode).map_err(FilesError::refused("stat", &path))?;
        Ok(FileEntry::new(path, &stat))
    }

    /// The whole of a file.
    ///
    /// # Errors
    /// [`FilesError::Path`]; [`FilesError::Refused`] when it is no file or over 1 GiB.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FilesError> {
        self.read_part(path, 0, None)
    }

    /// At most `len_bytes` of a file, from the byte `offset` on: fewer only at its end, none behind it.
    ///
    /// # Errors
    /// As [`read`](Self::read); a longer file is no hindrance as long as `len_bytes` is at most 1 GiB.
    pub fn read_at(&self, path: &str, offset: u64, len_bytes: u64) -> Result<Vec<u8>, FilesError> {
        self.read_part(path, offset, Some(len_bytes))
    }

    fn read_part(&self, path: &str, offset: u64, len_bytes: Option<u64>) -> Result<Vec<u8>, FilesError> {
        let (mut vfs, root) = self.state()?;
        let path = path::below(path)?;
        let refused = || FilesError::refused("read", &path);
        let inode = vfs.lookup(root, path.as_bytes(), Follow::Yes).map_err(refused())?;
        let left = vfs.stat(inode).map_err(refused())?.size_bytes.saturating_sub(offset);
        let len = len_bytes.unwrap_or(u64::MAX).min(left);
        if len > READ_BYTES_MOST {
            return Err(refused()(VfsError::FileTooBig));
        }
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| refused()(VfsError::FileTooBig))?];
        let done = fill(&mut vfs, inode, offset, &mut bytes).map_err(refused())?;
        bytes.truncate(done);
        Ok(bytes)
    }

    /// Copies a file, or a directory with all that is below it, to the host: `from` of the workspace (`""` for all of
    /// it) becomes `host`. A directory `host` is entered if it exists and made if its parent does.
    ///
    /// The host sees all of it or nothing, each file appears under its name at once, and nothing is touched outside
    /// `host`, whatever links there are on either side. Links that would lead out of `host` are left out and counted.
    ///
    /// # Errors
    /// [`FilesError::Exists`]; [`FilesError::Host`] when the host's directory cannot be written to, or the copy would
    /// be more than the workspace's quotas allow, each hard link counted; [`FilesError::HostLink`].
    pub fn copy_out(&self, from: &str, host: impl AsRef<Path>, if_exists: IfExists) -> Result<CopyReport, FilesError> {
        let (mut vfs, root) = self.state()?;
        carry::out_of(&mut vfs, root, from, host.as_ref(), if_exists)
    }

    /// Writes the whole workspace as a tar archive (GNU format), in ascending order of paths: equal workspaces give equal
    /// bytes. Owners are 0, modes 0644 and 0755, times those of the files, in seconds. Further hard links of a file are
    /// written as such.
    ///
    /// # Errors
    /// [`FilesError::Io`] when the writer fails: what it has got is no whole archive.
    pub fn export_tar(&self, writer: impl Write) -> Result<CopyReport, FilesError> {
        let (mut vfs, root) = self.state()?;
        archive::export(&mut vfs, root, writer)
    }

    /// What the files take, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.vfs.bytes_used()
    }

    /// A file system to read from, which remembers what it looked up, and the workspace's directory.
    fn state(&self) -> Result<(Vfs, InodeId), FilesError> {
        let top = self.root.and_then(|root| self.vfs.root_dir(root));
        let top = top.ok_or(VfsError::BadInode).map_err(FilesError::refused("find", "."))?;
        Ok((self.vfs.clone(), top))
    }
}

/// Reads until the buffer is full or the file ends.
pub(super) fn fill(vfs: &mut Vfs, inode: InodeId, offset: u64, into: &mut [u8]) -> Result<usize, VfsError> {
    let mut done = 0_usize;
    // Zero bytes of a directory are still not to be had.
    while let Some(rest) = into.get_mut(done..) {
        let read = vfs.read_at(inode, offset.saturating_add(done as u64), rest)?;
        if read == 0 {
            break;
        }
        done = done.saturating_add(read);
    }
    Ok(done)
}

/// A pattern of paths.
struct Pattern {
    matcher: GlobSet,
    /// The directories at its beginning that are names and nothing else: only below them is looked. A host directory is
    /// listed when first looked at, and may be large.
    prefix: Vec<String>,
    /// How many names below the prefix it can match.
    depth_most: usize,
}

impl Pattern {
    fn parse(pattern: &str) -> Result<Self, FilesError> {
        let wrong = |reason: String| FilesError::Pattern { pattern: pattern.chars().take(100).collect(), reason };
        if pattern.len() > PATTERN_BYTES_MOST {
            return Err(wrong(format!("it is over {PATTERN_BYTES_MOST} bytes long; shorten it")));
        }
        if let Some(reason) = path::fault(pattern) {
            return Err(wrong(format!("it {reason}")));
        }
        let names: Vec<&str> = pattern.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        let cleaned = names.join("/");
        if depth(&cleaned) > PATTERN_DEPTH_MOST {
            return Err(wrong(format!("its alternatives are over {PATTERN_DEPTH_MOST} levels deep; flatten them")));
        }
        let glob = GlobBuilder::new(&cleaned).literal_separator(true).backslash_escape(true).build();
        // A set of one: a matcher of its own would panic where its expression does not compile.
        let matcher = glob.and_then(|glob| GlobSetBuilder::new().add(glob).build()).map_err(|error| {
            wrong(match error.kind() {
                // What is wrong with the expression is said in terms of the expression.
                ErrorKind::Regex(_) => "it is too large; simplify it".to_owned(),
                kind => kind.to_string(),
            })
        })?;
        let dirs = names.split_last().map_or(&[][..], |(_, dirs)| dirs);
        let is_name = |name: &&&str| !name.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let prefix: Vec<String> = dirs.iter().take_while(is_name).map(|name| (*name).to_owned()).collect();
        let depth_most = if pattern.contains("**") { usize::MAX } else { names.len() - prefix.len() };
        Ok(Self { matcher, prefix, depth_most })
    }
}

/// How deeply the alternatives of a pattern stand in one another.
fn depth(pattern: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' => {
                chars.next_if(|c| matches!(c, '!' | '^'));
                // The first one may be a `]`, which then stands for itself.
                chars.next();
                chars.by_ref().find(|c| *c == ']');
            }
            '{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
