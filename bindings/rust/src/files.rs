//! A workspace's files.

use std::io::BufRead;

use crate::{Error, FileEntry, bindings::glovebox::sandbox::sandbox as raw, reader::Pieces};

/// A snapshot of a workspace's files: later changes do not affect it.
///
/// Paths are relative to `/app`, and neither `..` nor a link can lead out. Errors are [`Error::File`], with the kind
/// and the path.
#[derive(Debug)]
pub struct Files {
    pub(crate) raw: raw::Files,
}

impl Files {
    /// Lists the files, directories and links whose path matches the pattern, sorted, at most 10,000: `*`, `?` and
    /// `[…]` match within a name, `**` matches any number of directories.
    ///
    /// # Errors
    /// [`Error::File`] for an invalid pattern, or if more than 10,000 paths match.
    pub fn list(&self, pattern: &str) -> Result<Vec<FileEntry>, Error> {
        Ok(self.raw.list(pattern)?)
    }

    /// Describes the entry at a path. A link at the end of the path is not followed.
    ///
    /// # Errors
    /// [`Error::File`] if there is no such entry.
    pub fn stat(&self, path: &str) -> Result<FileEntry, Error> {
        Ok(self.raw.stat(path)?)
    }

    /// Reads a whole file. Scripts choose its size: check it first with [`stat`](Self::stat).
    ///
    /// # Errors
    /// [`Error::File`] if the file does not exist.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        Pieces::new(|offset, len| self.read_at(path, offset, len)).into_vec()
    }

    /// Reads bytes of a file from `offset` on, at most `len` and at most 16,777,216; empty at its end.
    ///
    /// # Errors
    /// [`Error::File`] if the file does not exist.
    pub fn read_at(&self, path: &str, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        Ok(self.raw.read(path, offset, len)?)
    }

    /// Returns a reader that reads a file in pieces.
    ///
    /// # Errors
    /// [`Error::File`] if the file does not exist.
    pub fn open(&self, path: impl Into<String>) -> Result<impl BufRead + '_, Error> {
        let path = path.into();
        self.read_at(&path, 0, 0)?;
        Ok(Pieces::new(move |offset, len| self.read_at(&path, offset, len)))
    }
}
