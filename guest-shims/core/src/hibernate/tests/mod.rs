//! Tests of the format, with synthetic sessions and a synthetic image.

mod forged;

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use super::{
    Caps, Codec, FrameReader, ImageView, PAGE_BYTES, Page, Pages, ResumeError, SavedSession, SessionKey, WINDOW_LOG,
    codec::{decode, encode, reseal, seal, unseal},
    header::HibernatedInfo,
};
use crate::Language;

/// Zstandard's C library, which the engine also uses.
struct Zstandard;

impl Codec for Zstandard {
    fn pack(&self, body: &mut dyn Read, into: &mut dyn Write) -> io::Result<()> {
        let mut encoder = zstd::Encoder::new(into, 1)?;
        encoder.window_log(WINDOW_LOG)?;
        io::copy(body, &mut encoder)?;
        encoder.finish().map(drop)
    }

    fn unpack<'a>(&self, packed: &'a [u8]) -> io::Result<Box<dyn FrameReader<'a> + 'a>> {
        let mut decoder = zstd::Decoder::with_buffer(packed)?;
        decoder.window_log_max(WINDOW_LOG)?;
        Ok(Box::new(Frame(decoder.single_frame())))
    }
}

struct Frame<'a>(zstd::Decoder<'static, &'a [u8]>);

impl Read for Frame<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl<'a> FrameReader<'a> for Frame<'a> {
    fn rest(self: Box<Self>) -> &'a [u8] {
        self.0.finish()
    }
}

const IDENTITY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const CAPS: Caps = Caps { memory_bytes: 1 << 20, wasi_bytes: 100_000 };

/// The SplitMix64 generator.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn below(&mut self, max: u64) -> usize {
        usize::try_from(self.next() % max).unwrap()
    }
}

/// An image with 128 KiB of memory and two globals.
struct Sample {
    identity: String,
    runtime: String,
    memory: Vec<u8>,
    globals: Vec<(String, u64)>,
}

impl Sample {
    fn new() -> Self {
        let memory = (0..128_u32 << 10).map(|at| (at % 251) as u8).collect();
        let (identity, runtime) = (IDENTITY.into(), "python-3.12".into());
        Self {
            identity,
            runtime,
            memory,
            globals: vec![("__heap".into(), 7), ("__stack_pointer".into(), 0x8000_0001_0000)],
        }
    }

    fn with_view<R>(&self, work: impl FnOnce(&ImageView<'_>) -> R) -> R {
        let (pages, _) = self.memory.as_chunks::<PAGE_BYTES>();
        work(&ImageView {
            identity: &self.identity,
            runtime: &self.runtime,
            version: Some("3.12.0"),
            language: Language::Python,
            memory_bytes: self.memory.len() as u64,
            page: &|number| pages.get(number as usize).copied(),
            globals: &self.globals,
        })
    }

    /// Returns a 192 KiB session with these private pages. Even-numbered pages differ from the image in one byte,
    /// odd-numbered ones completely.
    fn saved(&self, pages: &[u32]) -> SavedSession {
        let mut numbers = Numbers(pages.len() as u64);
        let mut private = Pages::default();
        for number in pages {
            let mut page: Page = *self.memory.as_chunks().0.get(*number as usize).unwrap_or(&[0; PAGE_BYTES]);
            if number % 2 == 0 {
                page[numbers.below(PAGE_BYTES as u64)] ^= 1;
            } else {
                page.fill_with(|| numbers.byte());
            }
            assert!(private.push(*number, Arc::new(page)));
        }
        SavedSession {
            executions: 12,
            memory_bytes: 192 << 10,
            globals: self.globals.clone(),
            entropy_key: Some([9; 32]),
            forks: 2,
            pages: private,
            wasi: b"descriptors and files".repeat(40),
        }
    }

    fn encode(&self, saved: &SavedSession, key: Option<&SessionKey>, bound_to: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.with_view(|view| encode(saved, view, &Zstandard, key, bound_to, &mut bytes)).unwrap();
        bytes
    }

    fn decode(&self, bytes: &[u8]) -> Result<SavedSession, ResumeError> {
        self.open(bytes, None, "")
    }

    fn open(&self, bytes: &[u8], key: Option<&SessionKey>, bound_to: &str) -> Result<SavedSession, ResumeError> {
        self.with_view(|view| decode(bytes, view, &Zstandard, &CAPS, key, bound_to))
    }
}

#[test]
fn resume_restores_the_whole_session() {
    let sample = Sample::new();
    let page_sets: [&[u32]; 6] = [&[], &[0], &[47], &[0, 1, 2, 3], &[1, 3, 5, 30, 31, 32, 33, 46], &[31, 32]];
    for pages in page_sets {
        let saved = sample.saved(pages);
        let bytes = sample.encode(&saved, None, "");
        assert_eq!(sample.decode(&bytes).unwrap(), saved, "{pages:?}");
    }
    let every: Vec<u32> = (0..48).collect();
    let saved = sample.saved(&every);
    assert_eq!(sample.decode(&sample.encode(&saved, None, "")).unwrap(), saved);
    let empty = SavedSession { wasi: Vec::new(), entropy_key: None, ..saved };
    assert_eq!(sample.decode(&sample.encode(&empty, None, "")).unwrap(), empty);
}

#[test]
fn equal_sessions_give_equal_bytes() {
    let sample = Sample::new();
    let (one, other) = (sample.saved(&[1, 2, 9]), sample.saved(&[1, 2, 9]));
    assert_eq!(sample.encode(&one, None, ""), sample.encode(&other, None, ""));
}

#[test]
fn similar_pages_compress_well() {
    let sample = Sample { memory: (0..8 << 20).map(|at: u64| (at * at % 251) as u8).collect(), ..Sample::new() };
    let mut saved = sample.saved(&(0..1000).map(|n| n * 2).collect::<Vec<_>>());
    saved.memory_bytes = 8 << 20;
    let bytes = sample.encode(&saved, None, "");
    // The pages have four megabytes in total, and each differs from the image in one bit.
    assert!(bytes.len() < 16_000, "{}", bytes.len());
}

#[test]
fn limits_come_from_the_policy_and_not_the_bytes() {
    let sample = Sample::new();
    let saved = sample.saved(&[0, 40]);
    let bytes = sample.encode(&saved, None, "");
    let (memory, wasi) = (saved.memory_bytes, saved.wasi.len() as u64);
    let with = |memory_bytes, wasi_bytes| {
        sample.with_view(|view| decode(&bytes, view, &Zstandard, &Caps { memory_bytes, wasi_bytes }, None, ""))
    };
    assert_eq!(with(memory + 1, wasi + 1).unwrap(), saved, "under");
    assert_eq!(with(memory, wasi).unwrap(), saved, "at");
    let error = with(memory - 1, wasi).unwrap_err();
    assert!(matches!(error, ResumeError::TooLarge { key: "memory_bytes", .. }), "over: {error}");
    let error = with(memory, wasi - 1).unwrap_err();
    assert!(matches!(error, ResumeError::TooLarge { key: "workspace_bytes", .. }), "over: {error}");
}

#[test]
fn resume_with_another_image_names_both_images() {
    let sample = Sample::new();
    let bytes = sample.encode(&sample.saved(&[0]), None, "");
    let other = IDENTITY.replace('0', "f");
    let newer = Sample { identity: other.clone(), runtime: "python-3.13".into(), ..Sample::new() };
    let error = newer.decode(&bytes).unwrap_err();
    assert!(matches!(error, ResumeError::Image { .. }), "{error}");
    let message = error.to_string();
    for part in [IDENTITY, &other, "`python-3.12`", "`python-3.13`"] {
        assert!(message.contains(part), "{message}");
    }
}

fn key(byte: u8) -> SessionKey {
    SessionKey::new(&[byte; 32]).unwrap()
}

#[test]
fn session_keys_require_32_to_64_bytes() {
    for (bytes, fits) in [(0, false), (31, false), (32, true), (64, true), (65, false)] {
        assert_eq!(SessionKey::new(&vec![1; bytes]).is_ok(), fits, "{bytes}");
    }
    assert_eq!(format!("{:?}", key(1)), "SessionKey(..)");
}

#[test]
fn seal_is_hmac_sha256() {
    let sample = Sample::new();
    let bytes = sample.encode(&sample.saved(&[]), Some(&key(b'k')), "");
    let (sealed, trailer) = bytes.split_at(bytes.len() - 32);
    let by_hand = hmac_by_hand(&[b'k'; 32], &[&0_u64.to_le_bytes()[..], sealed].concat());
    assert_eq!(trailer, by_hand);
}

/// Computes HMAC-SHA-256 (RFC 2104) step by step.
fn hmac_by_hand(key: &[u8], message: &[u8]) -> [u8; 32] {
    use sha2::{Digest as _, Sha256};
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

#[test]
fn only_the_sealing_key_opens_a_session() {
    let sample = Sample::new();
    let saved = sample.saved(&[3]);
    let open = |bytes: &[u8], key: Option<&SessionKey>, bound_to: &str| sample.open(bytes, key, bound_to);
    let plain = sample.encode(&saved, None, "");
    let sealed = sample.encode(&saved, Some(&key(1)), "");
    let bound = sample.encode(&saved, Some(&key(1)), "one");
    assert_eq!(open(&plain, None, "").unwrap(), saved);
    assert_eq!(open(&sealed, Some(&key(1)), "").unwrap(), saved);
    assert_eq!(open(&bound, Some(&key(1)), "one").unwrap(), saved);
    assert!(matches!(open(&plain, Some(&key(1)), ""), Err(ResumeError::Unauthenticated)));
    assert!(matches!(open(&sealed, None, ""), Err(ResumeError::KeyMissing)));
    assert!(matches!(open(&sealed, Some(&key(2)), ""), Err(ResumeError::NotAuthentic)));
    assert!(matches!(open(&sealed, Some(&key(1)), "one"), Err(ResumeError::NotAuthentic)));
    assert!(matches!(open(&bound, Some(&key(1)), "other"), Err(ResumeError::NotAuthentic)));
    assert!(matches!(open(&bound, Some(&key(1)), ""), Err(ResumeError::NotAuthentic)));
}

#[test]
fn derived_keys_differ_by_purpose() {
    let sample = Sample::new();
    let derived = key(1).derived("executions of one");
    let bytes = sample.encode(&sample.saved(&[]), Some(&derived), "");
    assert!(sample.open(&bytes, Some(&key(1).derived("executions of one")), "").is_ok());
    for other in [key(1), key(1).derived("executions of two"), key(2).derived("executions of one")] {
        assert!(matches!(sample.open(&bytes, Some(&other), ""), Err(ResumeError::NotAuthentic)));
    }
}

#[test]
fn stripped_seal_is_rejected() {
    // An attacker without the key turns a keyed seal into a plain one.
    let sample = Sample::new();
    let mut bytes = sample.encode(&sample.saved(&[3]), Some(&key(1)), "");
    bytes[10] = 1;
    forge_checksum(&mut bytes);
    let error = sample.open(&bytes, Some(&key(1)), "").unwrap_err();
    assert!(matches!(error, ResumeError::Unauthenticated), "{error}");
}

/// Replaces the trailer with a valid plain seal.
fn forge_checksum(bytes: &mut Vec<u8>) {
    use sha2::{Digest as _, Sha256};
    bytes.truncate(bytes.len() - 32);
    let digest = Sha256::digest(&*bytes);
    bytes.extend_from_slice(&digest);
}

#[test]
fn resealing_changes_the_name() {
    let sample = Sample::new();
    let saved = sample.saved(&[3]);
    let bound = sample.encode(&saved, Some(&key(1)), "one");
    let again = reseal(&bound, Some(&key(1)), "one", "other").unwrap();
    assert_eq!(again, sample.encode(&saved, Some(&key(1)), "other"));
    assert!(matches!(reseal(&bound, Some(&key(1)), "other", "x"), Err(ResumeError::NotAuthentic)));
    assert!(matches!(reseal(&bound, None, "one", "x"), Err(ResumeError::KeyMissing)));
    let plain = sample.encode(&saved, None, "");
    assert_eq!(reseal(&plain, None, "", "").unwrap(), plain);
}

#[test]
fn damaged_and_truncated_bytes_are_detected() {
    let sample = Sample::new();
    for (key, bound_to) in [(None, ""), (Some(key(1)), "one")] {
        let bytes = sample.encode(&sample.saved(&[2]), key.as_ref(), bound_to);
        let open = |bytes: &[u8]| sample.open(bytes, key.as_ref(), bound_to);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(open(&damaged).is_err(), "byte {at}");
            assert!(open(&bytes[..at]).is_err(), "cut at {at}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(open(&longer).is_err());
    }
}

#[test]
fn header_is_readable_without_the_key() {
    let sample = Sample::new();
    let saved = sample.saved(&[2, 3]);
    let info = HibernatedInfo::read(&sample.encode(&saved, Some(&key(1)), "one")).unwrap();
    assert_eq!((info.image_sha256.as_str(), info.runtime.as_str()), (IDENTITY, "python-3.12"));
    assert_eq!((info.version.as_deref(), info.language), (Some("3.12.0"), Language::Python));
    assert_eq!((info.executions, info.memory_bytes, info.page_count), (12, 192 << 10, 2));
    assert_eq!(info.wasi_bytes, saved.wasi.len() as u64);
    let bytes = sample.encode(&saved, Some(&key(1)), "one");
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    assert_eq!(HibernatedInfo::read_start(&bytes[..16 + length]).unwrap(), info);
    assert!(HibernatedInfo::read_start(&bytes[..15 + length]).is_err());
}

#[test]
fn foreign_bytes_are_distinguished_from_sessions() {
    for bytes in [&b""[..], b"GLOVE", b"PK\x03\x04 an archive", b"not ours at all, but long enough"] {
        assert!(matches!(HibernatedInfo::read(bytes), Err(ResumeError::NotASession)));
    }
    let sample = Sample::new();
    let mut newer = sample.encode(&sample.saved(&[]), None, "");
    newer[8..10].copy_from_slice(&2_u16.to_le_bytes());
    let error = sample.decode(&newer).unwrap_err();
    assert!(matches!(error, ResumeError::Version { found: 2, known: 1 }), "{error}");
}

#[test]
fn path_of_a_custom_binary_is_not_saved() {
    let sample = Sample { runtime: "/home/me/secret/python.wasm".into(), ..Sample::new() };
    let bytes = sample.encode(&sample.saved(&[]), None, "");
    assert_eq!(HibernatedInfo::read(&bytes).unwrap().runtime, "custom");
}

#[test]
fn sealing_and_unsealing_do_not_decompress() {
    let sample = Sample::new();
    let saved = sample.saved(&[3]);
    let plain = sample.encode(&saved, None, "");
    let sealed = seal(&plain, &key(1), "one").unwrap();
    assert_eq!(sealed, sample.encode(&saved, Some(&key(1)), "one"), "sealing later equals encoding with the key");
    assert_eq!(unseal(&sealed, &key(1), "one").unwrap(), plain);
    assert!(matches!(seal(&sealed, &key(1), "one"), Err(ResumeError::KeyMissing)));
    assert!(matches!(unseal(&plain, &key(1), ""), Err(ResumeError::Unauthenticated)));
    assert!(matches!(unseal(&sealed, &key(2), "one"), Err(ResumeError::NotAuthentic)));
    assert!(matches!(unseal(&sealed, &key(1), ""), Err(ResumeError::NotAuthentic)));
}
