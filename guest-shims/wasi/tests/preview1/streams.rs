use glovebox_vfs::VfsLimits;
use glovebox_wasi::{
    CapturedStream, Clock, Errno, PARK_FRAME, SecurityEvent, Stop, Stream, WasiLimits, prices, whole_characters,
};

use crate::support::{CREAT, DATA, Guest, IOVS, OUT, STAT, call};

fn with_limits(limits: WasiLimits) -> Guest {
    Guest::with(VfsLimits::default(), |config| config.limits = limits)
}

#[test]
fn standard_input_stays_at_its_end() {
    let mut guest = Guest::new();
    guest.wasi.set_stdin(b"hello".to_vec());
    assert_eq!(guest.read(0, 3).unwrap(), b"hel");
    assert_eq!(guest.wasi.stdin_position(), 3);
    let mut fork = Guest { wasi: guest.wasi.clone(), ..Guest::new() };
    assert_eq!(guest.read(0, 100).unwrap(), b"lo");
    assert_eq!(guest.read(0, 100).unwrap(), b"");
    assert_eq!(fork.read(0, 100).unwrap(), b"lo", "a fork continues at the position of the original");
    guest.wasi.set_stdin(b"again".to_vec());
    assert_eq!(guest.read(0, 100).unwrap(), b"again");
}

#[test]
fn streams_refuse_the_wrong_direction_and_positions() {
    let mut guest = Guest::new();
    assert_eq!(guest.write(0, b"x"), Err(Errno::Badf));
    assert_eq!(guest.read(1, 1), Err(Errno::Badf));
    for fd in 0..3 {
        let count = guest.iovs(&[(DATA, 1)]);
        assert_eq!(call!(guest, fd_seek(fd, 0, 1, OUT)), Err(Errno::Spipe));
        assert_eq!(call!(guest, fd_tell(fd, OUT)), Err(Errno::Spipe));
        assert_eq!(call!(guest, fd_pread(fd, IOVS, count, 0, OUT)), Err(Errno::Spipe));
        assert_eq!(call!(guest, fd_pwrite(fd, IOVS, count, 0, OUT)), Err(Errno::Spipe));
        assert_eq!(call!(guest, fd_advise(fd, 0, 0, 0)), Err(Errno::Spipe));
        assert_eq!(call!(guest, fd_allocate(fd, 0, 1)), Err(Errno::Spipe));
    }
    assert_eq!(call!(guest, fd_filestat_set_size(1, 0)), Err(Errno::Inval));
    assert_eq!(call!(guest, fd_filestat_set_times(1, 0, 0, 0)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_readdir(1, DATA, 100, 0, OUT)), Err(Errno::NotDir));
}

#[test]
fn streams_are_not_terminals() {
    let mut guest = Guest::new();
    for fd in 0..3 {
        call!(guest, fd_fdstat_get(fd, STAT)).unwrap();
        let (kind, rights) = (guest.get(STAT, 1)[0], guest.u64_at(STAT + 8));
        // wasi-libc's `isatty` looks for a character device without the rights to seek and tell.
        assert_ne!(kind, 2);
        assert_eq!(rights & (1 << 2 | 1 << 5), 0, "a stream is not seekable");
        call!(guest, fd_filestat_get(fd, STAT)).unwrap();
        assert_eq!(guest.get(STAT + 16, 1)[0], 0);
    }
}

#[test]
fn output_is_retained_streamed_and_counted_by_stream() {
    let mut guest = Guest::new();
    assert_eq!(guest.write(1, b"out"), Ok(3));
    assert_eq!(guest.write(2, b"error"), Ok(5));
    let count = guest.iovs(&[(DATA, 2), (DATA + 2, 0), (DATA + 2, 3)]);
    call!(guest, fd_write(1, IOVS, count, OUT)).unwrap();
    assert_eq!(guest.wasi.output(Stream::Stdout), b"outerror");
    assert_eq!(guest.wasi.output(Stream::Stderr), b"error");
    let streamed: Vec<u8> = guest.host.streamed.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    assert_eq!(streamed, b"outerrorerror");
    let output = guest.wasi.take_output();
    assert_eq!(output.stdout.total_bytes, 8);
    assert!(!output.stdout.truncated && !output.stderr.truncated);
    assert_eq!(guest.wasi.take_output().stdout, CapturedStream::default());
}

#[test]
fn output_is_limited_per_stream_and_execution() {
    for (len, held, truncated) in [(9, 9, false), (10, 10, false), (11, 10, true)] {
        let mut guest = with_limits(WasiLimits { stdout_bytes: 10, ..WasiLimits::default() });
        assert_eq!(guest.write(1, &vec![b'x'; len]), Ok(u32::try_from(len).unwrap()), "the write itself succeeds");
        let streamed: usize = guest.host.streamed.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(streamed, held, "only retained output is streamed");
        assert_eq!(guest.write(2, b"fine"), Ok(4), "the other stream has its own limit");
        let events = guest.wasi.take_events();
        let total_bytes = u64::try_from(len).unwrap();
        let expected = SecurityEvent::OutputTruncated { stream: Stream::Stdout, total_bytes };
        assert_eq!(events, if truncated { vec![expected] } else { vec![] });
        assert!(guest.wasi.take_events().is_empty());
        let stdout = guest.wasi.take_output().stdout;
        assert_eq!((stdout.bytes.len(), stdout.truncated, stdout.total_bytes), (held, truncated, total_bytes));

        guest.wasi.begin_execution();
        assert_eq!(guest.write(1, b"next"), Ok(4));
        assert_eq!(guest.wasi.take_output().stdout.text(), "next");
    }
}

#[test]
fn two_gigabytes_of_output_are_not_retained() {
    let mut guest = with_limits(WasiLimits { stdout_bytes: 1_000, ..WasiLimits::default() });
    let iovs = vec![(0, 1 << 20); 1024];
    let count = guest.iovs(&iovs);
    for _ in 0..2 {
        call!(guest, fd_write(1, IOVS, count, OUT)).unwrap();
    }
    assert!(guest.wasi.host_bytes() < 100_000, "{}", guest.wasi.host_bytes());
    assert!(guest.host.charged >= 1 << 30, "dropped output is charged as well");
    let stdout = guest.wasi.take_output().stdout;
    assert_eq!((stdout.bytes.len(), stdout.total_bytes), (1_000, 2 << 30));
}

#[test]
fn output_over_the_memory_limit_is_dropped() {
    let mut guest = with_limits(WasiLimits { memory_bytes: 5_000_000, ..WasiLimits::default() });
    guest.wasi.set_linear_memory_bytes(5_000_000 - 1_000 - guest.wasi.host_bytes());
    assert_eq!(guest.write(1, &[b'x'; 900]), Ok(900));
    assert_eq!(guest.write(1, &[b'x'; 900]), Ok(900));
    assert!(guest.wasi.room_bytes() <= 100);
    let stdout = guest.wasi.take_output().stdout;
    assert!(stdout.truncated && stdout.bytes.len() <= 1_000 && stdout.bytes.len() >= 900);
    assert_eq!(stdout.total_bytes, 1_800);
    assert_eq!(guest.write(1, b"room again"), Ok(10));
    assert_eq!(guest.wasi.output(Stream::Stdout), b"room again");
}

#[test]
fn output_is_truncated_between_characters() {
    for (bytes, whole) in [
        (&b"abc"[..], &b"abc"[..]),
        (b"", b""),
        ("aé".as_bytes(), "aé".as_bytes()),
        (b"a\xC3", b"a"),
        (b"a\xE2\x82", b"a"),
        (b"a\xE2", b"a"),
        ("a€".as_bytes(), "a€".as_bytes()),
        (b"a\xF0\x9F\x98", b"a"),
        ("😀".as_bytes(), "😀".as_bytes()),
        // Other invalid UTF-8 is returned unchanged.
        (b"a\xFF", b"a\xFF"),
        (b"\x80\x80\x80\x80", b"\x80\x80\x80\x80"),
    ] {
        assert_eq!(whole_characters(bytes), whole, "{bytes:?}");
    }
    let captured = CapturedStream { bytes: b"a\xE2\x82".to_vec(), total_bytes: 4, truncated: true };
    assert_eq!(captured.text(), "a");
    let damaged = CapturedStream { truncated: false, ..captured };
    assert_eq!(damaged.text(), "a\u{FFFD}", "an incomplete character that the guest wrote is replaced");
}

#[test]
fn closed_stream_number_is_reserved_until_reset() {
    let mut guest = Guest::new();
    call!(guest, fd_close(1)).unwrap();
    assert_eq!(guest.write(1, b"x"), Err(Errno::Badf));
    let fd = guest.open("file", CREAT).unwrap();
    assert!(fd > 3);
    call!(guest, fd_renumber(fd, 2)).unwrap();
    assert_eq!(guest.write(2, b"into the file"), Ok(13));
    call!(guest, fd_fdstat_set_rights(0, 0, 0)).unwrap();
    assert_eq!(guest.read(0, 1), Err(Errno::Badf));

    guest.wasi.begin_execution();
    assert_eq!(guest.write(1, b"one"), Ok(3));
    assert_eq!(guest.write(2, b"two"), Ok(3));
    assert_eq!(guest.read(0, 1).unwrap(), b"");
    assert_eq!(guest.content("file"), b"into the file");
    assert_eq!(guest.wasi.take_output().stderr.text(), "two");
}

#[test]
fn guest_parks_only_at_standard_input() {
    let mut guest = Guest::new();
    guest.write(2, PARK_FRAME).unwrap();
    assert_eq!(call!(guest, fd_fdstat_get(0, STAT)), Ok(()));
    assert_eq!(
        guest.wasi.take_output().stderr.bytes,
        PARK_FRAME,
        "the frame is ordinary output if parking is not allowed"
    );

    guest.wasi.allow_parking(true);
    guest.write(2, b"\0parx").unwrap();
    guest.write(1, PARK_FRAME).unwrap();
    assert_eq!(call!(guest, fd_fdstat_get(0, STAT)), Ok(()));
    guest.wasi.take_output();

    assert_eq!(guest.write(2, PARK_FRAME), Ok(5));
    assert_eq!(guest.wasi.take_output().stderr, CapturedStream::default());
    assert_eq!(call!(guest, fd_fdstat_get(1, STAT)), Ok(()));
    assert_eq!(guest.wasi.fd_fdstat_get(&mut guest.host, 0, STAT), Err(Stop::Parked));
    assert_eq!(call!(guest, fd_fdstat_get(0, STAT)), Ok(()), "once");

    guest.write(2, PARK_FRAME).unwrap();
    guest.wasi.begin_execution();
    assert_eq!(call!(guest, fd_fdstat_get(0, STAT)), Ok(()));
}

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

/// The fields `(userdata, errno, type, bytes, flags)` of an event.
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
fn sleep_under_a_fixed_clock_advances_it() {
    let mut guest = Guest::new();
    guest.wasi.set_clock(Clock::Fixed { realtime_ns: 1_000, monotonic_ns: 50 });
    assert_eq!(poll(&mut guest, &[clock(7, 1, 300, 0)]), Ok(vec![(7, 0, 0, 0, 0)]));
    assert!(guest.host.slept.is_empty());
    assert_eq!(guest.wasi.monotonic_ns(&mut guest.host), 350);
    assert_eq!(guest.wasi.realtime_ns(&mut guest.host), 1_300);
    poll(&mut guest, &[clock(7, 0, u64::MAX, 0)]).unwrap();
    assert_eq!(guest.wasi.monotonic_ns(&mut guest.host), u64::MAX, "the clock saturates");
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
fn host_waits_and_may_interrupt_under_the_host_clock() {
    let mut guest = Guest::new();
    guest.wasi.set_clock(Clock::Host);
    poll(&mut guest, &[clock(1, 1, 5_000, 0)]).unwrap();
    assert_eq!(guest.host.slept, [5_000]);
    guest.put(SUBSCRIPTIONS, &clock(1, 1, u64::MAX, 0));
    let stopped = guest.wasi.poll_oneoff(&mut guest.host, SUBSCRIPTIONS, EVENTS, 1, OUT);
    assert_eq!(stopped, Err(Stop::Deadline));
}

#[test]
fn absolute_timeouts_use_their_own_clock() {
    let mut guest = Guest::new();
    guest.wasi.set_clock(Clock::Fixed { realtime_ns: 1_000, monotonic_ns: 50 });
    poll(&mut guest, &[clock(1, 1, 80, 1)]).unwrap();
    assert_eq!(guest.wasi.monotonic_ns(&mut guest.host), 80);
    poll(&mut guest, &[clock(1, 0, 1_100, 1)]).unwrap();
    assert_eq!(guest.wasi.realtime_ns(&mut guest.host), 1_100);
    assert_eq!(poll(&mut guest, &[clock(1, 0, 5, 1)]).unwrap().len(), 1, "a time in the past is due immediately");
    assert_eq!(guest.wasi.realtime_ns(&mut guest.host), 1_100);
}

#[test]
fn earliest_clock_subscription_ends_the_wait() {
    let mut guest = Guest::new();
    let subscriptions = [clock(1, 1, 500, 0), clock(2, 1, 100, 0), clock(3, 0, 100, 0), clock(4, 1, 101, 0)];
    let happened: Vec<u64> = poll(&mut guest, &subscriptions).unwrap().iter().map(|event| event.0).collect();
    assert_eq!(happened, [2, 3]);
}

#[test]
fn ready_descriptors_end_the_wait_at_once() {
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
fn subscription_errors_are_returned_as_events() {
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
fn number_of_subscriptions_is_limited() {
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
fn poll_checks_addresses_before_waiting() {
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
    // Events overwrite the subscriptions that they belong to.
    let two = [clock(1, 1, 5, 0), clock(2, 1, 5, 0)].concat();
    guest.put(SUBSCRIPTIONS, &two);
    call!(guest, poll_oneoff(SUBSCRIPTIONS, SUBSCRIPTIONS, 2, OUT)).unwrap();
    assert_eq!((guest.u64_at(SUBSCRIPTIONS), guest.u64_at(SUBSCRIPTIONS + 32)), (1, 2));
}
