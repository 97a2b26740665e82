//! Tests of the seal: damage is detected, and with a key a forgery is rejected before decompression.

use super::super::{
    decode::{reseal, seal, unseal},
    header::HibernatedInfo,
};
use super::*;

fn key(byte: u8) -> SessionKey {
    SessionKey::new(&[byte; 32]).unwrap()
}

#[test]
fn keys_have_a_length_that_makes_them_strong() {
    for (bytes, fits) in [(0, false), (31, false), (32, true), (64, true), (65, false)] {
        assert_eq!(SessionKey::new(&vec![1; bytes]).is_ok(), fits, "{bytes}");
    }
    assert_eq!(format!("{:?}", key(1)), "SessionKey(..)");
}

#[test]
fn the_code_is_hmac_sha256() {
    let sample = Sample::new();
    let bytes = sample.encode(&sample.saved(&[]), Some(&key(b'k')), "");
    let (sealed, trailer) = bytes.split_at(bytes.len() - 32);
    let by_hand = hmac_by_hand(&[b'k'; 32], &[&0_u64.to_le_bytes()[..], sealed].concat());
    assert_eq!(trailer, by_hand);
}

/// HMAC-SHA-256 (RFC 2104), written out.
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
fn only_the_key_that_sealed_opens() {
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
fn a_stripped_seal_is_no_seal() {
    // An attacker without the key replaces the trailer of sealed bytes.
    let sample = Sample::new();
    let mut bytes = sample.encode(&sample.saved(&[3]), Some(&key(1)), "");
    bytes[10] = 1;
    forge_checksum(&mut bytes);
    let error = sample.open(&bytes, Some(&key(1)), "").unwrap_err();
    assert!(matches!(error, ResumeError::Unauthenticated), "{error}");
}

/// Recomputes the plain seal of changed bytes.
pub(super) fn forge_checksum(bytes: &mut Vec<u8>) {
    use sha2::{Digest as _, Sha256};
    bytes.truncate(bytes.len() - 32);
    let digest = Sha256::digest(&*bytes);
    bytes.extend_from_slice(&digest);
}

#[test]
fn sealed_anew_for_another_name() {
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
fn every_damaged_byte_and_every_cut_is_found() {
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
fn what_it_is_can_be_read_without_opening_it() {
    let sample = Sample::new();
    let saved = sample.saved(&[2, 3]);
    let info = HibernatedInfo::read(&sample.encode(&saved, Some(&key(1)), "one")).unwrap();
    assert_eq!((info.image_sha256.as_str(), info.runtime.as_str()), (IDENTITY, "python-3.12"));
    assert_eq!((info.version.as_deref(), info.language), (Some("3.12.0"), Language::Python));
    assert_eq!((info.executions, info.memory_bytes, info.page_count), (12, 192 << 10, 2));
    assert_eq!(info.wasi_bytes, saved.wasi.len() as u64);
}

#[test]
fn other_bytes_are_told_apart() {
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
fn a_custom_binarys_path_is_not_told() {
    let sample = Sample { runtime: "/home/me/secret/python.wasm".into(), ..Sample::new() };
    let bytes = sample.encode(&sample.saved(&[]), None, "");
    assert_eq!(HibernatedInfo::read(&bytes).unwrap().runtime, "custom");
}

#[test]
fn a_seal_is_put_on_and_taken_off_without_unpacking() {
    let sample = Sample::new();
    let saved = sample.saved(&[3]);
    let plain = sample.encode(&saved, None, "");
    let sealed = seal(&plain, &key(1), "one").unwrap();
    assert_eq!(sealed, sample.encode(&saved, Some(&key(1)), "one"), "as if it had been written so");
    assert_eq!(unseal(&sealed, &key(1), "one").unwrap(), plain);
    assert!(matches!(seal(&sealed, &key(1), "one"), Err(ResumeError::KeyMissing)));
    assert!(matches!(unseal(&plain, &key(1), ""), Err(ResumeError::Unauthenticated)));
    assert!(matches!(unseal(&sealed, &key(2), "one"), Err(ResumeError::NotAuthentic)));
    assert!(matches!(unseal(&sealed, &key(1), ""), Err(ResumeError::NotAuthentic)));
}
