//! From a session to bytes.

use std::io::{self, Write};

use zstd::stream::write::Encoder;

use super::{
    ImageView, Saved, SessionKey,
    header::{self, HibernatedInfo},
    seal::{Seal, SealKind},
};

/// The compression level: differences are mostly zeros, which every level shrinks alike. Higher ones cost more
/// milliseconds than they save kilobytes.
const LEVEL: i32 = 1;

/// How far back the compressor may refer, as a power of two: 1 MiB. Readers refuse more than they need to hold.
pub(super) const WINDOW_LOG: u32 = 20;

/// Writes a session.
pub(crate) fn encode(
    saved: &Saved,
    image: &ImageView<'_>,
    key: Option<&SessionKey>,
    bound_to: &str,
    into: &mut dyn Write,
) -> io::Result<()> {
    let mut sealing = Sealing { seal: Seal::new(key, bound_to), into };
    sealing.write_all(&header::head(&HibernatedInfo::new(image, saved), SealKind::of(key)))?;
    let mut encoder = Encoder::new(sealing, LEVEL)?;
    encoder.window_log(WINDOW_LOG)?;
    write_body(saved, image, &mut encoder)?;
    let Sealing { seal, into } = encoder.finish()?;
    into.write_all(&seal.finish())
}

fn write_body(saved: &Saved, image: &ImageView<'_>, into: &mut impl Write) -> io::Result<()> {
    let small = |length: usize| {
        u8::try_from(length).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "too many or too long globals"))
    };
    into.write_all(&[small(saved.globals.len())?])?;
    for (name, bits) in &saved.globals {
        into.write_all(&[small(name.len())?])?;
        into.write_all(name.as_bytes())?;
        into.write_all(&bits.to_le_bytes())?;
    }
    into.write_all(&[u8::from(saved.entropy_key.is_some())])?;
    into.write_all(saved.entropy_key.as_ref().map_or(&[], |key| key))?;
    into.write_all(&saved.forks.to_le_bytes())?;
    let ranges = ranges(saved.pages.iter().map(|(number, _)| number));
    into.write_all(&u32::try_from(ranges.len()).unwrap_or(u32::MAX).to_le_bytes())?;
    for (first, count) in ranges {
        into.write_all(&first.to_le_bytes())?;
        into.write_all(&count.to_le_bytes())?;
    }
    for (number, page) in saved.pages.iter() {
        let mut page = **page;
        image.difference(number, &mut page);
        into.write_all(&page)?;
    }
    into.write_all(&saved.wasi)
}

/// Ascending numbers as ranges of first number and count.
fn ranges(numbers: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(number) => *count += 1,
            _ => ranges.push((number, 1)),
        }
    }
    ranges
}

/// Passes bytes on and seals them.
struct Sealing<'a> {
    seal: Seal,
    into: &'a mut dyn Write,
}

impl Write for Sealing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.into.write_all(bytes)?;
        self.seal.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}
