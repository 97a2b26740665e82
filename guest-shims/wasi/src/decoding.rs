//! The text device: decodes the East Asian encodings of the Encoding Standard, whose tables are too large for scripts.

use encoding_rs::{BIG5, DecoderResult, EUC_JP, EUC_KR, Encoding, GB18030, GBK, ISO_2022_JP, SHIFT_JIS};

use crate::Errno;

/// The text device's path in the guest. Guests reach the device in the same way as
/// [`TOOLS_DEVICE`](crate::TOOLS_DEVICE). A write is a request: the number of an encoding (from 0: Big5, EUC-JP,
/// EUC-KR, GB18030, GBK, ISO-2022-JP, Shift_JIS), flags (1: fail on invalid bytes; 2: more bytes follow), and the bytes
/// to decode. The next read returns the length of the text in four little-endian bytes, one byte, and the text in
/// UTF-8. The single byte is the number of bytes in an unfinished character at the end of the request.
///
/// A write fails with `EINVAL` for an invalid request, and with `EILSEQ` for invalid bytes if the flag is set. It fails
/// with `E2BIG` for more than [`MAX_TEXT_BYTES`], and with `ENOMEM` if the text does not fit into the guest's memory
/// limit.
pub const TEXT_DEVICE: &str = "/dev/glovebox/text";

/// Maximum size of a request to the text device, in bytes. Decoding takes less than a millisecond, during which the
/// guest cannot be stopped.
pub const MAX_TEXT_BYTES: u64 = 64 << 10;

/// Maximum ratio of the text's size to the request's size: a byte becomes at most one character of three bytes.
pub(crate) const MAX_GROWTH: u64 = 3;

const FATAL: u8 = 1;
const CONTINUED: u8 = 2;

/// Encodings by number. They are listed explicitly, so that a component contains no tables of other encodings.
static ENCODINGS: [&Encoding; 7] = [BIG5, EUC_JP, EUC_KR, GB18030, GBK, ISO_2022_JP, SHIFT_JIS];

/// The size in bytes of the buffer for one step of a decoder.
const STEP_BYTES: usize = 1 << 10;

/// Decodes a request and returns the reply.
pub(crate) fn decode(request: &[u8]) -> Result<Vec<u8>, Errno> {
    let &[number, flags, ref bytes @ ..] = request else { return Err(Errno::Inval) };
    let encoding = ENCODINGS.get(usize::from(number)).ok_or(Errno::Inval)?;
    if flags & !(FATAL | CONTINUED) != 0 {
        return Err(Errno::Inval);
    }
    let is_last = flags & CONTINUED == 0;
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut step = [0; STEP_BYTES];
    let mut text = Vec::new();
    let mut rest = bytes;
    loop {
        let (result, read, written) = decoder.decode_to_utf8_without_replacement(rest, &mut step, is_last);
        text.extend_from_slice(step.get(..written).unwrap_or_default());
        rest = rest.get(read..).unwrap_or_default();
        match result {
            DecoderResult::InputEmpty => break,
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) if flags & FATAL != 0 => return Err(Errno::Ilseq),
            DecoderResult::Malformed(..) => text.extend_from_slice("\u{fffd}".as_bytes()),
        }
    }
    // Decode an empty last chunk. The decoder then reports an unfinished character as malformed, with its length.
    let at_end = (!is_last).then(|| decoder.decode_to_utf8_without_replacement(&[], &mut step, true).0);
    let unfinished = match at_end {
        Some(DecoderResult::Malformed(bytes, after)) => bytes.saturating_add(after),
        _ => 0,
    };
    let length = crate::memory::guest_size(text.len())?;
    Ok([&length.to_le_bytes(), &[unfinished][..], &text].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_chunk(number: u8, flags: u8, bytes: &[u8]) -> Result<(u8, String), Errno> {
        let reply = decode(&[&[number, flags], bytes].concat())?;
        let (header, text) = reply.split_at(5);
        assert_eq!(header[..4], u32::try_from(text.len()).unwrap().to_le_bytes());
        Ok((header[4], String::from_utf8(text.to_vec()).unwrap()))
    }

    #[test]
    fn every_encoding_is_decoded() {
        for (number, bytes, text) in [
            (0, &[0xa4, 0xa4, 0xa4, 0xe5][..], "中文"),
            (1, &[0xc6, 0xfc, 0xcb, 0xdc], "日本"),
            (2, &[0xc7, 0xd1, 0xb1, 0xdb], "한글"),
            (3, &[0x81, 0x30, 0x81, 0x34, 0xc4, 0xe3], "\u{84}你"),
            (4, &[0xc4, 0xe3, 0x80], "你€"),
            (5, b"\x1b$BF|K\\\x1b(BA", "日本A"),
            (6, &[0x93, 0xfa, 0xb1], "日ｱ"),
        ] {
            assert_eq!(decode_chunk(number, 1, bytes), Ok((0, text.to_owned())), "{number}");
        }
    }

    #[test]
    fn an_unfinished_character_is_left_or_invalid() {
        for (number, bytes, left) in [
            (6, &[0x41, 0x93][..], 1),
            (3, &[0x41, 0x81, 0x30, 0x81], 3),
            (3, &[0x41, 0x81, 0x30], 2),
            (1, &[0x41, 0x8f, 0xb0], 2),
            (5, b"A\x1b", 1),
            (5, b"A\x1b$", 2),
            (6, &[0x41], 0),
        ] {
            assert_eq!(decode_chunk(number, 2, bytes), Ok((left, "A".to_owned())), "{number} {bytes:x?}");
            assert_eq!(decode_chunk(number, 3, bytes), Ok((left, "A".to_owned())), "{number} {bytes:x?}");
            if left > 0 {
                assert!(decode_chunk(number, 0, bytes).unwrap().1.starts_with("A\u{fffd}"), "{number} {bytes:x?}");
                assert_eq!(decode_chunk(number, 1, bytes), Err(Errno::Ilseq), "{number} {bytes:x?}");
            }
        }
    }

    #[test]
    fn invalid_bytes_become_replacement_characters_within_the_growth() {
        for number in 0..7 {
            for byte in [0x80, 0x81, 0x8e, 0xa0, 0xb1, 0xff] {
                let bytes = vec![byte; 5_000];
                let (left, text) = decode_chunk(number, 0, &bytes).unwrap();
                assert!(left == 0 && u64::try_from(text.len()).unwrap() <= MAX_GROWTH * 5_000, "{number} {byte:x}");
            }
        }
        assert_eq!(decode_chunk(6, 0, &[0xff, 0x41]), Ok((0, "\u{fffd}A".to_owned())));
        assert_eq!(decode_chunk(6, 1, &[0xff, 0x41]), Err(Errno::Ilseq));
    }

    #[test]
    fn malformed_requests_are_rejected() {
        for request in [&[][..], &[0], &[7, 0], &[255, 0], &[0, 4], &[0, 255]] {
            assert_eq!(decode(request), Err(Errno::Inval), "{request:x?}");
        }
        assert_eq!(decode_chunk(0, 0, b""), Ok((0, String::new())));
    }
}
