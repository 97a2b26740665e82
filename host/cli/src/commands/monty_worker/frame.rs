//! Frames of Monty's worker protocol, the few fields of their protobuf messages that the host reads and writes, and the
//! layout of dumps.

use std::io::{self, ErrorKind, Read, Write, stdout};

use anyhow::{Context, anyhow, ensure};

/// Maximum size of a received frame, in bytes. A dump is the largest request: it contains a suspended execution of at
/// most 64 MiB, and the snippets and stubs of type checks, of at most 1.6 MiB.
const MAX_FRAME_BYTES: u32 = 66 << 20;

/// Field numbers of the kinds of requests of the client.
pub(super) mod request {
    pub(in super::super) const CONFIGURE: u64 = 1;
    pub(in super::super) const FEED: u64 = 3;
    pub(in super::super) const RESUME_CALL: u64 = 4;
    pub(in super::super) const RESUME_FUTURES: u64 = 6;
    pub(in super::super) const DUMP: u64 = 7;
    pub(in super::super) const LOAD: u64 = 8;
    pub(in super::super) const RESET: u64 = 9;
    pub(in super::super) const SHUTDOWN: u64 = 10;
    pub(in super::super) const ABORT_FEED: u64 = 11;
}

/// Field numbers of the kinds of events of the worker.
pub(super) mod event {
    pub(in super::super) const PRINT: u64 = 1;
    pub(in super::super) const FUNCTION_CALL: u64 = 2;
    #[cfg(feature = "full")]
    pub(in super::super) const OS_CALL: u64 = 3;
    pub(in super::super) const COMPLETE: u64 = 6;
    pub(in super::super) const ERROR: u64 = 7;
    #[cfg(feature = "full")]
    pub(in super::super) const TYPING_ERROR: u64 = 8;
    pub(in super::super) const DUMP_RESULT: u64 = 9;
    pub(in super::super) const OK: u64 = 10;
    pub(in super::super) const FATAL_ERROR: u64 = 11;
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads a frame: the size of a message as four little-endian bytes, and the message. Returns `None` at the end of the
/// input.
pub(super) fn read(from: &mut impl Read) -> anyhow::Result<Option<Vec<u8>>> {
    let mut size = Vec::new();
    from.by_ref().take(4).read_to_end(&mut size).context("cannot read a request")?;
    if size.is_empty() {
        return Ok(None);
    }
    let size: [u8; 4] = size.try_into().map_err(|_| anyhow!("the input ended in the middle of a request's size"))?;
    let size = u32::from_le_bytes(size);
    ensure!(size <= MAX_FRAME_BYTES, "a request is {size} bytes long; the maximum is {MAX_FRAME_BYTES}");
    let mut message = Vec::new();
    from.take(size.into()).read_to_end(&mut message).context("cannot read a request")?;
    ensure!(u32::try_from(message.len()) == Ok(size), "the input ended in the middle of a request");
    Ok(Some(message))
}

/// Writes a frame to standard output. The output lock is held for the whole frame, because another thread writes print
/// events.
pub(super) fn write(message: &[u8]) -> io::Result<()> {
    let size = u32::try_from(message.len()).map_err(|_| io::Error::from(ErrorKind::FileTooLarge))?;
    let mut out = stdout().lock();
    out.write_all(&size.to_le_bytes())?;
    out.write_all(message)?;
    out.flush()
}

/// Visits the fields of a message, which may be untrusted. Does not collect them, because a message can have millions
/// of fields.
pub(super) fn each_field<'a>(mut message: &'a [u8], mut visit: impl FnMut(u64, FieldValue<'a>)) -> anyhow::Result<()> {
    while !message.is_empty() {
        let (number, value) =
            next_field(&mut message).context("cannot decode a request as a Protocol Buffers message")?;
        visit(number, value);
    }
    Ok(())
}

fn next_field<'a>(message: &mut &'a [u8]) -> Option<(u64, FieldValue<'a>)> {
    let key = take_number(message)?;
    let value = match key & 7 {
        0 => FieldValue::Number(take_number(message)?),
        1 => FieldValue::Bytes(take(message, 8)?),
        2 => {
            let size = take_number(message)?;
            FieldValue::Bytes(take(message, usize::try_from(size).ok()?)?)
        }
        5 => FieldValue::Bytes(take(message, 4)?),
        _ => return None,
    };
    Some((key >> 3, value))
}

fn take_number(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0_u32..64).step_by(7) {
        let byte = *take(message, 1)?.first()?;
        number |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(message: &mut &'a [u8], size: usize) -> Option<&'a [u8]> {
    let (taken, rest) = message.split_at_checked(size)?;
    *message = rest;
    Some(taken)
}

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn number(mut self, field: u64, value: u64) -> Self {
        self.put(field << 3);
        self.put(value);
        self
    }

    pub(super) fn optional(self, field: u64, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.number(field, value),
            None => self,
        }
    }

    pub(super) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.put((field << 3) | 2);
        // A slice is at most `isize::MAX` bytes long.
        self.put(u64::try_from(value.len()).unwrap_or(u64::MAX));
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }

    fn put(&mut self, mut number: u64) {
        loop {
            let [low, ..] = number.to_le_bytes();
            number >>= 7;
            if number == 0 {
                self.0.push(low);
                return;
            }
            self.0.push(low | 128);
        }
    }
}

/// Flag of a session whose snippet waits.
pub(super) const DUMP_WAITS: u8 = 1;
/// Flag of a dump with the state of type checks.
pub(super) const DUMP_TYPES: u8 = 2;

/// Writes a part of a dump. A dump consists of a byte with flags, parts that begin with their size, and a rest.
pub(super) fn write_part(dump: &mut Vec<u8>, part: &[u8]) -> anyhow::Result<()> {
    let size = u32::try_from(part.len()).context("a part of the dump is too long")?;
    dump.extend_from_slice(&size.to_le_bytes());
    dump.extend_from_slice(part);
    Ok(())
}

/// Removes and returns the first part of the bytes of a dump. Returns `None` if the bytes are too short.
pub(super) fn read_part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*size)).ok()?)?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(message: &[u8]) -> anyhow::Result<Vec<(u64, FieldValue<'_>)>> {
        let mut found = Vec::new();
        each_field(message, |number, value| found.push((number, value)))?;
        Ok(found)
    }

    #[test]
    fn fields_are_read_as_they_are_written() {
        let message = Message::default().number(1, u64::MAX).optional(2, None).bytes(20, b"ab").number(3, 300).finish();
        let expected =
            [(1, FieldValue::Number(u64::MAX)), (20, FieldValue::Bytes(b"ab")), (3, FieldValue::Number(300))];
        assert_eq!(fields(&message).unwrap(), expected);
    }

    #[test]
    fn damaged_messages_are_rejected() {
        // Truncated numbers and bytes, a number of more than ten bytes, and the wire type of a group.
        for message in
            [&[8][..], &[10, 2, 0], &[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1], &[11], &[9, 0]]
        {
            assert!(fields(message).is_err(), "{message:?}");
        }
    }

    #[test]
    fn frames_are_limited_and_complete() {
        assert_eq!(read(&mut &[2, 0, 0, 0, 8, 1][..]).unwrap(), Some(vec![8, 1]));
        assert_eq!(read(&mut &[][..]).unwrap(), None);
        for truncated in [&[2][..], &[2, 0, 0], &[2, 0, 0, 0], &[2, 0, 0, 0, 8]] {
            let mut input = truncated;
            assert!(read(&mut input).unwrap_err().to_string().contains("in the middle of"), "{truncated:?}");
        }
        assert!(read(&mut &[255; 8][..]).unwrap_err().to_string().contains("maximum"));
    }
}
