//! Tests of saving after random calls, and of restoring modified bytes.

use glovebox_vfs::encoding::{Damaged, Encoder};
use glovebox_wasi::RestoreError;

use crate::hostile::{FUNCTIONS, MEMORY, Random, hostile_guest, refill, scribble};
use crate::support::Guest;

/// Makes random calls and returns the answers.
fn run(guest: &mut Guest, random: &mut Random, count: u32) -> Vec<String> {
    let mut answers = Vec::new();
    for round in 0..count {
        if round % 200 == 0 {
            scribble(&mut guest.host, random);
        }
        if round % 50 == 0 {
            refill(guest);
        }
        let index = usize::try_from(random.below(u64::try_from(FUNCTIONS.len()).unwrap())).unwrap();
        let (name, function) = FUNCTIONS[index];
        answers.push(format!("{name}: {:?}", function(guest, random)));
        let held = guest.wasi.host_bytes() + u64::from(MEMORY);
        assert!(held <= 2_000_000, "{name}: {held} bytes");
    }
    answers
}

fn fork_host(guest: &Guest) -> Guest {
    let mut fork = hostile_guest();
    fork.host.memory.clone_from(&guest.host.memory);
    fork.host.replies.clone_from(&guest.host.replies);
    fork
}

#[test]
fn a_guest_cannot_tell_that_it_was_put_down() {
    for seed in 1..=30_u64 {
        println!("seed {seed}");
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut guest = hostile_guest();
        for _ in 0..4 {
            let _ = run(&mut guest, &mut random, 700);
            guest.wasi.begin_execution();
            guest.wasi.vfs_mut().mark();
            let mut resumed = fork_host(&guest);
            let saved = guest.wasi.save();
            resumed.wasi.restore(&saved).unwrap();
            assert_eq!(resumed.wasi.save(), saved);
            assert_eq!(resumed.wasi.host_bytes(), guest.wasi.host_bytes() - guest.wasi.stdin_position());
            let state = random.0;
            let expected = run(&mut guest, &mut random, 700);
            assert_eq!(run(&mut resumed, &mut Random(state), 700), expected);
            assert!(resumed.host.memory == guest.host.memory);
            assert!(guest.host.messages.ends_with(&resumed.host.messages));
        }
    }
}

#[test]
fn bytes_that_nobody_saved_end_in_an_error_or_in_a_sound_state() {
    let (mut accepted, mut tried) = (0, 0);
    for seed in 1..=20_u64 {
        println!("seed {seed}");
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut guest = hostile_guest();
        let _ = run(&mut guest, &mut random, 600);
        let saved = guest.wasi.save();
        for len in (0..saved.len()).filter(|len| *len < 300 || random.below(40) == 0) {
            assert!(hostile_guest().wasi.restore(&saved[..len]).is_err(), "cut at {len}");
        }
        for _ in 0..400 {
            let mut bytes = saved.clone();
            for _ in 0..=random.below(3) {
                let at = usize::try_from(random.below(u64::try_from(bytes.len()).unwrap())).unwrap();
                match random.below(4) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => bytes[at] = random.pick(&[0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF]),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, random.pick(&[0, 1, 5, 0xFF])),
                }
            }
            tried += 1;
            let mut other = fork_host(&guest);
            if other.wasi.restore(&bytes).is_err() {
                continue;
            }
            accepted += 1;
            // Accepted state is saved again unchanged, and a guest can continue in it.
            let again = other.wasi.save();
            let mut third = fork_host(&guest);
            third.wasi.restore(&again).unwrap();
            assert_eq!(third.wasi.save(), again);
            assert_eq!(third.wasi.vfs().bytes_used(), other.wasi.vfs().bytes_used());
            let _ = run(&mut other, &mut random, 60);
        }
    }
    println!("{accepted} of {tried} accepted");
    assert!(accepted * 10 > tried, "mostly content was changed: {accepted} of {tried}");
}

/// Returns the beginning of a state that claims `count` mounts and ends after these.
fn mounts(count: u64, paths: &[String]) -> Vec<u8> {
    let mut to = Encoder::new();
    to.byte(1);
    to.number(count);
    for path in paths {
        to.text(path);
        to.number(0);
    }
    to.finish()
}

#[test]
fn of_other_mounts_no_more_is_read_than_is_shown() {
    let restore = |saved: &[u8]| hostile_guest().wasi.restore(saved).unwrap_err();
    let damaged = RestoreError::Damaged(Damaged("it ends too early"));
    let paths: Vec<String> = (0..8).map(|number| format!("/{number}")).collect();
    let quoted: Vec<String> = paths.iter().map(|path| format!("{path:?}")).collect();
    let shown = |saved: &[u8]| match restore(saved) {
        RestoreError::OtherMounts { saved, .. } => saved,
        other => panic!("{other}"),
    };
    let present = u64::try_from(hostile_guest().wasi.mounts().len()).unwrap();
    assert!(present < 7, "a guest of few mounts");
    assert_eq!(restore(&mounts(7, &paths[..6])), damaged);
    assert_eq!(shown(&mounts(7, &paths[..7])), quoted[..7].join(", "));
    assert_eq!(shown(&mounts(8, &paths)), quoted.join(", "));
    for count in [9, 44_000_000, u64::MAX] {
        assert_eq!(restore(&mounts(count, &paths[..7])), damaged, "{count}");
        assert_eq!(shown(&mounts(count, &paths)), format!("{}, …", quoted.join(", ")), "a ninth is not read: {count}");
    }
    // With the actual number of mounts, all are read, and none beyond.
    assert_eq!(restore(&mounts(present, &[])), damaged);
    assert!(!shown(&mounts(present, &paths[..usize::try_from(present).unwrap()])).contains('…'));
}

#[test]
fn a_path_of_another_mount_is_clipped_in_the_message() {
    // A character that is displayed as five.
    for (length, characters) in [(63, 63), (64, 64), (65, 64), (1 << 20, 64)] {
        let path = "\u{1}".repeat(length);
        let RestoreError::OtherMounts { saved, .. } =
            hostile_guest().wasi.restore(&mounts(8, &vec![path; 8])).unwrap_err()
        else {
            panic!("the mounts are others");
        };
        assert_eq!(saved.matches(r"\u{1}").count(), 8 * characters, "{length}");
        assert_eq!(saved.len(), 8 * (5 * characters + 2) + 7 * 2, "{length}");
    }
}
