//! The guests' libraries: the files at `/data_js`, and an interpreter's standard library if it is a separate file.

use std::{
    collections::BTreeMap,
    io::Read,
    sync::{Arc, LazyLock},
};

use glovebox_core::{Library, LibraryMount, StandardFiles};
use glovebox_vfs::{MountSource, SourceError};
use ruzstd::decoding::StreamingDecoder;

use crate::{LibraryBytes, LibraryDescription};

/// All files in one compressed frame: each file's path and text, both followed by a zero byte. The frame is a third of
/// the text's size.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/library.zst"));

fn unpack() -> Vec<(String, Vec<u8>)> {
    let mut text = Vec::new();
    // The frame is part of this binary and therefore valid. If memory runs out, the instance ends.
    let is_whole = StreamingDecoder::new(PACKED).is_ok_and(|mut frame| frame.read_to_end(&mut text).is_ok());
    if !is_whole {
        text.clear();
    }
    let mut pieces = text.split(|byte| *byte == 0);
    let mut files = Vec::new();
    while let (Some(path), Some(bytes)) = (pieces.next(), pieces.next()) {
        files.push((String::from_utf8_lossy(path).into_owned(), bytes.to_vec()));
    }
    files
}

static SHARED: LazyLock<Arc<dyn MountSource>> = LazyLock::new(|| Arc::new(Library(LazyLock::new(unpack))));

/// Returns the mount source of `/data_js`, which all guests share.
pub(crate) fn shared() -> Arc<dyn MountSource> {
    Arc::clone(&SHARED)
}

/// The position of a file in the data segment.
struct FileRange {
    offset: u32,
    len: u32,
}

/// The standard library of one guest.
struct WovenLibrary {
    bytes: Arc<dyn LibraryBytes>,
    guest: u32,
    files: BTreeMap<String, FileRange>,
}

/// Returns the mount of a guest's standard library; `None` if the description exceeds the size of a segment.
pub(crate) fn mount(guest: u32, library: LibraryDescription, bytes: &Arc<dyn LibraryBytes>) -> Option<LibraryMount> {
    let LibraryDescription { guest_path, archive_bytes, files_directory, files: lengths } = library;
    let (mut files, mut offset) = (BTreeMap::new(), archive_bytes);
    for (path, len) in lengths {
        let end = offset.checked_add(len)?;
        files.insert(path, FileRange { offset, len });
        offset = end;
    }
    let beside: &[&str] = if files.is_empty() { &[] } else { &[&files_directory] };
    let library = WovenLibrary { bytes: Arc::clone(bytes), guest, files };
    Some(LibraryMount::new(&guest_path, archive_bytes.into(), beside, library))
}

impl WovenLibrary {
    /// Reads from the data segment. `LibraryMount` never reads beyond a file's end, so the range is within the segment.
    fn read(&self, start: u32, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        let at = u32::try_from(offset).ok().and_then(|offset| start.checked_add(offset));
        let at = at.ok_or_else(|| SourceError::new("the offset exceeds the library's length"))?;
        self.bytes.read(self.guest, at, into);
        Ok(into.len())
    }
}

impl StandardFiles for WovenLibrary {
    type File = FileRange;

    fn read_archive(&self, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        self.read(0, offset, into)
    }

    fn beside(&self, _directory: &str) -> Result<&BTreeMap<String, FileRange>, SourceError> {
        Ok(&self.files)
    }

    fn len_of(&self, file: &FileRange) -> u64 {
        file.len.into()
    }

    fn read_beside(&self, file: &FileRange, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        self.read(file.offset, offset, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_returns_the_packed_bytes() {
        assert_eq!(unpack(), glovebox_interpreters::library());
    }

    /// The segment of guest 3, the only guest with a library.
    struct Segment(&'static [u8]);

    impl LibraryBytes for Segment {
        fn read(&self, guest: u32, offset: u32, into: &mut [u8]) {
            assert_eq!(guest, 3);
            let offset = usize::try_from(offset).unwrap();
            into.copy_from_slice(&self.0[offset..offset + into.len()]);
        }
    }

    fn described(files: &[(&str, u32)]) -> LibraryDescription {
        LibraryDescription {
            guest_path: "/lib/python.zip".to_owned(),
            archive_bytes: 7,
            files_directory: if files.is_empty() { "" } else { "data" }.to_owned(),
            files: files.iter().map(|(path, len)| ((*path).to_owned(), *len)).collect(),
        }
    }

    fn read(source: &dyn MountSource, path: &str, offset: u64) -> Vec<u8> {
        let mut into = [0; 4];
        let count = source.read(path, offset, &mut into).unwrap();
        into[..count].to_vec()
    }

    #[test]
    fn segment_contains_the_archive_and_its_files() {
        let bytes: Arc<dyn LibraryBytes> = Arc::new(Segment(b"libraryone-twothree"));
        let library = described(&[("data/a", 3), ("data/b", 4), ("data/c/d", 5)]);
        let LibraryMount { directory, source } = mount(3, library, &bytes).unwrap();
        assert_eq!(directory, "/lib");
        assert_eq!(read(&*source, "python.zip", 0), b"libr");
        assert_eq!(read(&*source, "python.zip", 5), b"ry");
        assert_eq!(read(&*source, "python.zip", 7), b"");
        assert_eq!(read(&*source, "data/a", 1), b"ne");
        assert_eq!(read(&*source, "data/b", 0), b"-two");
        assert_eq!(read(&*source, "data/c/d", 4), b"e");
        assert_eq!(read(&*source, "data/c/d", u64::MAX), b"");
    }

    #[test]
    fn oversized_segment_is_rejected() {
        let bytes: Arc<dyn LibraryBytes> = Arc::new(Segment(b""));
        assert!(mount(3, described(&[("data/a", u32::MAX - 7)]), &bytes).is_some());
        assert!(mount(3, described(&[("data/a", u32::MAX - 6)]), &bytes).is_none());
    }
}
