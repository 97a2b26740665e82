//! Tests of the format alone, with synthetic sessions of a synthetic image.

mod forged;
mod sealed;

use std::sync::Arc;

use std::io::{self, Read, Write};

use super::{
    Caps, Codec, ImageView, PAGE_BYTES, Page, Pages, ResumeError, Saved, SessionKey, Unpacked, WINDOW_LOG,
    decode::decode, encode::encode,
};
use crate::Language;

/// The C library, as in the engine.
struct Zstandard;

impl Codec for Zstandard {
    fn pack(&self, body: &mut dyn Read, into: &mut dyn Write) -> io::Result<()> {
        let mut encoder = zstd::Encoder::new(into, 1)?;
        encoder.window_log(WINDOW_LOG)?;
        io::copy(body, &mut encoder)?;
        encoder.finish().map(drop)
    }

    fn unpack<'a>(&self, packed: &'a [u8]) -> io::Result<Box<dyn Unpacked<'a> + 'a>> {
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

impl<'a> Unpacked<'a> for Frame<'a> {
    fn rest(self: Box<Self>) -> &'a [u8] {
        self.0.finish()
    }
}

const IDENTITY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const CAPS: Caps = Caps { memory_bytes: 1 << 20, wasi_bytes: 100_000 };

/// SplitMix64.
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

    fn below(&mut self, most: u64) -> usize {
        usize::try_from(self.next() % most).unwrap()
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

    /// Returns a session with these private pages of its 192 KiB. Some differ slightly from the image, some completely.
    fn saved(&self, pages: &[u32]) -> Saved {
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
        Saved {
            executions: 12,
            memory_bytes: 192 << 10,
            globals: self.globals.clone(),
            entropy_key: Some([9; 32]),
            forks: 2,
            pages: private,
            wasi: b"descriptors and files".repeat(40),
        }
    }

    fn encode(&self, saved: &Saved, key: Option<&SessionKey>, bound_to: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.with_view(|view| encode(saved, view, &Zstandard, key, bound_to, &mut bytes)).unwrap();
        bytes
    }

    fn decode(&self, bytes: &[u8]) -> Result<Saved, ResumeError> {
        self.open(bytes, None, "")
    }

    fn open(&self, bytes: &[u8], key: Option<&SessionKey>, bound_to: &str) -> Result<Saved, ResumeError> {
        self.with_view(|view| decode(bytes, view, &Zstandard, &CAPS, key, bound_to))
    }
}

#[test]
fn a_session_comes_back_whole() {
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
    let empty = Saved { wasi: Vec::new(), entropy_key: None, ..saved };
    assert_eq!(sample.decode(&sample.encode(&empty, None, "")).unwrap(), empty);
}

#[test]
fn equal_sessions_give_equal_bytes() {
    let sample = Sample::new();
    let (one, other) = (sample.saved(&[1, 2, 9]), sample.saved(&[1, 2, 9]));
    assert_eq!(sample.encode(&one, None, ""), sample.encode(&other, None, ""));
}

#[test]
fn pages_that_hardly_differ_take_hardly_any_room() {
    let sample = Sample { memory: (0..8 << 20).map(|at: u64| (at * at % 251) as u8).collect(), ..Sample::new() };
    let mut saved = sample.saved(&(0..1000).map(|n| n * 2).collect::<Vec<_>>());
    saved.memory_bytes = 8 << 20;
    let bytes = sample.encode(&saved, None, "");
    // Four megabytes, with one bit changed in every page.
    assert!(bytes.len() < 16_000, "{}", bytes.len());
}

#[test]
fn the_policy_limits_memory_and_files_and_not_the_bytes() {
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
fn another_image_is_refused_and_both_are_named() {
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
