//! Zstandard compression of hibernated sessions, implemented in Rust.

use std::io::{self, Read, Write};

use glovebox_core::hibernate::{Codec, FrameReader, WINDOW_LOG};
use ruzstd::{
    decoding::{FrameDecoder, StreamingDecoder},
    encoding::{CompressionLevel, compress},
};

/// The component's [`Codec`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Zstandard;

impl Codec for Zstandard {
    fn pack(&self, body: &mut dyn Read, into: &mut dyn Write) -> io::Result<()> {
        let mut packed = Vec::new();
        // The compressor does not handle I/O errors. Neither the reader of pages nor the writer to memory can fail.
        compress(body, &mut packed, CompressionLevel::Fastest);
        into.write_all(&packed)
    }

    fn unpack<'a>(&self, packed: &'a [u8]) -> io::Result<Box<dyn FrameReader<'a> + 'a>> {
        check_header(packed)?;
        Ok(Box::new(Frame(StreamingDecoder::new(packed).map_err(io::Error::other)?)))
    }
}

/// Rejects a frame that is malformed, needs a dictionary, or has too large a window (RFC 8878, section 3.1.1).
fn check_header(packed: &[u8]) -> io::Result<()> {
    let wrong = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
    let (magic, rest) = packed.split_first_chunk().ok_or_else(|| wrong("it is truncated"))?;
    if u32::from_le_bytes(*magic) != 0xFD2F_B528 {
        return Err(wrong("it is not a frame"));
    }
    let ([descriptor, first], rest) = rest.split_first_chunk().ok_or_else(|| wrong("it is truncated"))?;
    if descriptor & 0b11 != 0 {
        return Err(wrong("it needs a dictionary"));
    }
    let is_single_segment = descriptor & (1 << 5) != 0;
    let window_bytes = if is_single_segment {
        let byte = |at: usize| if at == 0 { Some(*first) } else { rest.get(at - 1).copied() };
        let number = |len: usize| {
            let bytes = (0..len).map(|at| byte(at).map(u64::from)).collect::<Option<Vec<_>>>()?;
            Some(bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | byte))
        };
        match descriptor >> 6 {
            0 => number(1),
            1 => number(2).map(|size| size + 256),
            2 => number(4),
            _ => number(8),
        }
        .ok_or_else(|| wrong("it is truncated"))?
    } else {
        let base = 1_u64 << (10 + (first >> 3));
        base + base / 8 * u64::from(first & 0b111)
    };
    if window_bytes > 1 << WINDOW_LOG { Err(wrong("its window is too large")) } else { Ok(()) }
}

struct Frame<'a>(StreamingDecoder<&'a [u8], FrameDecoder>);

impl Read for Frame<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl<'a> FrameReader<'a> for Frame<'a> {
    fn rest(self: Box<Self>) -> &'a [u8] {
        self.0.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(packed: &[u8]) -> io::Result<(Vec<u8>, &[u8])> {
        let mut frame = Zstandard.unpack(packed)?;
        let mut bytes = Vec::new();
        frame.read_to_end(&mut bytes)?;
        Ok((bytes, frame.rest()))
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        Zstandard.pack(&mut &*bytes, &mut packed).unwrap();
        packed
    }

    /// Returns samples of typical session contents: mostly zeros, text and noise.
    fn samples() -> Vec<Vec<u8>> {
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()[7]
        };
        let mut sparse = vec![0; 3 << 20];
        sparse.iter_mut().step_by(4_096).for_each(|byte| *byte = noise());
        let noisy = (0..300_000).map(|_| noise()).collect();
        vec![Vec::new(), vec![7], b"descriptors and files".repeat(10_000), sparse, noisy]
    }

    #[test]
    fn zstd_frames_are_compatible_with_the_engine() {
        for bytes in samples() {
            let ours = packed(&bytes);
            assert!(unpacked(&ours).unwrap() == (bytes.clone(), &[][..]), "{}", bytes.len());
            let mut decoder = zstd::Decoder::with_buffer(&*ours).unwrap();
            decoder.window_log_max(WINDOW_LOG).unwrap();
            let mut there = Vec::new();
            decoder.read_to_end(&mut there).unwrap();
            assert!(there == bytes, "{}", bytes.len());
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
            encoder.window_log(WINDOW_LOG).unwrap();
            encoder.write_all(&bytes).unwrap();
            let theirs = encoder.finish().unwrap();
            assert!(unpacked(&theirs).unwrap() == (bytes.clone(), &[][..]), "{}", bytes.len());
        }
    }

    #[test]
    fn bytes_after_a_frame_are_not_consumed() {
        let more = [&*packed(b"one"), b"two"].concat();
        assert_eq!(unpacked(&more).unwrap(), (b"one".to_vec(), &b"two"[..]));
    }

    #[test]
    fn oversized_zstd_window_is_rejected() {
        for (log, fits) in [(20, true), (21, false), (27, false)] {
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
            encoder.window_log(log).unwrap();
            encoder.write_all(b"body").unwrap();
            encoder.flush().unwrap();
            assert_eq!(unpacked(&encoder.finish().unwrap()).is_ok(), fits, "{log}");
        }
    }

    #[test]
    fn frame_with_excessive_claimed_size_is_rejected() {
        let single = |size: u32| [&0xFD2F_B528_u32.to_le_bytes()[..], &[0b1010_0000], &size.to_le_bytes()].concat();
        for (size, fits) in [((1 << 20) - 1, true), (1 << 20, true), ((1 << 20) + 1, false), (u32::MAX, false)] {
            assert_eq!(check_header(&single(size)).is_ok(), fits, "{size}");
        }
        let mut long = single(1);
        long[4] = 0b1110_0000;
        long.extend([0, 0, 0, 1]);
        assert!(check_header(&long).is_err(), "eight bytes of size");
        assert!(check_header(&[&0xFD2F_B528_u32.to_le_bytes()[..], &[0b0000_0001, 0]].concat()).is_err(), "dictionary");
        let whole = single(7);
        for end in 0..whole.len() {
            assert!(check_header(&whole[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn damaged_frames_are_errors() {
        let mut state = 20_261_122_u64;
        let mut below = |max: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % max
        };
        for bytes in [b"descriptors and files, pages and globals".repeat(400), samples().swap_remove(4)] {
            let whole = [packed(&bytes), zstd::encode_all(&*bytes, 1).unwrap()];
            for round in 0..4_000 {
                let mut damaged = whole[round % 2].clone();
                for _ in 0..=below(3) {
                    let at = below(damaged.len());
                    match below(3) {
                        0 => damaged[at] = u8::try_from(below(256)).unwrap(),
                        1 => damaged[at] ^= 1 << below(8),
                        _ => damaged.truncate(at.max(8)),
                    }
                }
                let Ok(mut frame) = Zstandard.unpack(&damaged) else { continue };
                // The decompressor returns no more than requested, regardless of the size that the frame claims.
                let mut into = vec![0; 1 << 20];
                let _ = frame.read_exact(&mut into);
            }
        }
    }
}
