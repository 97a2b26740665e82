//! Resolves a guest's path to an inode. Resolution never leaves the directory that it starts from.

use std::borrow::Cow;

use crate::{
    inode::{Body, FileKind, InodeId, Name},
    limits::VfsError,
    vfs::Vfs,
};

/// The treatment of a symlink at the end of a path. A symlink before a slash is always followed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Follow {
    /// The path refers to the symlink's target.
    #[default]
    Yes,
    /// The path refers to the symlink.
    No,
}

/// The interpretation of the end of a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PathEnd {
    /// The target, after following symlinks.
    Target,
    /// Like `Target`, but a symlink at the end is followed only if a slash follows it.
    Node,
    /// The name, without following a symlink: for creating, removing and renaming.
    Name,
}

impl From<Follow> for PathEnd {
    fn from(follow: Follow) -> Self {
        match follow {
            Follow::Yes => Self::Target,
            Follow::No => Self::Node,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ResolvedPath {
    /// The directory that contains the name, or the target directory if there is no name.
    pub(crate) dir: InodeId,
    /// The last component. `None` if the path ends with `.` or `..`.
    pub(crate) name: Option<Name>,
    pub(crate) found: Option<InodeId>,
    /// `true` if the path ended with a slash, so that only a directory matches.
    pub(crate) slash: bool,
    /// `true` if the path ended with `..`.
    pub(crate) dot_dot: bool,
}

/// A path that is being walked. When the path ends, the walk continues with the frame below it on the stack.
struct Frame<'a> {
    text: Cow<'a, str>,
    at: usize,
}

impl Frame<'_> {
    /// Returns the next component, and `true` if a slash follows it.
    fn next(&mut self) -> Option<(String, bool)> {
        self.skip_slashes();
        let rest = self.text.get(self.at..).unwrap_or("");
        let len = rest.find('/').unwrap_or(rest.len());
        if len == 0 {
            return None;
        }
        let component = rest.get(..len)?.to_owned();
        self.at = self.at.saturating_add(len);
        let slash = self.skip_slashes();
        Some((component, slash))
    }

    fn skip_slashes(&mut self) -> bool {
        let rest = self.text.get(self.at..).unwrap_or("");
        let slashes = rest.len().saturating_sub(rest.trim_start_matches('/').len());
        self.at = self.at.saturating_add(slashes);
        slashes > 0
    }

    fn is_done(&self) -> bool {
        self.at >= self.text.len()
    }
}

impl Vfs {
    /// Returns the target of a path beneath a directory.
    ///
    /// # Errors
    /// Returns [`VfsError::NotFound`]; [`VfsError::NotCapable`] for an absolute path, or if `..` or a symlink leads
    /// above `at`; [`VfsError::NotADirectory`]; [`VfsError::TooManySymlinks`]; [`VfsError::NameTooLong`];
    /// [`VfsError::Invalid`] for a NUL; [`VfsError::IllegalBytes`]; or [`VfsError::Io`] or [`VfsError::MountTooLarge`]
    /// in a mounted directory.
    pub fn lookup(&mut self, at: InodeId, path: &[u8], follow: Follow) -> Result<InodeId, VfsError> {
        let place = self.resolve(at, path, follow.into())?;
        let found = place.found.ok_or(VfsError::NotFound)?;
        if place.slash && self.inode(found)?.kind() != FileKind::Directory {
            return Err(VfsError::NotADirectory);
        }
        Ok(found)
    }

    /// Performs all checks of a path that require no access to files.
    pub(crate) fn check_path<'a>(&self, path: &'a [u8]) -> Result<&'a str, VfsError> {
        if path.len() > self.limits.path_bytes {
            return Err(VfsError::NameTooLong);
        }
        if path.contains(&0) {
            return Err(VfsError::Invalid);
        }
        std::str::from_utf8(path).map_err(|_| VfsError::IllegalBytes)
    }

    pub(crate) fn resolve(&mut self, at: InodeId, path: &[u8], end: PathEnd) -> Result<ResolvedPath, VfsError> {
        let path = self.check_path(path)?;
        if path.is_empty() {
            return Err(VfsError::NotFound);
        }
        if path.starts_with('/') {
            return Err(VfsError::NotCapable);
        }
        if self.inode(at)?.kind() != FileKind::Directory {
            return Err(VfsError::NotADirectory);
        }
        // The directories on the way to the current one, starting with `at`. `..` returns to the previous one, which is
        // correct after following symlinks and cannot go above the start.
        let mut dirs = vec![at];
        let mut frames = vec![Frame { text: Cow::Borrowed(path), at: 0 }];
        let mut hops = 0_usize;
        let mut slash = false;
        let mut dot_dot = false;
        while let Some(frame) = frames.last_mut() {
            let Some((component, slash_after)) = frame.next() else {
                frames.pop();
                continue;
            };
            // Remove finished paths immediately, so that `frames` is empty at the last component and a chain of
            // symlinks does not accumulate frames.
            while frames.last().is_some_and(Frame::is_done) {
                frames.pop();
            }
            let last = frames.is_empty();
            slash |= last && slash_after;
            self.count_work(1);
            let dir = dirs.last().copied().unwrap_or(at);
            dot_dot = component == "..";
            if component == "." {
                continue;
            }
            if dot_dot {
                dirs.pop();
                if dirs.is_empty() {
                    return Err(VfsError::NotCapable);
                }
                continue;
            }
            if component.len() > self.limits.name_bytes {
                return Err(VfsError::NameTooLong);
            }
            let found = self.child(dir, &component)?;
            if let Some(found) = found {
                if let Body::Symlink(target) = &self.inode(found)?.body {
                    let follow = match end {
                        PathEnd::Target => true,
                        PathEnd::Node => !last || slash,
                        PathEnd::Name => !last,
                    };
                    if follow {
                        let target = target.clone();
                        hops = hops.saturating_add(1);
                        if hops > self.limits.symlink_hops {
                            return Err(VfsError::TooManySymlinks);
                        }
                        let target = self.check_path(target.as_bytes())?;
                        if target.is_empty() {
                            return Err(VfsError::NotFound);
                        }
                        if target.starts_with('/') {
                            return Err(VfsError::NotCapable);
                        }
                        frames.push(Frame { text: Cow::Owned(target.to_owned()), at: 0 });
                        continue;
                    }
                } else if self.inode(found)?.kind() == FileKind::Directory && !last {
                    dirs.push(found);
                    continue;
                }
            }
            if !last {
                return Err(match found {
                    Some(_) => VfsError::NotADirectory,
                    None => VfsError::NotFound,
                });
            }
            return Ok(ResolvedPath { dir, name: Some(Name::from(component)), found, slash, dot_dot: false });
        }
        let dir = dirs.last().copied().unwrap_or(at);
        Ok(ResolvedPath { dir, name: None, found: Some(dir), slash, dot_dot })
    }
}
