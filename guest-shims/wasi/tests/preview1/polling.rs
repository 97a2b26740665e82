use glovebox_wasi::{Clock, Errno, Stop, prices};

use crate::support::{CREAT, DATA, Guest, OUT, call};

const SUBSCRIPTIONS: u32 = 0x20000;
const EVENTS: u32 = 0x40000;

fn clock(userdata: u64, id: u32, timeout: u64, flags: u16) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[0..8].copy_from_slice(&userdata.to_le_bytes());
    bytes[16..20].copy_from_slice(&id.to_le_bytes());
    bytes[24..32].copy_from_slice(&timeout.to_le_bytes());
    bytes[40..42].copy_from_slice(&flags.to_le_bytes());
    bytes
}

fn descriptor(userdata: u64, kind: u8, fd: u32) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[0..8].copy_from_slice(&userdata.to_le_bytes());
    bytes[8] = kind;
    bytes[16..20].copy_from_slice(&fd.to_le_bytes());
    bytes
}

/// `(userdata, errno, type, bytes, flags)` of each event.
type Event = (u64, u16, u8, u64, u16);

fn poll(guest: &mut Guest, subscriptions: &[Vec<u8>]) -> Result<Vec<Event>, Errno> {
    guest.put(SUBSCRIPTIONS, &subscriptions.concat());
    let count = u32::try_from(subscriptions.len()).unwrap();
    call!(*guest, poll_oneoff(SUBSCRIPTIONS, EVENTS, count, OUT))?;
    let event = |at: u32| {
        let number = |at| u16::from_le_bytes(guest.get(at, 2).try_into().unwrap());
        (guest.u64_at(at), number(at + 8), guest.get(at + 10, 1)[0], guest.u64_at(at + 16), number(at + 24))
    };
    Ok((0..guest.u32_at(OUT)).map(|index| event(EVENTS + 32 * index)).collect())
}

#[test]
fn a_sleep_under_a_fixed_clock_is_over_at_once_and_moves_it() {
    let mut guest = Guest::new();
    guest.wasi.set_clock(Clock::Fixed { realtime_ns: 1_000, monotonic_ns: 50 });
    assert_eq!(poll(&mut guest, &[clock(7, 1, 300, 0)]), Ok(vec![(7, 0, 0, 0, 0)]));
    assert!(guest.host.slept.is_empty());
    assert_eq!(guest.wasi.monotonic_ns(&mut guest.host), 350);
    assert_eq!(guest.wasi.realtime_ns(&mut guest.host), 1_300);
    poll(&mut guest, &[clock(7, 0, u64::MAX, 0)]).unwrap();
    assert_eq!(guest.wasi.monotonic_ns(&mut guest.host), u64::MAX, "the end of time is no overflow");
}

#[test]
fn a_sleep_costs_the_same_under_both_clocks() {
    let mut charges = Vec::new();
    for source in [Clock::Host, Clock::Fixed { realtime_ns: 0, monotonic_ns: 0 }] {
        let mut guest = Guest::new();
        guest.wasi.set_clock(source);
        poll(&mut guest, &[clock(0, 1, 1_000, 0)]).unwrap();
        charges.push(guest.host.charged);
    }
    assert_eq!(charges[0], charges[1]);
    assert!(charges[0] >= prices::SLEEP);
}

#[test]
fn under_the_host_clock_the_host_waits_and_may_end_it() {
    let mut guest = Guest::new();
    guest.wasi.set_clock(Clock::Host);
    poll(&mut guest, &[clock(1, 1, 5_000, 0)]).unwrap();
    assert_eq!(guest.host.slept, [5_000]);
    guest.put(SUBSCRIPTIONS, &clock(1, 1, u64::MAX, 0));
    let stopped = guest.wasi.poll_oneoff(&mut guest.host, SUBSCRIPTIONS, EVENTS, 1, OUT);
    assert_eq!(stopped, Err(Stop::Deadline));
}

#[test]
fn absolute_times_count_from_their_own_clock() {
    let mut guest = Guest::new();
    guest.wasi.set_clock(Clock::Fixed { realtime_ns: 1_000, monotonic_ns: 50 });
    poll(&mut guest, &[clock(1, 1, 80, 1)]).unwrap();
    assert_eq!(guest.wasi.monotonic_ns(&mut guest.host), 80);
    poll(&mut guest, &[clock(1, 0, 1_100, 1)]).unwrap();
    assert_eq!(guest.wasi.realtime_ns(&mut guest.host), 1_100);
    assert_eq!(poll(&mut guest, &[clock(1, 0, 5, 1)]).unwrap().len(), 1, "the past has happened");
    assert_eq!(guest.wasi.realtime_ns(&mut guest.host), 1_100);
}

#[test]
fn the_earliest_clock_ends_the_wait_and_the_later_ones_do_not_happen() {
    let mut guest = Guest::new();
    let subscriptions = [clock(1, 1, 500, 0), clock(2, 1, 100, 0), clock(3, 0, 100, 0), clock(4, 1, 101, 0)];
    let happened: Vec<u64> = poll(&mut guest, &subscriptions).unwrap().iter().map(|event| event.0).collect();
    assert_eq!(happened, [2, 3]);
}

#[test]
fn descriptors_are_ready_and_nobody_waits_for_the_clock() {
    let mut guest = Guest::new();
    guest.wasi.set_stdin(b"abc".to_vec());
    guest.file("file", b"12345");
    let fd = guest.open("file", CREAT).unwrap();
    let subscriptions = [
        clock(1, 1, 1_000, 0),
        descriptor(2, 1, 0),
        descriptor(3, 2, 1),
        descriptor(4, 1, fd),
        descriptor(5, 2, fd),
        clock(7, 1, 0, 0),
    ];
    let events = poll(&mut guest, &subscriptions).unwrap();
    assert_eq!(events, [(2, 0, 1, 3, 0), (3, 0, 2, 1, 0), (4, 0, 1, 5, 0), (5, 0, 2, 1, 0), (7, 0, 0, 0, 0)]);
    assert_eq!(guest.wasi.monotonic_ns(&mut guest.host), 0);
    guest.read(0, 3).unwrap();
    assert_eq!(poll(&mut guest, &[descriptor(2, 1, 0)]).unwrap(), [(2, 0, 1, 0, 1)], "at the end: hang-up");
}

#[test]
fn errors_of_a_subscription_come_as_its_event() {
    let mut guest = Guest::new();
    let badf = Errno::Badf.code();
    let events = poll(
        &mut guest,
        &[descriptor(1, 1, 99), descriptor(2, 2, 0), descriptor(3, 1, 1), clock(4, 9, 0, 0), clock(5, 1, 0, 2)],
    );
    let errors: Vec<u16> = events.unwrap().iter().map(|event| event.1).collect();
    assert_eq!(errors, [badf, badf, badf, Errno::Inval.code(), Errno::Inval.code()]);
}

#[test]
fn subscriptions_under_at_and_over_their_limit() {
    let mut guest = Guest::new();
    for (count, expected) in [(1, true), (1023, true), (1024, true), (1025, false)] {
        let subscriptions = vec![clock(0, 1, 1, 0); count];
        let events = poll(&mut guest, &subscriptions);
        assert_eq!(events.map(|events| events.len()), if expected { Ok(count) } else { Err(Errno::Inval) });
    }
    assert_eq!(poll(&mut guest, &[]), Err(Errno::Inval));
    assert_eq!(poll(&mut guest, &[descriptor(0, 3, 0)]), Err(Errno::Inval));
}

#[test]
fn addresses_are_checked_before_anybody_waits() {
    let mut guest = Guest::new();
    guest.put(SUBSCRIPTIONS, &clock(0, 1, 1_000, 0));
    let end = u32::try_from(guest.host.memory.len()).unwrap();
    for (subscriptions, events, ready) in
        [(end - 47, DATA, OUT), (SUBSCRIPTIONS, end - 31, OUT), (SUBSCRIPTIONS, DATA, end - 3)]
    {
        assert_eq!(call!(guest, poll_oneoff(subscriptions, events, 1, ready)), Err(Errno::Fault));
    }
    assert_eq!(call!(guest, poll_oneoff(SUBSCRIPTIONS, DATA, u32::MAX, OUT)), Err(Errno::Inval));
    assert_eq!(guest.wasi.monotonic_ns(&mut guest.host), 0);
    // Events are written over the subscriptions that they come from.
    let two = [clock(1, 1, 5, 0), clock(2, 1, 5, 0)].concat();
    guest.put(SUBSCRIPTIONS, &two);
    call!(guest, poll_oneoff(SUBSCRIPTIONS, SUBSCRIPTIONS, 2, OUT)).unwrap();
    assert_eq!((guest.u64_at(SUBSCRIPTIONS), guest.u64_at(SUBSCRIPTIONS + 32)), (1, 2));
}
