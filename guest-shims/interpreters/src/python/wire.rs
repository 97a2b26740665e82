//! The encoding of requests and replies: UTF-8 fields, each with a 4-byte little-endian length prefix.

use crate::{
    Diagnostic, DriverError, GuestValue, RaisedOutcome, Report,
    persist::{GlobalJson, NextGlobal},
};

/// The name of a script without a file (see [`Script::name`](crate::Script::name)). The driver has a fast path for a
/// script with this name.
pub(super) const DEFAULT_NAME: &str = "<sandbox>";

/// Encodes fields for `fields()` in `boot/driver.py`.
pub(super) fn framed<'a>(fields: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut framed = Vec::new();
    for field in fields {
        // A field over 4 GiB never reaches the guest: `Interpreter::send` rejects the whole request.
        framed.extend(u32::try_from(field.len()).unwrap_or(u32::MAX).to_le_bytes());
        framed.extend(field.as_bytes());
    }
    framed
}

/// Decodes the reply of `run` or `run_with`. The bytes are untrusted.
pub(super) fn decode_report(reply: &[u8]) -> Result<Report, DriverError> {
    match reply.split_first() {
        Some((b'X', mut rest)) => {
            let code = field(&mut rest)?;
            code.parse().map(Report::Exited).map_err(|_| unusable("an invalid exit code"))
        }
        Some((b'R', mut rest)) => Ok(Report::Raised(raised(&mut rest)?)),
        Some((b'I', mut rest)) => Ok(Report::Interrupted(raised(&mut rest)?)),
        Some((b'V', mut rest)) => Ok(Report::Completed(Some(value(&mut rest)?))),
        _ => Err(unusable("a report of unknown kind")),
    }
}

/// Decodes the reply of `get_variable` or `set_variable`.
pub(super) fn decode_variable(reply: &[u8]) -> Result<Result<Option<GuestValue>, RaisedOutcome>, DriverError> {
    match decode_report(reply)? {
        Report::Completed(value) => Ok(Ok(value)),
        Report::Raised(raised) | Report::Interrupted(raised) => Ok(Err(raised)),
        Report::Exited(_) => Err(unusable("an exit code instead of a variable")),
    }
}

/// Decodes the reply of `next_global`.
pub(super) fn decode_global(reply: &[u8]) -> Result<NextGlobal, DriverError> {
    let Some((kind, mut rest)) = reply.split_first() else { return Err(unusable("a global of unknown kind")) };
    if *kind == b'E' {
        return Ok(NextGlobal::Unreadable);
    }
    let name = field(&mut rest)?;
    let global = match kind {
        b'J' => GlobalJson::Text(field(&mut rest)?),
        b'N' => GlobalJson::Refused(field(&mut rest)?),
        b'L' => GlobalJson::TooLong,
        _ => return Err(unusable("a global of unknown kind")),
    };
    Ok(NextGlobal::Global(name, global))
}

fn raised(rest: &mut &[u8]) -> Result<RaisedOutcome, DriverError> {
    Ok(RaisedOutcome {
        type_name: field(rest)?,
        message: field(rest)?,
        traceback: field(rest)?,
        line: field(rest)?.parse().ok().filter(|line| *line > 0),
    })
}

fn value(rest: &mut &[u8]) -> Result<GuestValue, DriverError> {
    // An empty field means that there is no JSON.
    Ok(GuestValue { repr: field(rest)?, json: Some(field(rest)?).filter(|json| !json.is_empty()) })
}

/// Decodes the reply of `validate`.
pub(super) fn decode_diagnostic(reply: &[u8]) -> Result<Diagnostic, DriverError> {
    let Some((b'D', mut rest)) = reply.split_first() else {
        return Err(unusable("a diagnostic of unknown kind"));
    };
    let mut position = || -> Result<u32, DriverError> { Ok(field(&mut rest)?.parse().unwrap_or(1).max(1)) };
    Ok(Diagnostic { line: position()?, column: position()?, message: field(&mut rest)? })
}

/// The reply of `settle`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SettledImage {
    /// The address of numpy's generator, followed by the first words of its state. Empty without numpy.
    pub(super) generator: Vec<u32>,
    /// The addresses of objects whose reference counts every execution would change.
    pub(super) shared: Vec<u32>,
}

/// Decodes the reply of `settle`.
pub(super) fn decode_settled(reply: &[u8]) -> Result<SettledImage, DriverError> {
    match fields(reply)?.as_slice() {
        [generator, shared] => Ok(SettledImage { generator: numbers(generator)?, shared: numbers(shared)? }),
        _ => Err(unusable("an unexpected number of fields")),
    }
}

fn numbers(field: &[u8]) -> Result<Vec<u32>, DriverError> {
    let text = String::from_utf8_lossy(field);
    text.split_whitespace().map(|word| word.parse().map_err(|_| unusable("a malformed number"))).collect()
}

/// Returns all fields of a reply, undecoded.
pub(super) fn fields(mut rest: &[u8]) -> Result<Vec<&[u8]>, DriverError> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        fields.push(bytes(&mut rest)?);
    }
    Ok(fields)
}

fn field(rest: &mut &[u8]) -> Result<String, DriverError> {
    Ok(String::from_utf8_lossy(bytes(rest)?).into_owned())
}

fn bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], DriverError> {
    let (length, after) = rest.split_first_chunk().ok_or_else(|| unusable("a truncated report"))?;
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (field, after) = after.split_at_checked(length).ok_or_else(|| unusable("a truncated report"))?;
    *rest = after;
    Ok(field)
}

fn unusable(what: &str) -> DriverError {
    DriverError::Report(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framed_report_is_decoded() {
        let mut reply = b"R".to_vec();
        reply.extend(framed(["ValueError", "é\0", "Traceback", "12"]));
        let Report::Raised(raised) = decode_report(&reply).unwrap() else { panic!("not raised") };
        let interrupted = [b"I", reply.get(1..).unwrap()].concat();
        assert_eq!(decode_report(&interrupted).unwrap(), Report::Interrupted(raised.clone()));
        assert_eq!((raised.type_name.as_str(), raised.message.as_str()), ("ValueError", "é\0"));
        assert_eq!((raised.traceback.as_str(), raised.line), ("Traceback", Some(12)));
    }

    #[test]
    fn framed_value_is_decoded_with_and_without_json() {
        for (json, expected) in [("[1]", Some("[1]".to_owned())), ("", None)] {
            let reply = [b"V".as_slice(), &framed(["[1]", json])].concat();
            let value = GuestValue { repr: "[1]".to_owned(), json: expected };
            assert_eq!(decode_report(&reply).unwrap(), Report::Completed(Some(value.clone())));
            assert_eq!(decode_variable(&reply).unwrap(), Ok(Some(value)));
        }
    }

    #[test]
    fn exit_or_diagnostic_is_rejected_as_variable_reply() {
        let exit = [b"X".as_slice(), &framed(["3"])].concat();
        let diagnostic = [b"D".as_slice(), &framed(["1", "1", "x"])].concat();
        for reply in [exit, diagnostic] {
            assert!(decode_variable(&reply).is_err());
        }
    }

    #[test]
    fn framed_global_is_decoded_with_and_without_json() {
        for (kind, more, global) in [
            (b"J", Some("[1]"), GlobalJson::Text("[1]".to_owned())),
            (b"N", Some("why"), GlobalJson::Refused("why".to_owned())),
            (b"L", None, GlobalJson::TooLong),
        ] {
            let whole = [kind.as_slice(), &framed(["x"].into_iter().chain(more))].concat();
            assert_eq!(decode_global(&whole).unwrap(), NextGlobal::Global("x".to_owned(), global));
            for end in 0..whole.len() {
                assert!(decode_global(whole.get(..end).unwrap()).is_err(), "{end}");
            }
        }
        assert_eq!(decode_global(b"E").unwrap(), NextGlobal::Unreadable);
        assert!(decode_global(b"Q\x01\0\0\0x").is_err());
    }

    #[test]
    fn settled_image_is_decoded_with_and_without_numpy() {
        let expected = SettledImage { generator: vec![16, 7, 8], shared: vec![32, 48] };
        assert_eq!(decode_settled(&framed(["16 7 8", "32 48"])).unwrap(), expected);
        assert!(decode_settled(&framed(["", "32"])).unwrap().generator.is_empty());
        for wrong in [framed(["1"]), framed(["1", "x"]), framed(["1", "2", "3"]), Vec::new()] {
            assert!(decode_settled(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn unknown_line_decodes_to_none() {
        let mut reply = b"R".to_vec();
        reply.extend(framed(["E", "", "", "0"]));
        let Report::Raised(raised) = decode_report(&reply).unwrap() else { panic!("not raised") };
        assert_eq!(raised.line, None);
    }

    #[test]
    fn exit_codes_are_32_bits_wide() {
        for (text, code) in [("0", 0), ("-1", -1), ("2147483647", i32::MAX), ("-2147483648", i32::MIN)] {
            let reply = [b"X".as_slice(), &framed([text])].concat();
            assert_eq!(decode_report(&reply).unwrap(), Report::Exited(code));
        }
        let reply = [b"X".as_slice(), &framed(["2147483648"])].concat();
        assert!(decode_report(&reply).is_err());
    }

    #[test]
    fn length_beyond_the_reply_is_rejected_without_allocating() {
        for reply in [
            b"R\xff\xff\xff\xff".as_slice(),
            b"R\x05\0\0\0abcd",
            b"R\0\0\0",
            b"V\0\0\0\0",
            b"X",
            b"",
            b"Q\0\0\0\0",
            b"\0",
        ] {
            assert!(decode_report(reply).is_err(), "{reply:?}");
            assert!(decode_diagnostic(reply).is_err(), "{reply:?}");
        }
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let reply = b"R\x01\0\0\0\xff\0\0\0\0\0\0\0\0\x01\0\0\0x";
        let Report::Raised(raised) = decode_report(reply).unwrap() else { panic!("not raised") };
        assert_eq!((raised.type_name.as_str(), raised.line), ("\u{fffd}", None));
    }

    #[test]
    fn truncated_reply_is_an_error() {
        let whole = [b"D".as_slice(), &framed(["3", "0", "SyntaxError: x"])].concat();
        let diagnostic = decode_diagnostic(&whole).unwrap();
        assert_eq!((diagnostic.line, diagnostic.column), (3, 1));
        for end in 0..whole.len() {
            assert!(decode_diagnostic(whole.get(..end).unwrap()).is_err(), "{end}");
        }
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            let mut reply = Vec::new();
            for _ in 0..(state % 40) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Half of the bytes are small, so that lengths often fit.
                let byte = u8::try_from(state >> 56).unwrap_or(0);
                reply.push(if state & 1 == 0 { byte % 6 } else { byte });
            }
            state = state.wrapping_add(0x1234_5678_9abc_def1);
            for kind in [b'I', b'R', b'X', b'D', b'V'] {
                let reply = [&[kind], reply.as_slice()].concat();
                let _ = (decode_report(&reply), decode_diagnostic(&reply), decode_variable(&reply));
            }
        }
    }
}
