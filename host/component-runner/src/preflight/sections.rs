//! The first check of a component, which reads only the headers of sections.
//!
//! Two structures make validation of a small file far too expensive. At the end of each nested module or component, the
//! validator copies a list of everything before: 240 KB with 20,000 of them took half a minute and 8 GB. And component
//! and instance types are read recursively, three bytes per level: 300 KB overflowed the stack, which ends the process.

use super::{MAX_PARTS, MAX_TYPES, Refusal};

/// Length of the header of a module or component.
const PREAMBLE_BYTES: usize = 8;

/// Section IDs of a component (component-model, `Binary.md`).
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;
const TYPE: u8 = 7;

/// First bytes of a nested type: the kind of its declaration, and its own kind.
const TYPE_WITHIN: [[u8; 2]; 2] = [[0x01, 0x41], [0x01, 0x42]];

/// Counts parts and nested types. Malformed input ends the count without an error: Wasmtime stops there, too, and
/// reports the reason.
///
/// The sections of a nested component have the same format as those of the outermost, so the check needs no state for
/// enclosing components.
pub(super) fn check(component: &[u8]) -> Result<(), Refusal> {
    let mut parts = 0;
    let mut rest = component.get(PREAMBLE_BYTES..).unwrap_or_default();
    while let Some((section, content, after)) = next(rest) {
        if matches!(section, CORE_MODULE | COMPONENT) {
            parts += 1;
            if parts > MAX_PARTS {
                return Err(Refusal::Parts);
            }
        }
        if section == TYPE
            && content.windows(2).filter(|pair| TYPE_WITHIN.iter().any(|begin| pair == begin)).count() > MAX_TYPES
        {
            return Err(Refusal::Types);
        }
        rest = after;
    }
    Ok(())
}

/// Returns the next section, its contents, and the remaining bytes. For a nested component, the remaining bytes begin
/// with its first section.
fn next(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (section, mut rest) = bytes.split_first()?;
    let mut len: u64 = 0;
    for shift in (0..5).map(|byte| 7 * byte) {
        let (byte, after) = rest.split_first()?;
        rest = after;
        len |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let (content, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    let after = if *section == COMPONENT { rest.get(PREAMBLE_BYTES..)? } else { after };
    Some((*section, content, after))
}

#[cfg(test)]
mod tests {
    use super::{COMPONENT, CORE_MODULE, MAX_PARTS, MAX_TYPES, Refusal, TYPE, check};

    const MODULE: [u8; 8] = *b"\0asm\x01\0\0\0";
    const BEGIN: [u8; 8] = *b"\0asm\x0d\0\x01\0";

    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![id];
        let mut left = content.len();
        while left >= 0x80 {
            bytes.push(u8::try_from(left & 0x7f).unwrap() | 0x80);
            left >>= 7;
        }
        bytes.push(u8::try_from(left).unwrap());
        bytes.extend_from_slice(content);
        bytes
    }

    fn component(sections: &[Vec<u8>]) -> Vec<u8> {
        [BEGIN.to_vec(), sections.concat()].concat()
    }

    #[test]
    fn parts_are_counted_at_every_depth_under_at_and_over_the_limit() {
        let side_by_side = |count| component(&vec![section(CORE_MODULE, &MODULE); count]);
        let nested = |count| (0..count).fold(component(&[]), |inner, _| component(&[section(COMPONENT, &inner)]));
        // A component with nine modules counts as ten parts.
        let both = |count: usize| component(&vec![section(COMPONENT, &side_by_side(9)); count / 10]);
        for (name, make) in
            [("nested", &nested as &dyn Fn(usize) -> Vec<u8>), ("beside", &side_by_side), ("both", &both)]
        {
            assert_eq!(check(&make(MAX_PARTS - 10)), Ok(()), "{name}");
            assert_eq!(check(&make(MAX_PARTS)), Ok(()), "{name}");
            assert_eq!(check(&make(MAX_PARTS + 10)), Err(Refusal::Parts), "{name}");
        }
        assert_eq!(check(&nested(MAX_PARTS + 1)), Err(Refusal::Parts));
        assert_eq!(check(&side_by_side(MAX_PARTS + 1)), Err(Refusal::Parts));
    }

    #[test]
    fn types_within_types_are_counted_under_at_and_over_the_limit() {
        for kind in [0x41, 0x42] {
            let types = |levels: usize| {
                let text = [[0x01].as_slice(), &[kind, 0x01, 0x01].repeat(levels), &[kind, 0x00]].concat();
                component(&[section(COMPONENT, &component(&[section(TYPE, &text)]))])
            };
            // The count is one too high: the first type follows the number of types, a byte that looks like a
            // declaration.
            assert_eq!(check(&types(MAX_TYPES - 2)), Ok(()));
            assert_eq!(check(&types(MAX_TYPES - 1)), Ok(()));
            assert_eq!(check(&types(MAX_TYPES)), Err(Refusal::Types));
        }
    }

    #[test]
    fn what_is_cut_off_is_left_to_wasmtime() {
        let whole = component(&[section(COMPONENT, &component(&[section(CORE_MODULE, &MODULE)])), section(TYPE, &[0])]);
        for len in 0..=whole.len() {
            assert_eq!(check(&whole[..len]), Ok(()), "{len} bytes");
        }
        for junk in [[0xff; 64].as_slice(), &[COMPONENT; 64], &[0; 64]] {
            assert_eq!(check(junk), Ok(()));
            assert_eq!(check(&[BEGIN.as_slice(), junk].concat()), Ok(()));
        }
    }
}
