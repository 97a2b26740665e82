//! Encoding a session.

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use super::{
    Codec, ImageView, PAGE_BYTES, Page, Saved, SessionKey,
    header::{self, HibernatedInfo, Seal, SealKind},
};

/// Encodes a session.
pub fn encode(
    saved: &Saved,
    image: &ImageView<'_>,
    codec: &dyn Codec,
    key: Option<&SessionKey>,
    bound_to: &str,
    into: &mut dyn Write,
) -> io::Result<()> {
    let mut sealing = Sealing { seal: Seal::new(key, bound_to), into };
    sealing.write_all(&header::head(&HibernatedInfo::new(image, saved), SealKind::of(key)))?;
    let before = before_pages(saved)?;
    let pages = Differences { image, pages: saved.pages.iter(), page: [0; PAGE_BYTES], at: PAGE_BYTES };
    codec.pack(&mut before.as_slice().chain(pages).chain(saved.wasi.as_slice()), &mut sealing)?;
    let Sealing { seal, into } = sealing;
    into.write_all(&seal.finish())
}

fn before_pages(saved: &Saved) -> io::Result<Vec<u8>> {
    let small = |length: usize| {
        u8::try_from(length).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "too many or too long globals"))
    };
    let mut into = vec![small(saved.globals.len())?];
    for (name, bits) in &saved.globals {
        into.push(small(name.len())?);
        into.extend_from_slice(name.as_bytes());
        into.extend_from_slice(&bits.to_le_bytes());
    }
    into.push(u8::from(saved.entropy_key.is_some()));
    into.extend_from_slice(saved.entropy_key.as_ref().map_or(&[], |key| key));
    into.extend_from_slice(&saved.forks.to_le_bytes());
    let ranges = ranges(saved.pages.iter().map(|(number, _)| number));
    into.extend_from_slice(&u32::try_from(ranges.len()).unwrap_or(u32::MAX).to_le_bytes());
    for (first, count) in ranges {
        into.extend_from_slice(&first.to_le_bytes());
        into.extend_from_slice(&count.to_le_bytes());
    }
    Ok(into)
}

/// The differences of the pages from the image's pages, one after the other.
struct Differences<'a, 'i, I> {
    image: &'a ImageView<'i>,
    pages: I,
    page: Page,
    /// The number of bytes already read from the current page.
    at: usize,
}

impl<'a, I: Iterator<Item = (u32, &'a Arc<Page>)>> Read for Differences<'_, '_, I> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at >= PAGE_BYTES {
            let Some((number, page)) = self.pages.next() else { return Ok(0) };
            self.page = **page;
            self.image.difference(number, &mut self.page);
            self.at = 0;
        }
        let read = self.page.get(self.at..).unwrap_or_default().read(into)?;
        self.at += read;
        Ok(read)
    }
}

/// Returns ascending numbers as ranges, each with its first number and its length.
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

/// Forwards bytes and updates the seal.
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
