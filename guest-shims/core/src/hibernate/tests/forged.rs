//! Forged sessions with a valid seal.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use super::{
    super::header::{HibernatedInfo, head},
    *,
};
use crate::hibernate::header::{Seal, SealKind};

/// A forged session with an arbitrary header and body.
struct ForgedSession {
    info: HibernatedInfo,
    body: Vec<u8>,
}

impl ForgedSession {
    /// Starts with the body of a real session, up to the page ranges.
    fn new(sample: &Sample) -> Self {
        let saved = SavedSession { wasi: Vec::new(), ..sample.saved(&[]) };
        let mut body = vec![2];
        for (name, bits) in &sample.globals {
            body.push(u8::try_from(name.len()).unwrap());
            body.extend_from_slice(name.as_bytes());
            body.extend_from_slice(&bits.to_le_bytes());
        }
        // The session has no entropy key and no forks.
        body.extend_from_slice(&[0; 9]);
        Self { info: sample.with_view(|view| HibernatedInfo::new(view, &saved)), body }
    }

    fn ranges(mut self, ranges: &[(u32, u32)]) -> Self {
        self.body.extend_from_slice(&u32::try_from(ranges.len()).unwrap().to_le_bytes());
        for (first, count) in ranges {
            self.body.extend_from_slice(&first.to_le_bytes());
            self.body.extend_from_slice(&count.to_le_bytes());
        }
        self
    }

    fn pages(mut self, claimed: u32, there: usize) -> Self {
        self.info.page_count = claimed;
        self.body.extend_from_slice(&vec![1; there * PAGE_BYTES]);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        seal(&self.info, &zstd::encode_all(&*self.body, 1).unwrap())
    }
}

fn seal(info: &HibernatedInfo, body: &[u8]) -> Vec<u8> {
    let mut bytes = head(info, SealKind::Sha256);
    bytes.extend_from_slice(body);
    let mut seal = Seal::new(None, "");
    seal.update(&bytes);
    bytes.extend_from_slice(&seal.finish());
    bytes
}

fn refused(sample: &Sample, forged: &ForgedSession, reason: &str) {
    let error = sample.decode(&forged.bytes()).unwrap_err();
    assert!(error.to_string().contains(reason), "{reason}: {error}");
}

#[test]
fn unmodified_forgery_is_accepted() {
    let sample = Sample::new();
    let saved = sample.decode(&ForgedSession::new(&sample).ranges(&[(0, 2), (47, 1)]).pages(3, 3).bytes()).unwrap();
    assert_eq!(saved.pages.iter().map(|(number, _)| number).collect::<Vec<_>>(), [0, 1, 47]);
}

#[test]
fn page_numbers_must_ascend_within_memory() {
    let sample = Sample::new();
    let wrong: [(&[(u32, u32)], u32); 12] = [
        (&[(1, 1), (0, 1)], 2),
        (&[(0, 1), (0, 1)], 2),
        (&[(0, 2), (1, 1)], 3),
        (&[(0, 1), (1, 1)], 2),
        (&[(0, 0)], 0),
        (&[(48, 1)], 1),
        (&[(47, 2)], 2),
        (&[(u32::MAX, 1)], 1),
        (&[(1, u32::MAX)], 1),
        (&[(0, 2)], 1),
        (&[(0, 1)], 2),
        (&[], 1),
    ];
    for (ranges, claimed) in wrong {
        let forged = ForgedSession::new(&sample).ranges(ranges).pages(claimed, claimed as usize);
        refused(&sample, &forged, "page numbers");
    }
    let mut many = ForgedSession::new(&sample);
    many.body.extend_from_slice(&u32::MAX.to_le_bytes());
    refused(&sample, &many, "is truncated");
}

#[test]
fn globals_must_match_the_image() {
    let sample = Sample::new();
    let real = ForgedSession::new(&sample);
    // Damage each byte of the globals: the count, and each global's name length, name and value.
    for at in 0..real.body.len() - 9 {
        let mut forged = ForgedSession::new(&sample);
        forged.body[at] ^= 1;
        let forged = forged.ranges(&[]);
        let error = sample.decode(&forged.bytes()).unwrap_err();
        assert!(error.to_string().contains("globals") || error.to_string().contains("decompressed"), "{at}: {error}");
    }
    let mut stack = ForgedSession::new(&sample);
    let end = stack.body.len() - 9;
    stack.body[end - 8..end].copy_from_slice(&0x1000_u64.to_le_bytes());
    refused(&sample, &stack.ranges(&[]), "globals");
}

#[test]
fn entropy_key_must_match_its_mode() {
    let sample = Sample::new();
    for (flag, fits) in [(0, true), (1, false), (2, false), (255, false)] {
        let mut forged = ForgedSession::new(&sample);
        let at = forged.body.len() - 9;
        forged.body[at] = flag;
        assert_eq!(sample.decode(&forged.ranges(&[]).bytes()).is_ok(), fits, "{flag}");
    }
}

#[test]
fn claimed_sizes_are_checked_against_the_bytes() {
    let sample = Sample::new();
    refused(&sample, &ForgedSession::new(&sample).ranges(&[(0, 2)]).pages(2, 1), "is truncated");
    refused(&sample, &ForgedSession::new(&sample).ranges(&[(0, 1)]).pages(1, 2), "trailing bytes");
    let mut forged = ForgedSession::new(&sample).ranges(&[]);
    forged.info.wasi_bytes = 10;
    refused(&sample, &forged, "is truncated");
    forged.body.extend_from_slice(&[0; 10]);
    sample.decode(&forged.bytes()).unwrap();
    forged.body.push(0);
    refused(&sample, &forged, "trailing bytes");
}

#[test]
fn memory_must_be_whole_pages_and_cover_the_image() {
    let sample = Sample::new();
    for (bytes, reason) in [
        (0, "smaller than the image's"),
        (64 << 10, "smaller than the image's"),
        ((128 << 10) + 1, "multiple of 64 KiB"),
        (u64::MAX, "multiple of 64 KiB"),
    ] {
        let mut forged = ForgedSession::new(&sample).ranges(&[]);
        forged.info.memory_bytes = bytes;
        refused(&sample, &forged, reason);
    }
    let mut forged = ForgedSession::new(&sample).ranges(&[]);
    forged.info.memory_bytes = 128 << 10;
    sample.decode(&forged.bytes()).unwrap();
    forged.info.page_count = 33;
    refused(&sample, &forged, "more pages than its memory contains");
    forged.info.memory_bytes = 1 << 63;
    let error = sample.decode(&forged.bytes()).unwrap_err();
    assert!(matches!(error, ResumeError::TooLarge { key: "memory_bytes", .. }), "{error}");
}

#[test]
fn labels_reject_control_characters() {
    let sample = Sample::new();
    let long = "x".repeat(201);
    for label in ["", "\x1b[2J", "a b", "ä", "a/b", &long] {
        let mut forged = ForgedSession::new(&sample).ranges(&[]);
        forged.info.runtime = label.into();
        refused(&sample, &forged, "name is invalid");
        let mut forged = ForgedSession::new(&sample).ranges(&[]);
        forged.info.version = Some(label.into());
        refused(&sample, &forged, "name is invalid");
        let mut forged = ForgedSession::new(&sample).ranges(&[]);
        forged.info.image_sha256 = label.into();
        refused(&sample, &forged, "not a SHA-256");
    }
}

#[test]
fn decompression_bomb_is_rejected() {
    let sample = Sample::new();
    // A complete body, followed by a gigabyte of zeros. The zeros are rejected as trailing data, without being
    // decompressed.
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(&ForgedSession::new(&sample).ranges(&[]).body).unwrap();
    for _ in 0..1024 {
        encoder.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    let bomb = seal(&ForgedSession::new(&sample).info, &bomb);
    // Other processes can slow down an attempt, so only the fastest of ten must be below one second.
    let mut fastest = Duration::MAX;
    for _ in 0..10 {
        let begun = Instant::now();
        let error = sample.decode(&bomb).unwrap_err();
        fastest = fastest.min(begun.elapsed());
        assert!(error.to_string().contains("trailing bytes"), "{error}");
        if fastest < Duration::from_secs(1) {
            return;
        }
    }
    panic!("the fastest of ten attempts took {fastest:?}");
}

#[test]
fn oversized_zstd_window_is_rejected() {
    let sample = Sample::new();
    let body = ForgedSession::new(&sample).ranges(&[]).body;
    for (log, fits) in [(20, true), (21, false), (27, false)] {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(log).unwrap();
        encoder.write_all(&body).unwrap();
        // Without a flush, the compressor would choose a window no larger than its input.
        encoder.flush().unwrap();
        let bytes = seal(&ForgedSession::new(&sample).info, &encoder.finish().unwrap());
        assert_eq!(sample.decode(&bytes).is_ok(), fits, "{log}");
    }
}

#[test]
fn trailing_data_after_the_frame_is_rejected() {
    let sample = Sample::new();
    let forged = ForgedSession::new(&sample).ranges(&[]);
    let frame = zstd::encode_all(&*forged.body, 1).unwrap();
    let more = zstd::encode_all(&b""[..], 1).unwrap();
    let skippable = [&0x184D_2A50_u32.to_le_bytes()[..], &1_u32.to_le_bytes(), b"x"].concat();
    sample.decode(&seal(&forged.info, &frame)).unwrap();
    let zero = vec![0];
    for (one, other) in [(&frame, &more), (&frame, &skippable), (&skippable, &frame), (&more, &frame), (&frame, &zero)]
    {
        let body = [&**one, other].concat();
        let error = sample.decode(&seal(&forged.info, &body)).unwrap_err();
        assert!(matches!(error, ResumeError::Damaged { .. }), "{error}");
    }
}

#[test]
fn resealed_mutations_are_errors_or_sound_sessions() {
    let sample = Sample::new();
    let real = sample.encode(&sample.saved(&[1, 2, 3, 40]), None, "");
    let mut numbers = Numbers(20_261_122);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut bytes = real.clone();
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(bytes.len() as u64);
            match numbers.below(4) {
                0 => bytes[at] = numbers.byte(),
                1 => bytes[at] ^= 1 << numbers.below(8),
                2 => bytes.truncate(at.max(32)),
                _ => bytes.insert(at, numbers.byte()),
            }
        }
        forge_checksum(&mut bytes);
        if let Ok(saved) = sample.decode(&bytes) {
            accepted += 1;
            assert!(saved.memory_bytes <= CAPS.memory_bytes && saved.wasi.len() as u64 <= CAPS.wasi_bytes);
            assert_eq!(saved.globals, sample.globals);
            assert!(saved.pages.iter().all(|(number, _)| u64::from(number) * 4096 < saved.memory_bytes));
            // An accepted session can be encoded and decoded like any other session.
            assert_eq!(sample.decode(&sample.encode(&saved, None, "")).unwrap(), saved);
        }
    }
    assert!(accepted > 0, "page contents are arbitrary, so some mutations must be accepted");
}
