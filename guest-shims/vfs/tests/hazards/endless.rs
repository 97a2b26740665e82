//! Few bytes that claim much content.

use glovebox_vfs::encoding::{Damaged, Encoder};
use glovebox_vfs::{RestoreError, VfsLimits};

use crate::saved::refused;
use crate::with_limits;

/// The previous target of a name: nothing, or a file.
const MADE: u8 = 0;
const TAKEN: u8 = 1;

/// Returns a journal of one root that claims more names than can exist, and ends after these.
fn journal(names: &[u8]) -> Vec<u8> {
    let mut to = Encoder::new();
    to.byte(1);
    to.fixed(0);
    to.number(50);
    to.number(1);
    to.byte(0);
    to.number(1);
    to.number(u64::MAX);
    to.number(1);
    to.number(u64::MAX);
    for (number, was) in names.iter().enumerate() {
        to.text(&format!("{number:04}"));
        to.byte(*was);
        if *was != MADE {
            to.number(9);
            to.byte(0);
        }
    }
    to.finish()
}

fn why(names: &[u8], bytes: u64, available_bytes: u64) -> RestoreError {
    let (mut vfs, ..) = with_limits(VfsLimits { bytes, ..VfsLimits::default() });
    vfs.set_available_bytes(available_bytes);
    refused(&mut vfs, &journal(names), &[])
}

#[test]
fn a_journal_is_not_read_beyond_what_its_names_may_cost() {
    // A decoder that continues reaches the end.
    let read = RestoreError::Damaged(Damaged("it ends too early"));
    // Each created name is charged its length and 256 bytes, each removed name its length and 160 bytes.
    for (was, charge) in [(MADE, 260), (TAKEN, 164)] {
        let most = 100 * charge;
        assert_eq!(why(&[was; 99], u64::MAX, most), read);
        assert_eq!(why(&[was; 100], u64::MAX, most), read);
        assert_eq!(why(&[was; 101], u64::MAX, most), RestoreError::Limit("memory"));
        // A deletion must always be possible, so it has no quota.
        let over = if was == MADE { RestoreError::Limit("bytes") } else { read.clone() };
        assert_eq!(why(&[was; 100], most, u64::MAX), read);
        assert_eq!(why(&[was; 101], most, u64::MAX), over);
    }
    assert_eq!(why(&[TAKEN, MADE], u64::MAX, 424), read, "they share the memory");
    assert_eq!(why(&[TAKEN, MADE], u64::MAX, 423), RestoreError::Limit("memory"));
}
