//! Resumes forged hibernated sessions.

use std::sync::OnceLock;

use glovebox::{HibernateOptions, HibernatedInfo, Language, ResumeError, ResumeOptions, Sandbox};
use sha2::{Digest as _, Sha256};

use super::Bytes;
use crate::sandbox;

const PRELUDE_BYTES: usize = 16;
pub(super) const SEAL_BYTES: usize = 32;

/// Resumes a session from arbitrary bytes. The result must be a meaningful error, or a session that obeys its policy.
///
/// The first byte selects the kind of forgery: unchanged bytes; bytes with a matching checksum; or the decompressed
/// body of a real session, overwritten with the remaining input.
pub fn hibernated(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else { return };
    let forged = match mode % 3 {
        0 => rest.to_vec(),
        1 => sealed(rest),
        _ => forged(real(), rest),
    };
    let _ = HibernatedInfo::read(&forged);
    match base().0.resume(&forged, ResumeOptions::default()) {
        Ok(session) => {
            // The resumed session may contain any state, but its limits apply.
            match session.execute("1") {
                Ok(execution) => assert!(execution.fuel_consumed <= base().0.policy().limits.fuel),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
            assert!(session.info().memory_bytes <= base().0.policy().limits.memory_bytes);
        }
        // Without a key, an invalid session must never be reported as unauthenticated.
        Err(ResumeError::NotAuthentic | ResumeError::Unauthenticated) => panic!("there is no key"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Returns a sandbox with small limits, and the bytes of a session from it.
fn base() -> &'static (Sandbox, Vec<u8>) {
    static BASE: OnceLock<(Sandbox, Vec<u8>)> = OnceLock::new();
    BASE.get_or_init(|| {
        let sandbox = sandbox(Language::JavaScript, |policy| {
            policy.limits.fuel = 3_000_000;
            policy.limits.memory_bytes = 16 << 20;
            policy.limits.workspace_bytes = 1 << 20;
        });
        let session = sandbox.session().expect("a session can be opened");
        let source = "const f = std.open('f', 'w'); f.puts('x'.repeat(100)); os.mkdir('d')";
        let execution = session.execute(source).expect("the script can be executed");
        assert!(execution.is_success(), "{:?} {}", execution.outcome, execution.stderr.text());
        let bytes = session.hibernate(&HibernateOptions::default()).expect("the session can be hibernated");
        (sandbox, bytes)
    })
}

/// Returns a real session's bytes.
fn real() -> &'static [u8] {
    &base().1
}

/// Replaces the last 32 bytes with a matching checksum.
pub(super) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes[..bytes.len().saturating_sub(SEAL_BYTES)].to_vec();
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    bytes
}

/// Applies `edits` to the body of a hibernated session, then compresses and seals the body again.
pub fn forged(real: &[u8], edits: &[u8]) -> Vec<u8> {
    let header_bytes = u32::from_le_bytes(real[12..PRELUDE_BYTES].try_into().expect("the range has four bytes"));
    let body_at = PRELUDE_BYTES + usize::try_from(header_bytes).expect("the header is small");
    let mut body = zstd::decode_all(&real[body_at..real.len() - SEAL_BYTES]).expect("the body is a zstd frame");
    let mut edits = Bytes(edits);
    while !edits.is_empty() {
        // The beginning and the end of the body are parsed; memory pages are between them.
        let near = edits.number(1 << 12);
        let length = body.len();
        let at = match edits.below(3) {
            0 => usize::try_from(near).unwrap_or(usize::MAX) % length,
            1 => length - 1 - usize::try_from(near).unwrap_or(usize::MAX) % length,
            _ => usize::try_from(near.wrapping_mul(0x9E37_79B9_7F4A_7C15)).unwrap_or(0) % length,
        };
        let run = edits.run(9);
        match edits.below(4) {
            0 => body[at] ^= edits.byte(),
            1 => drop(body.splice(at..at, run.iter().copied())),
            2 if length > 64 => drop(body.drain(at..(at + run.len()).min(length))),
            _ => body.iter_mut().skip(at).zip(run).for_each(|(byte, new)| *byte = *new),
        }
    }
    let mut bytes = real[..body_at].to_vec();
    bytes.extend(zstd::encode_all(&*body, 1).expect("the body can be compressed"));
    bytes.extend([0; SEAL_BYTES]);
    sealed(&bytes)
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let whole = |mode: u8| [&[mode], real()].concat();
    vec![
        whole(0),
        whole(1),
        vec![2],
        vec![2, 1, 0, 3, 1, 2, 3, 0],
        vec![2, 9, 1, 8, 255, 255, 255, 255, 255, 255, 255, 255, 3],
    ]
}
