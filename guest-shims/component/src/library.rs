//! The files at `/data_js`, packed by the build.

use std::{
    io::Read,
    sync::{Arc, LazyLock},
};

use glovebox_core::{Library, LibraryFiles};
use glovebox_vfs::{MountSource, SourceError};
use ruzstd::decoding::StreamingDecoder;

/// All files in one frame, each as its path, a zero, its text, and a zero. The frame has a third of the text's size.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/library.zst"));

/// The files, unpacked on the first access by a guest.
struct Packed(LazyLock<Vec<(String, Vec<u8>)>>);

impl LibraryFiles for Packed {
    fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError> {
        Ok(&self.0)
    }
}

fn unpack() -> Vec<(String, Vec<u8>)> {
    let mut text = Vec::new();
    // The frame is part of this binary, so it is valid. Running out of memory ends the instance.
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

static SHARED: LazyLock<Arc<dyn MountSource>> = LazyLock::new(|| Arc::new(Library(Packed(LazyLock::new(unpack)))));

/// Returns the library, which all guests share.
pub(crate) fn shared() -> Arc<dyn MountSource> {
    Arc::clone(&SHARED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_out_again() {
        assert_eq!(unpack(), glovebox_interpreters::library());
    }
}
