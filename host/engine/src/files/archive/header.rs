//! Reads the headers of an archive, with limits on their sizes.
//!
//! The `tar` crate would merge extension headers itself, but it reads them whole, however long they claim to be. So
//! this module reads the raw headers.

use std::io::Read;

use tar::{Archive, Entries, Entry, EntryType};

use crate::files::FilesError;

/// Maximum size of an extension header: enough for the longest name and link target, and for other records.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;

/// Maximum number of characters of a name in a message.
const MAX_NAME_CHARS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Symlink,
    HardLink,
}

/// An entry, as described by its header and the extension headers before it. All fields are untrusted.
pub(super) struct Told {
    pub(super) kind: Kind,
    pub(super) path: String,
    pub(super) target: Vec<u8>,
    pub(super) size_bytes: u64,
    pub(super) modified_s: u64,
}

/// Iterates over the entries of an archive.
pub(super) struct Reader<'a, R: Read> {
    entries: Entries<'a, R>,
    headers_left: u64,
}

/// Header fields that an extension overrides.
#[derive(Default)]
struct Extension {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size_bytes: Option<u64>,
}

pub(super) fn refused(entry: &[u8], reason: &'static str) -> FilesError {
    let entry = String::from_utf8_lossy(entry).chars().take(MAX_NAME_CHARS).collect();
    FilesError::Archive { entry, reason }
}

impl<'a, R: Read> Reader<'a, R> {
    /// Starts to read an archive. Fails after `max_headers` headers: an archive can have endless headers without an
    /// entry.
    pub(super) fn new(archive: &'a mut Archive<R>, max_headers: u64) -> Result<Self, FilesError> {
        let entries = archive.entries().map_err(FilesError::io("read the archive"))?;
        Ok(Self { entries: entries.raw(true), headers_left: max_headers })
    }

    /// Returns the next file, directory or link.
    pub(super) fn next(&mut self) -> Result<Option<(Told, Entry<'a, R>)>, FilesError> {
        let mut extension = Extension::default();
        let mut is_extended = false;
        for entry in self.entries.by_ref() {
            let mut entry = entry.map_err(FilesError::io("read the archive"))?;
            let name = entry.path_bytes().into_owned();
            self.headers_left = self
                .headers_left
                .checked_sub(1)
                .ok_or_else(|| refused(&name, "it has more entries than `limits.workspace_inodes` allows"))?;
            let kind = match entry.header().entry_type() {
                EntryType::GNULongName => {
                    extension.path = Some(text(&mut entry, &name)?);
                    is_extended = true;
                    continue;
                }
                EntryType::GNULongLink => {
                    extension.target = Some(text(&mut entry, &name)?);
                    is_extended = true;
                    continue;
                }
                EntryType::XHeader => {
                    extension.read_pax(&mut entry, &name)?;
                    is_extended = true;
                    continue;
                }
                // Global headers contain comments, such as the name of a revision. Writers repeat other fields in each
                // header.
                EntryType::XGlobalHeader => {
                    Extension::default().read_pax(&mut entry, &name)?;
                    continue;
                }
                EntryType::Regular | EntryType::Continuous => Kind::File,
                EntryType::Directory => Kind::Directory,
                EntryType::Symlink => Kind::Symlink,
                EntryType::Link => Kind::HardLink,
                EntryType::GNUSparse => {
                    return Err(refused(&name, "sparse files are unsupported; pack without `--sparse`"));
                }
                EntryType::Char | EntryType::Block | EntryType::Fifo => {
                    return Err(refused(&name, "devices and pipes are unsupported"));
                }
                _ => return Err(refused(&name, "its kind is unknown")),
            };
            let told = extension.tell(kind, name, &entry)?;
            return Ok(Some((told, entry)));
        }
        if is_extended {
            return Err(refused(b"", "it ends with a header that has no entry"));
        }
        Ok(None)
    }
}

/// Reads the data of an extension header.
fn data<R: Read>(entry: &mut Entry<'_, R>, name: &[u8]) -> Result<Vec<u8>, FilesError> {
    if entry.size() > MAX_EXTENSION_BYTES {
        return Err(refused(name, "its extended header is over 64 KiB long"));
    }
    let mut data = Vec::new();
    let size = entry.size();
    entry.read_to_end(&mut data).map_err(FilesError::io("read the archive"))?;
    if (data.len() as u64) < size {
        return Err(refused(name, "the archive is cut off"));
    }
    Ok(data)
}

/// Reads a name that ends at its first zero byte.
fn text<R: Read>(entry: &mut Entry<'_, R>, name: &[u8]) -> Result<Vec<u8>, FilesError> {
    let mut data = data(entry, name)?;
    if let Some(end) = data.iter().position(|byte| *byte == 0) {
        data.truncate(end);
    }
    Ok(data)
}

impl Extension {
    /// Reads the records `<length> <key>=<value>\n` of POSIX.1-2001, `pax` "Extended Header".
    fn read_pax<R: Read>(&mut self, entry: &mut Entry<'_, R>, name: &[u8]) -> Result<(), FilesError> {
        let data = data(entry, name)?;
        let mut rest = &data[..];
        while !rest.is_empty() {
            let (key, value, after) = record(rest).ok_or_else(|| refused(name, "its extended header is malformed"))?;
            rest = after;
            match key {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.target = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|size| size.parse().ok());
                    self.size_bytes = Some(size.ok_or_else(|| refused(name, "its extended header is malformed"))?);
                }
                _ if key.starts_with(b"GNU.sparse.") => {
                    return Err(refused(name, "sparse files are unsupported; pack without `--sparse`"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn tell<R: Read>(self, kind: Kind, name: Vec<u8>, entry: &Entry<'_, R>) -> Result<Told, FilesError> {
        let path = self.path.unwrap_or(name);
        let size_bytes = entry.size();
        if self.size_bytes.is_some_and(|size| size != size_bytes) {
            return Err(refused(&path, "its two headers disagree on its size"));
        }
        if kind != Kind::File && size_bytes != 0 {
            return Err(refused(&path, "only a file may have contents"));
        }
        let header_target = || entry.header().link_name_bytes().map(|name| name.into_owned());
        let target = self.target.or_else(header_target).unwrap_or_default();
        // Writers may mark a directory only with a trailing slash.
        let kind = if kind == Kind::File && size_bytes == 0 && path.ends_with(b"/") { Kind::Directory } else { kind };
        let modified_s = entry.header().mtime().unwrap_or(0);
        match String::from_utf8(path) {
            Ok(path) => Ok(Told { kind, path, target, size_bytes, modified_s }),
            Err(error) => Err(refused(error.as_bytes(), "its name is not UTF-8")),
        }
    }
}

/// Splits off the first record. Returns its key, its value and the remaining data.
fn record(data: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let digits = data.iter().position(|byte| *byte == b' ')?;
    let len: usize = std::str::from_utf8(data.get(..digits)?).ok()?.parse().ok()?;
    let body = data.get(digits + 1..len)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    Some((body.get(..equals)?, body.get(equals + 1..)?, data.get(len..)?))
}
