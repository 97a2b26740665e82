//! Tests forged bytes of suspended executions with a matching checksum. The fuzz target `suspended` resumes random
//! forgeries.

use glovebox::{Language, Request, Suspended};
use glovebox_tests::{
    fixed,
    process::{in_child, peak_resident_bytes},
};
use sha2::{Digest as _, Sha256};

use super::{LONG, answer, needs, stepped};

/// The size of the parts before the body, in bytes.
const HEAD_BYTES: usize = 12;
const SEAL_BYTES: usize = 32;

/// Returns the bytes of an execution that has received an answer, and waits for another one.
fn suspended() -> Vec<u8> {
    let sandbox = stepped(Language::JavaScript, &[], fixed);
    let source = "print(await tools.ask({q: 1}), Math.random()); print(await tools.ask({q: 2}))";
    let started = sandbox.start(Request::new(source).stdin(b"in").suspendable(true)).unwrap();
    let calls = needs(&started, Vec::new());
    needs(&started, vec![answer(&calls[0], "one")]);
    started.suspend().unwrap().to_bytes(None)
}

/// Appends a matching checksum to a head and a body.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    bytes
}

#[test]
fn incomplete_bytes_with_a_checksum_are_rejected() {
    let real = suspended();
    let end = real.len() - SEAL_BYTES;
    assert_eq!(sealed(real[..end].to_vec()), real);
    for at in 0..end {
        assert!(Suspended::from_bytes(&sealed(real[..at].to_vec()), None).is_err(), "{at}");
    }
    assert!(Suspended::from_bytes(&sealed([&real[..end], b"more"].concat()), None).is_err());
}

/// A length in the bytes can claim gigabytes, so no memory may be reserved for it in advance.
#[test]
fn claimed_lengths_reserve_no_memory() {
    const GROWN_BYTES: u64 = 32 << 20;
    if !in_child("stepping::suspended_bytes::claimed_lengths_reserve_no_memory", LONG) {
        return;
    }
    let real = suspended();
    let end = real.len() - SEAL_BYTES;
    let before = peak_resident_bytes();
    for length in [1 << 20, 1 << 26, 1 << 32, u64::MAX] {
        for at in HEAD_BYTES..end {
            let forged = sealed([&real[..at], &varint(length), &real[at + 1..end]].concat());
            // If the position is inside a string, the forged length may be valid content.
            let is_valid = Suspended::from_bytes(&forged, None).is_ok();
            assert!(Suspended::peek(&forged).is_some() || !is_valid, "{length} {at}");
        }
    }
    let grown = peak_resident_bytes() - before;
    assert!(grown < GROWN_BYTES, "{grown} bytes");
}

/// Encodes a length as the format does: seven bits in each byte, least significant bits first.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}
