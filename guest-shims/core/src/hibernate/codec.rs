//! Encodes sessions, and decodes them from untrusted bytes.

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use super::{
    Caps, Codec, FrameReader, ImageView, PAGE_BYTES, Page, Pages, ResumeError, SavedSession, SessionKey,
    header::{self, Envelope, HibernatedInfo, SEAL_KIND_AT, Seal, SealKind},
};
use crate::MemoryLimit;

/// Decodes a session that is authentic, belongs to this image, and does not exceed `caps`.
///
/// # Errors
/// Fails if the bytes are not a hibernated session, are damaged or not authentic, belong to another image, or exceed
/// `caps`.
pub fn decode(
    bytes: &[u8],
    image: &ImageView<'_>,
    codec: &dyn Codec,
    caps: &Caps,
    key: Option<&SessionKey>,
    bound_to: &str,
) -> Result<SavedSession, ResumeError> {
    let envelope = open_envelope(bytes, key, bound_to)?;
    let info = &envelope.info;
    if info.image_sha256 != image.identity {
        return Err(ResumeError::Image {
            found: info.image_sha256.clone(),
            found_runtime: info.runtime.clone(),
            expected: image.identity.to_owned(),
            runtime: image.runtime.to_owned(),
        });
    }
    let counted_bytes = MemoryLimit::of_image(caps.memory_bytes, image.memory_bytes).counted(info.memory_bytes);
    if counted_bytes > caps.memory_bytes {
        let (bytes, max) = (counted_bytes, caps.memory_bytes);
        return Err(ResumeError::TooLarge { what: "linear memory", key: "memory_bytes", bytes, max });
    }
    if info.memory_bytes < image.memory_bytes {
        return Err(damaged("its memory is smaller than the image's"));
    }
    if info.wasi_bytes > caps.wasi_bytes {
        let (bytes, max) = (info.wasi_bytes, caps.wasi_bytes);
        return Err(ResumeError::TooLarge { what: "files", key: "workspace_bytes", bytes, max });
    }
    let mut body = Body::new(codec, envelope.body)?;
    let globals = body.globals(image)?;
    let entropy_key = match body.array()? {
        [0] => None,
        [1] => Some(body.array()?),
        _ => return Err(damaged("its entropy has an unknown type")),
    };
    let forks = u64::from_le_bytes(body.array()?);
    let pages = body.pages(info.page_count, info.memory_bytes, image)?;
    let wasi = body.wasi(info.wasi_bytes)?;
    body.end()?;
    Ok(SavedSession {
        executions: info.executions,
        memory_bytes: info.memory_bytes,
        globals,
        entropy_key,
        forks,
        pages,
        wasi,
    })
}

/// Replaces a seal under the name `bound_to` with a seal under `rebound_to`, without decompressing the session.
///
/// # Errors
/// Fails if the bytes are not a hibernated session, or are not sealed with `key` under `bound_to`.
pub fn reseal(
    bytes: &[u8],
    key: Option<&SessionKey>,
    bound_to: &str,
    rebound_to: &str,
) -> Result<Vec<u8>, ResumeError> {
    Ok(sealed(&open_envelope(bytes, key, bound_to)?, key, rebound_to))
}

/// Seals bytes with a key under a name, without decompressing them. The bytes must have been sealed without a key.
pub fn seal(bytes: &[u8], key: &SessionKey, bound_to: &str) -> Result<Vec<u8>, ResumeError> {
    Ok(sealed(&open_envelope(bytes, None, "")?, Some(key), bound_to))
}

/// Replaces a keyed seal with a plain checksum, for receivers without the key. The result is protected against damage
/// only.
///
/// # Errors
/// Fails if the bytes are not a hibernated session, or are not sealed with `key` under `bound_to`.
pub fn unseal(bytes: &[u8], key: &SessionKey, bound_to: &str) -> Result<Vec<u8>, ResumeError> {
    Ok(sealed(&open_envelope(bytes, Some(key), bound_to)?, None, ""))
}

fn sealed(envelope: &Envelope<'_>, key: Option<&SessionKey>, bound_to: &str) -> Vec<u8> {
    let mut bytes = envelope.sealed.to_vec();
    if let Some(kind) = bytes.get_mut(SEAL_KIND_AT) {
        *kind = SealKind::of(key) as u8;
    }
    let mut seal = Seal::new(key, bound_to);
    seal.update(&bytes);
    bytes.extend_from_slice(&seal.finish());
    bytes
}

/// Splits the bytes into their parts and verifies the seal.
fn open_envelope<'a>(bytes: &'a [u8], key: Option<&SessionKey>, bound_to: &str) -> Result<Envelope<'a>, ResumeError> {
    let envelope = Envelope::split(bytes)?;
    match (envelope.seal, key) {
        (SealKind::Sha256, Some(_)) => return Err(ResumeError::Unauthenticated),
        (SealKind::HmacSha256, None) => return Err(ResumeError::KeyMissing),
        _ => {}
    }
    let mut seal = Seal::new(key, bound_to);
    seal.update(envelope.sealed);
    match (seal.verify(envelope.trailer), envelope.seal) {
        (true, _) => Ok(envelope),
        (false, SealKind::Sha256) => Err(damaged("its checksum does not match")),
        (false, SealKind::HmacSha256) => Err(ResumeError::NotAuthentic),
    }
}

fn damaged(reason: &str) -> ResumeError {
    ResumeError::Damaged { reason: reason.to_owned() }
}

/// The body during decompression. Memory is allocated only for decompressed bytes, never for claimed sizes.
struct Body<'a>(Box<dyn FrameReader<'a> + 'a>);

impl<'a> Body<'a> {
    fn new(codec: &dyn Codec, packed: &'a [u8]) -> Result<Self, ResumeError> {
        codec.unpack(packed).map(Self).map_err(|_| damaged("its body cannot be decompressed"))
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<(), ResumeError> {
        self.0.read_exact(into).map_err(|_| damaged("its body cannot be decompressed, or is truncated"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ResumeError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the globals, which must equal the image's values between executions. Other values would let an attacker
    /// choose the stack pointer.
    fn globals(&mut self, image: &ImageView<'_>) -> Result<Vec<(String, u64)>, ResumeError> {
        let wrong = || damaged("its WebAssembly globals differ from the image's");
        let [count] = self.array()?;
        if usize::from(count) != image.globals.len() {
            return Err(wrong());
        }
        for (name, bits) in image.globals {
            let [length] = self.array()?;
            let mut found = [0; u8::MAX as usize];
            let found = found.get_mut(..usize::from(length)).ok_or_else(wrong)?;
            self.fill(found)?;
            if found != name.as_bytes() || u64::from_le_bytes(self.array()?) != *bits {
                return Err(wrong());
            }
        }
        Ok(image.globals.to_vec())
    }

    fn pages(&mut self, count: u32, memory_bytes: u64, image: &ImageView<'_>) -> Result<Pages, ResumeError> {
        let wrong = || damaged("its page numbers are out of order or out of bounds");
        let end = u32::try_from(memory_bytes / PAGE_BYTES as u64).map_err(|_| wrong())?;
        let range_count = u32::from_le_bytes(self.array()?);
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        let (mut next, mut total) = (0_u32, 0_u32);
        for _ in 0..range_count {
            let first = u32::from_le_bytes(self.array()?);
            let length = u32::from_le_bytes(self.array()?);
            // Adjacent ranges must be merged, so that each set of pages has only one encoding.
            let follows = if ranges.is_empty() { first >= next } else { first > next };
            let stop = first.checked_add(length).filter(|stop| follows && length > 0 && *stop <= end);
            next = stop.ok_or_else(wrong)?;
            total = total.checked_add(length).filter(|total| *total <= count).ok_or_else(wrong)?;
            ranges.push((first, length));
        }
        if total != count {
            return Err(wrong());
        }
        let mut pages = Pages::default();
        for number in ranges.into_iter().flat_map(|(first, length)| first..first.saturating_add(length)) {
            let mut page: Page = self.array()?;
            image.difference(number, &mut page);
            if !pages.push(number, Arc::new(page)) {
                return Err(wrong());
            }
        }
        Ok(pages)
    }

    fn wasi(&mut self, length: u64) -> Result<Vec<u8>, ResumeError> {
        let failed = |_| damaged("its body cannot be decompressed");
        let mut wasi = Vec::new();
        self.0.by_ref().take(length).read_to_end(&mut wasi).map_err(failed)?;
        if wasi.len() as u64 == length { Ok(wasi) } else { Err(damaged("its body is truncated")) }
    }

    /// Checks that no bytes follow, inside the body or after it.
    fn end(mut self) -> Result<(), ResumeError> {
        let mut more = [0];
        let unpacked = self.0.read(&mut more).map_err(|_| damaged("its body cannot be decompressed"))?;
        if unpacked == 0 && self.0.rest().is_empty() { Ok(()) } else { Err(damaged("it has trailing bytes")) }
    }
}

/// Encodes a session and writes it to `into`.
///
/// # Errors
/// Fails if compression fails, or writing to `into` fails.
pub fn encode(
    saved: &SavedSession,
    image: &ImageView<'_>,
    codec: &dyn Codec,
    key: Option<&SessionKey>,
    bound_to: &str,
    into: &mut dyn Write,
) -> io::Result<()> {
    let mut sealing = SealingWriter { seal: Seal::new(key, bound_to), into };
    sealing.write_all(&header::head(&HibernatedInfo::new(image, saved), SealKind::of(key)))?;
    let before = before_pages(saved)?;
    let pages = Differences { image, pages: saved.pages.iter(), page: [0; PAGE_BYTES], at: PAGE_BYTES };
    codec.pack(&mut before.as_slice().chain(pages).chain(saved.wasi.as_slice()), &mut sealing)?;
    let SealingWriter { seal, into } = sealing;
    into.write_all(&seal.finish())
}

fn before_pages(saved: &SavedSession) -> io::Result<Vec<u8>> {
    let small = |length: usize| {
        u8::try_from(length).map_err(|_| {
            let reason = "the image has more than 255 mutable globals, or a global's name is longer than 255 bytes";
            io::Error::new(io::ErrorKind::InvalidInput, reason)
        })
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

/// The differences of pages from the image's pages, concatenated.
struct Differences<'a, 'i, I> {
    image: &'a ImageView<'i>,
    pages: I,
    page: Page,
    /// The number of bytes already read from `page`.
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

/// Groups ascending numbers into ranges, each with its first number and its length.
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

/// A writer that forwards bytes and adds them to the seal.
struct SealingWriter<'a> {
    seal: Seal,
    into: &'a mut dyn Write,
}

impl Write for SealingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.into.write_all(bytes)?;
        self.seal.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}
