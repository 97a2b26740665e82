//! Looking at the files of a workspace, and taking them out of it.

use std::{io::Write, path::Path};

use super::{CopyReport, FileEntry, FilePage, Files, FilesError, IfExists, ListLimits, archive, carry};

impl Files {
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
        Ok(self.0.list(pattern)?)
    }

    /// Returns the first of the entries that [`list`](Self::list) returns, from the first path greater than `after` on.
    /// Memory is bounded by the limits, however many entries there are.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn list_page(&self, pattern: &str, after: Option<&str>, limits: ListLimits) -> Result<FilePage, FilesError> {
        Ok(self.0.list_page(pattern, after, limits)?)
    }

    /// Returns the first entries below the directory `dir`, at most `max_depth` names deep, in ascending order of paths.
    ///
    /// # Errors
    /// [`FilesError::Path`]; [`FilesError::Refused`] if `dir` does not exist or a host directory cannot be listed.
    pub fn list_below(&self, dir: &str, max_depth: usize, limits: ListLimits) -> Result<FilePage, FilesError> {
        Ok(self.0.list_below(dir, max_depth, limits)?)
    }

    /// What is known of a path. A link at its end is described itself; those before it are followed.
    ///
    /// # Errors
    /// [`FilesError::Path`]; [`FilesError::Refused`] when nothing is there.
    pub fn stat(&self, path: &str) -> Result<FileEntry, FilesError> {
        Ok(self.0.stat(path)?)
    }

    /// The whole of a file.
    ///
    /// # Errors
    /// [`FilesError::Path`]; [`FilesError::Refused`] when it is no file or over 1 GiB.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FilesError> {
        Ok(self.0.read(path, 0, None)?)
    }

    /// At most `len_bytes` of a file, from the byte `offset` on: fewer only at its end, none behind it.
    ///
    /// # Errors
    /// As [`read`](Self::read); a longer file is no hindrance as long as `len_bytes` is at most 1 GiB.
    pub fn read_at(&self, path: &str, offset: u64, len_bytes: u64) -> Result<Vec<u8>, FilesError> {
        Ok(self.0.read(path, offset, Some(len_bytes))?)
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
        let (mut vfs, root) = self.0.state()?;
        carry::out_of(&mut vfs, root, from, host.as_ref(), if_exists)
    }

    /// Writes the whole workspace as a tar archive (GNU format), in ascending order of paths: equal workspaces give equal
    /// bytes. Owners are 0, modes 0644 and 0755, times those of the files, in seconds. Further hard links of a file are
    /// written as such.
    ///
    /// # Errors
    /// [`FilesError::Io`] when the writer fails: what it has got is no whole archive.
    pub fn export_tar(&self, writer: impl Write) -> Result<CopyReport, FilesError> {
        let (mut vfs, root) = self.0.state()?;
        archive::export(&mut vfs, root, writer)
    }
}
