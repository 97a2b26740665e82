//! Opens directories by relative path, without following links and without recursion.

use std::io;

use super::error::MountError;
use super::folder::{Folder, is_single_name};

/// The walker keeps a handle open every `STRIDE` levels. Going back up a deep tree then costs at most `STRIDE` lookups,
/// and never more than [`MAX_DEPTH`] / `STRIDE` + 1 descriptors.
const STRIDE: usize = 32;

/// Maximum depth of a directory. With [`STRIDE`] that is about 128 descriptors, far below the usual limit of 1,024.
pub(super) const MAX_DEPTH: usize = 4096;

/// Splits a path relative to the mount into its names. `""` and `"."` are the mount itself.
pub(super) fn split(path: &str) -> Result<Vec<&str>, MountError> {
    if path.is_empty() || path == "." {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = path.split('/').take(MAX_DEPTH + 1).collect();
    if names.len() > MAX_DEPTH {
        return Err(MountError::TooDeep { path: path.to_owned(), limit: MAX_DEPTH });
    }
    if names.iter().all(|name| is_single_name(name)) {
        Ok(names)
    } else {
        Err(MountError::InvalidPath { path: path.to_owned() })
    }
}

/// Splits a path into the names of its parent directory and the last name. Fails for the mount itself, which has no
/// name.
pub(super) fn split_last(path: &str) -> Result<(Vec<&str>, &str), MountError> {
    let mut names = split(path)?;
    match names.pop() {
        Some(last) => Ok((names, last)),
        None => Err(MountError::InvalidPath { path: path.to_owned() }),
    }
}

/// Walks below one directory and remembers its position.
#[derive(Debug)]
pub(super) struct Walker<'a> {
    root: &'a Folder,
    /// Open ancestors of `at`, by depth; the last may be `at` itself.
    open: Vec<(usize, Folder)>,
    at: Vec<String>,
}

impl<'a> Walker<'a> {
    pub(super) fn new(root: &'a Folder) -> Self {
        Self { root, open: Vec::new(), at: Vec::new() }
    }

    /// Opens the directory with these names, one below the other.
    pub(super) fn enter(&mut self, names: &[&str]) -> io::Result<&Folder> {
        let common = self.at.iter().zip(names).take_while(|(have, want)| have == *want).count();
        while self.open.last().is_some_and(|(depth, _)| *depth > common) {
            self.open.pop();
        }
        self.at.truncate(common);
        let mut depth = self.open.last().map_or(0, |(depth, _)| *depth);
        self.at.truncate(depth);
        for name in names.iter().skip(depth) {
            let next = self.open.last().map_or(self.root, |(_, f)| f).child(name)?;
            if !depth.is_multiple_of(STRIDE) {
                self.open.pop();
            }
            depth += 1;
            self.open.push((depth, next));
            self.at.push((*name).to_owned());
        }
        Ok(self.open.last().map_or(self.root, |(_, folder)| folder))
    }

    /// Closes all handles except the root's: directories may have been moved.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.at.clear();
    }
}
