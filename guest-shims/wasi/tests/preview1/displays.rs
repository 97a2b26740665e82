//! Tests of the displays device: retention and cost.

use glovebox_vfs::VfsLimits;
use glovebox_wasi::{DISPLAYS_DEVICE, Errno, MAX_DISPLAYS, Shown, WasiLimits, prices};

use crate::support::{ALL_RIGHTS, DATA, Guest, IOVS, OUT, call};

const ROOT: u32 = 4;

fn with_limits(limits: WasiLimits) -> (Guest, u32) {
    let mut guest = Guest::with(VfsLimits::default(), |config| {
        config.root_preopen = true;
        config.limits = limits;
    });
    let fd = guest.open_at(ROOT, DISPLAYS_DEVICE.trim_start_matches('/'), 0, ALL_RIGHTS, 0).unwrap();
    (guest, fd)
}

fn shown(guest: &mut Guest) -> Shown {
    guest.wasi.take_output().displays
}

#[test]
fn a_write_is_a_display_and_there_is_nothing_to_read() {
    let (mut guest, fd) = with_limits(WasiLimits::default());
    assert_eq!(guest.write(fd, b"one"), Ok(3));
    assert_eq!(guest.write(fd, b""), Ok(0), "no display");
    guest.put(DATA, b"twothree");
    let count = guest.iovs(&[(DATA, 3), (DATA, 0), (DATA + 3, 5)]);
    call!(guest, fd_write(fd, IOVS, count, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 8);
    assert_eq!(guest.read(fd, 100), Ok(Vec::new()));
    assert_eq!(call!(guest, fd_pwrite(fd, IOVS, count, 0, OUT)), Err(Errno::Spipe));
    assert_eq!(shown(&mut guest), Shown { messages: vec![b"one".to_vec(), b"twothree".to_vec()], dropped: 0 });
    assert_eq!(shown(&mut guest), Shown::default(), "taken");
    guest.write(fd, b"of an earlier execution").unwrap();
    guest.wasi.begin_execution();
    assert_eq!(shown(&mut guest), Shown::default());
}

#[test]
fn what_does_not_fit_is_dropped_with_all_after_it() {
    let (mut guest, fd) = with_limits(WasiLimits { display_bytes: 10, ..WasiLimits::default() });
    for (writes, held, dropped) in
        [(&[4, 5][..], 2, 0), (&[4, 6], 2, 0), (&[4, 7], 1, 1), (&[11, 1, 1], 0, 3), (&[10, 1], 1, 1)]
    {
        for length in writes {
            assert_eq!(guest.write(fd, &vec![b'x'; *length]), Ok(u32::try_from(*length).unwrap()));
        }
        let shown = shown(&mut guest);
        assert_eq!((shown.messages.len(), shown.dropped), (held, dropped), "{writes:?}");
    }
}

#[test]
fn no_more_are_retained_than_their_number() {
    for (count, dropped) in [(MAX_DISPLAYS - 1, 0), (MAX_DISPLAYS, 0), (MAX_DISPLAYS + 1, 1)] {
        let (mut guest, fd) = with_limits(WasiLimits::default());
        for _ in 0..count {
            guest.write(fd, b"x").unwrap();
        }
        let shown = shown(&mut guest);
        assert_eq!((shown.messages.len(), shown.dropped), (count.min(MAX_DISPLAYS), dropped));
    }
}

#[test]
fn they_count_as_memory_and_are_paid_for() {
    let (mut guest, fd) = with_limits(WasiLimits::default());
    let (held, room) = (guest.wasi.host_bytes(), guest.wasi.room_bytes());
    let fuel = guest.host.fuel;
    guest.write(fd, &[b'x'; 1_000]).unwrap();
    let paid = fuel - guest.host.fuel;
    assert!(paid >= prices::DISPLAY + 2_000 * prices::BYTE, "{paid}");
    assert_eq!((guest.wasi.host_bytes() - held, room - guest.wasi.room_bytes()), (1_000, 1_000));
    guest.wasi.set_linear_memory_bytes(guest.wasi.limits().memory_bytes);
    guest.write(fd, b"x").unwrap();
    assert_eq!(shown(&mut guest).dropped, 1, "there is no room for it");
}
