//! Tar archives of workspaces.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
};

use glovebox_core::files::{FileError, WalkedEntry, fill, inside_path, walk};
use glovebox_vfs::{FileKind, InodeId, Stat, Vfs};
use tar::{Archive, Builder, Entries, Entry, EntryType, Header};

use crate::files::{CopyReport, FilesError, IfExists, copy::TreeWriter};

const NS_PER_S: u64 = 1_000_000_000;

/// A sequential reader of a workspace file.
struct Contents<'v> {
    vfs: &'v mut Vfs,
    inode: InodeId,
    at: u64,
}

impl Read for Contents<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = fill(self.vfs, self.inode, self.at, into).map_err(io::Error::other)?;
        self.at = self.at.saturating_add(read as u64);
        Ok(read)
    }
}

pub(in crate::files) fn export(vfs: &mut Vfs, top: InodeId, writer: impl Write) -> Result<CopyReport, FilesError> {
    let found = walk(vfs, top, usize::MAX);
    let found = found.map_err(|(path, error)| FilesError::refused("list", &path)(error))?;
    let mut archive = Builder::new(writer);
    let mut report = CopyReport::default();
    // The first name of each file that has several hard links.
    let mut first_names: BTreeMap<InodeId, String> = BTreeMap::new();
    for WalkedEntry { path, inode, kind } in found {
        let stat = vfs.stat(inode).map_err(FilesError::refused("read", &path))?;
        let failed = FilesError::io("write the archive");
        match kind {
            FileKind::Directory => {
                let mut header = header(EntryType::Directory, 0o755, 0, &stat);
                archive.append_data(&mut header, format!("{path}/"), io::empty()).map_err(failed)?;
                report.directory_count += 1;
            }
            FileKind::Symlink => {
                let target = vfs.read_link(top, path.as_bytes()).map_err(FilesError::refused("read", &path))?;
                append_link(&mut archive, EntryType::Symlink, &path, &target, &stat).map_err(failed)?;
                report.link_count += 1;
            }
            FileKind::File => {
                if let Some(first) = first_names.get(&inode) {
                    append_link(&mut archive, EntryType::Link, &path, first, &stat).map_err(failed)?;
                } else {
                    let mut header = header(EntryType::Regular, 0o644, stat.size_bytes, &stat);
                    let contents = Contents { vfs, inode, at: 0 };
                    archive.append_data(&mut header, &path, contents).map_err(failed)?;
                    report.bytes = report.bytes.saturating_add(stat.size_bytes);
                    if stat.links > 1 {
                        first_names.insert(inode, path);
                    }
                }
                report.file_count += 1;
            }
        }
    }
    archive.into_inner().and_then(|mut writer| writer.flush()).map_err(FilesError::io("write the archive"))?;
    Ok(report)
}

/// Creates a header without information about the machine or its users.
fn header(kind: EntryType, mode: u32, size_bytes: u64, stat: &Stat) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size_bytes);
    header.set_mtime(stat.modified_ns / NS_PER_S);
    header
}

fn append_link(
    archive: &mut Builder<impl Write>,
    kind: EntryType,
    path: &str,
    target: &str,
    stat: &Stat,
) -> io::Result<()> {
    let mut header = header(kind, 0o777, 0, stat);
    // Write the target unchanged: `Builder::append_link` would change `a//b` to `a/b`.
    if header.set_link_name_literal(target).is_err() {
        let mut long = Header::new_gnu();
        long.set_entry_type(EntryType::GNULongLink);
        long.set_path("././@LongLink")?;
        long.set_size(target.len() as u64 + 1);
        long.set_cksum();
        archive.append(&long, target.as_bytes().chain(&[0][..]))?;
    }
    archive.append_data(&mut header, path, io::empty())
}

/// Maximum size of an extension header in bytes. Enough for the longest name and link target, and for other records.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;

/// Maximum length of a name in an error message.
const MAX_NAME_CHARS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArchivedKind {
    File,
    Directory,
    Symlink,
    HardLink,
}

/// An entry as described by its header and by the preceding extension headers. All fields are untrusted.
struct ArchivedEntry {
    kind: ArchivedKind,
    path: String,
    target: Vec<u8>,
    size_bytes: u64,
    modified_s: u64,
}

/// An iterator over the entries of an archive.
struct Reader<'a, R: Read> {
    entries: Entries<'a, R>,
    headers_left: u64,
}

/// Header fields that extension headers override.
#[derive(Default)]
struct Extension {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size_bytes: Option<u64>,
}

fn refused(entry: &[u8], reason: &'static str) -> FilesError {
    let entry = String::from_utf8_lossy(entry).chars().take(MAX_NAME_CHARS).collect();
    FilesError::Archive { entry, reason }
}

impl<'a, R: Read> Reader<'a, R> {
    /// Creates a reader that fails after `max_headers` headers. An archive can contain an endless sequence of headers
    /// without entries.
    fn new(archive: &'a mut Archive<R>, max_headers: u64) -> Result<Self, FilesError> {
        let entries = archive.entries().map_err(FilesError::io("read the archive"))?;
        Ok(Self { entries: entries.raw(true), headers_left: max_headers })
    }

    /// Returns the next file, directory or link.
    fn next(&mut self) -> Result<Option<(ArchivedEntry, Entry<'a, R>)>, FilesError> {
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
                // Global headers contain comments, such as the name of a revision. Writers repeat all other fields in
                // each entry's own header.
                EntryType::XGlobalHeader => {
                    Extension::default().read_pax(&mut entry, &name)?;
                    continue;
                }
                EntryType::Regular | EntryType::Continuous => ArchivedKind::File,
                EntryType::Directory => ArchivedKind::Directory,
                EntryType::Symlink => ArchivedKind::Symlink,
                EntryType::Link => ArchivedKind::HardLink,
                EntryType::GNUSparse => {
                    return Err(refused(&name, "sparse files are unsupported; pack without `--sparse`"));
                }
                EntryType::Char | EntryType::Block | EntryType::Fifo => {
                    return Err(refused(&name, "devices and pipes are unsupported"));
                }
                _ => return Err(refused(&name, "its type is unknown")),
            };
            let archived = extension.into_entry(kind, name, &entry)?;
            return Ok(Some((archived, entry)));
        }
        if is_extended {
            return Err(refused(b"", "the last header has no entry"));
        }
        Ok(None)
    }
}

/// Reads an extension header's data.
fn data<R: Read>(entry: &mut Entry<'_, R>, name: &[u8]) -> Result<Vec<u8>, FilesError> {
    if entry.size() > MAX_EXTENSION_BYTES {
        return Err(refused(name, "its extended header is larger than 64 KiB"));
    }
    let mut data = Vec::new();
    let size = entry.size();
    entry.read_to_end(&mut data).map_err(FilesError::io("read the archive"))?;
    if (data.len() as u64) < size {
        return Err(refused(name, "the archive is truncated"));
    }
    Ok(data)
}

/// Reads a name, which ends at its first zero byte.
fn text<R: Read>(entry: &mut Entry<'_, R>, name: &[u8]) -> Result<Vec<u8>, FilesError> {
    let mut data = data(entry, name)?;
    if let Some(end) = data.iter().position(|byte| *byte == 0) {
        data.truncate(end);
    }
    Ok(data)
}

impl Extension {
    /// Reads records of the form `<length> <key>=<value>\n`. See POSIX.1-2001, `pax`, "Extended Header".
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

    fn into_entry<R: Read>(
        self,
        kind: ArchivedKind,
        name: Vec<u8>,
        entry: &Entry<'_, R>,
    ) -> Result<ArchivedEntry, FilesError> {
        let path = self.path.unwrap_or(name);
        let size_bytes = entry.size();
        if self.size_bytes.is_some_and(|size| size != size_bytes) {
            return Err(refused(&path, "its headers specify different sizes"));
        }
        if kind != ArchivedKind::File && size_bytes != 0 {
            return Err(refused(&path, "only files can have contents"));
        }
        let header_target = || entry.header().link_name_bytes().map(|name| name.into_owned());
        let target = self.target.or_else(header_target).unwrap_or_default();
        // A trailing slash may be the only mark of a directory.
        let kind = if kind == ArchivedKind::File && size_bytes == 0 && path.ends_with(b"/") {
            ArchivedKind::Directory
        } else {
            kind
        };
        let modified_s = entry.header().mtime().unwrap_or(0);
        let path = String::from_utf8(path).map_err(|error| refused(error.as_bytes(), "its name is not UTF-8"))?;
        Ok(ArchivedEntry { kind, path, target, size_bytes, modified_s })
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

/// Maximum number of headers per inode. Each entry can have four headers: its own, a long name, a long target and an
/// extension header. An archive can also contain a directory twice.
const HEADERS_PER_INODE: u64 = 5;

/// Headers allowed in addition to [`HEADERS_PER_INODE`], for workspaces with very few inodes.
const MIN_HEADERS: u64 = 64;

pub(in crate::files) fn import(
    vfs: &mut Vfs,
    top: InodeId,
    reader: impl Read,
    if_exists: IfExists,
) -> Result<CopyReport, FilesError> {
    let max_headers = vfs.limits().inodes.saturating_mul(HEADERS_PER_INODE).saturating_add(MIN_HEADERS);
    let mut archive = Archive::new(reader);
    let mut entries = Reader::new(&mut archive, max_headers)?;
    let mut placer = TreeWriter::new(vfs, top, if_exists, "import");
    // Set the times of directories last, because adding entries changes them.
    let mut directories = Vec::new();
    while let Some((archived, mut contents)) = entries.next()? {
        let path = name(&archived)?;
        let modified_ns = archived.modified_s.saturating_mul(NS_PER_S);
        match archived.kind {
            ArchivedKind::Directory if path.is_empty() => {}
            _ if path.is_empty() => return Err(refused(archived.path.as_bytes(), "it has no name")),
            ArchivedKind::Directory => {
                placer.directory(&path)?;
                directories.push((path, modified_ns));
            }
            ArchivedKind::File => placer.file(&path, archived.size_bytes, Some(modified_ns), &mut contents)?,
            ArchivedKind::Symlink => {
                if placer.link(&path, &archived.target)? {
                    placer.set_modified(&path, modified_ns)?;
                }
            }
            ArchivedKind::HardLink => {
                let first = std::str::from_utf8(&archived.target).ok().and_then(|target| inside_path(target).ok());
                let first = first
                    .ok_or_else(|| refused(archived.path.as_bytes(), "its hard link points outside the archive"))?;
                placer.hard_link(&path, &first)?;
            }
        }
    }
    for (path, modified_ns) in directories {
        placer.set_modified(&path, modified_ns)?;
    }
    Ok(placer.report)
}

fn name(archived: &ArchivedEntry) -> Result<String, FilesError> {
    inside_path(&archived.path).map_err(|error| match error {
        FileError::Path { reason, .. } => refused(archived.path.as_bytes(), reason),
        other => other.into(),
    })
}
