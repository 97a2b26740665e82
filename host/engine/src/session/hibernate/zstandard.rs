//! Zstandard for hibernated sessions, with the C library.

use std::io::{self, Read, Write};

use glovebox_core::hibernate::{Codec, Unpacked, WINDOW_LOG};
use zstd::stream::{read::Decoder, write::Encoder};

/// Compression level. The differing pages are mostly zeros, which every level compresses alike: higher levels cost more
/// milliseconds than they save kilobytes.
const LEVEL: i32 = 1;

#[derive(Clone, Copy, Debug)]
pub(super) struct Zstandard;

impl Codec for Zstandard {
    fn pack(&self, body: &mut dyn Read, into: &mut dyn Write) -> io::Result<()> {
        let mut encoder = Encoder::new(into, LEVEL)?;
        encoder.window_log(WINDOW_LOG)?;
        io::copy(body, &mut encoder)?;
        encoder.finish().map(drop)
    }

    fn unpack<'a>(&self, packed: &'a [u8]) -> io::Result<Box<dyn Unpacked<'a> + 'a>> {
        let mut decoder = Decoder::with_buffer(packed)?;
        decoder.window_log_max(WINDOW_LOG)?;
        Ok(Box::new(Frame(decoder.single_frame())))
    }
}

struct Frame<'a>(Decoder<'static, &'a [u8]>);

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
