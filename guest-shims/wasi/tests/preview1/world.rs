use glovebox_wasi::{Clock, Entropy, Errno, Stop, StringError};

use crate::support::{DATA, Guest, OUT, call};

#[test]
fn arguments_arrive_with_their_zero_bytes_and_pointers() {
    let mut guest = Guest::new();
    guest.wasi.set_args(["python".to_owned(), "-c".to_owned(), "é".to_owned()]).unwrap();
    call!(guest, args_sizes_get(OUT, OUT + 4)).unwrap();
    assert_eq!((guest.u32_at(OUT), guest.u32_at(OUT + 4)), (3, 13));
    call!(guest, args_get(OUT, DATA)).unwrap();
    assert_eq!([guest.u32_at(OUT), guest.u32_at(OUT + 4), guest.u32_at(OUT + 8)], [DATA, DATA + 7, DATA + 10]);
    assert_eq!(guest.get(DATA, 13), b"python\0-c\0\xC3\xA9\0");
}

#[test]
fn arguments_outside_memory_are_a_fault_and_write_nothing() {
    let mut guest = Guest::new();
    guest.wasi.set_args(["python".to_owned()]).unwrap();
    assert_eq!(call!(guest, args_get(OUT, u32::MAX)), Err(Errno::Fault));
    assert_eq!(call!(guest, args_get(u32::MAX, OUT)), Err(Errno::Fault));
    assert_eq!(call!(guest, args_sizes_get(OUT, u32::MAX - 3)), Err(Errno::Fault));
    assert_eq!(guest.get(OUT, 8), [0; 8]);
}

#[test]
fn arguments_may_fill_memory_to_its_last_byte() {
    let mut guest = Guest::new();
    guest.wasi.set_args(["abc".to_owned()]).unwrap();
    let end = u32::try_from(guest.host.memory.len()).unwrap();
    assert_eq!(call!(guest, args_get(OUT, end - 4)), Ok(()));
    assert_eq!(call!(guest, args_get(OUT, end - 3)), Err(Errno::Fault));
}

#[test]
fn the_environment_arrives_as_name_equals_value() {
    let mut guest = Guest::new();
    guest.wasi.set_env([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "x=y".to_owned())]).unwrap();
    call!(guest, environ_sizes_get(OUT, OUT + 4)).unwrap();
    assert_eq!((guest.u32_at(OUT), guest.u32_at(OUT + 4)), (2, 10));
    call!(guest, environ_get(OUT, DATA)).unwrap();
    assert_eq!(guest.get(DATA, 10), b"A=1\0B=x=y\0");
}

#[test]
fn ambiguous_arguments_and_variables_are_rejected() {
    let mut guest = Guest::new();
    assert_eq!(guest.wasi.set_args(["a\0b".to_owned()]), Err(StringError::Nul("a\0b".to_owned())));
    for name in ["", "A=B"] {
        let refused = guest.wasi.set_env([(name.to_owned(), String::new())]);
        assert_eq!(refused, Err(StringError::Name(name.to_owned())));
    }
    assert!(guest.wasi.set_env([("A".to_owned(), "\0".to_owned())]).is_err());
}

#[test]
fn every_clock_has_a_resolution_and_others_are_invalid() {
    let mut guest = Guest::new();
    for id in 0..4 {
        call!(guest, clock_res_get(id, OUT)).unwrap();
        assert_eq!(guest.u64_at(OUT), 1);
        call!(guest, clock_time_get(id, 1, OUT)).unwrap();
    }
    assert_eq!(call!(guest, clock_res_get(4, OUT)), Err(Errno::Inval));
    assert_eq!(call!(guest, clock_time_get(u32::MAX, 0, OUT)), Err(Errno::Inval));
    assert_eq!(call!(guest, clock_time_get(0, 0, u32::MAX - 6)), Err(Errno::Fault));
    guest.wasi.set_clock(Clock::Host);
    call!(guest, clock_res_get(0, OUT)).unwrap();
    assert_eq!(guest.u64_at(OUT), 1_000);
}

fn times(guest: &mut Guest) -> (u64, u64) {
    call!(*guest, clock_time_get(0, 0, OUT)).unwrap();
    call!(*guest, clock_time_get(1, 0, OUT + 8)).unwrap();
    (guest.u64_at(OUT), guest.u64_at(OUT + 8))
}

#[test]
fn a_fixed_clock_stands_still() {
    let mut guest = Guest::new();
    guest.wasi.set_clock(Clock::Fixed { realtime_ns: 77, monotonic_ns: 5 });
    assert_eq!(times(&mut guest), (77, 5));
    assert_eq!(times(&mut guest), (77, 5));
}

#[test]
fn monotonic_clock_never_decreases_when_its_source_changes() {
    let mut guest = Guest::new();
    guest.wasi.set_clock(Clock::Fixed { realtime_ns: 77, monotonic_ns: 1_000_000 });
    guest.wasi.set_clock(Clock::Host);
    assert_eq!(times(&mut guest), (1_700_000_000_000_000_000, 1_005_000));
    guest.wasi.settle_clock(&mut guest.host);
    guest.wasi.set_clock(Clock::Fixed { realtime_ns: 0, monotonic_ns: 3 });
    assert_eq!(times(&mut guest), (0, 1_005_000));
}

#[test]
fn a_resumed_instance_continues_its_monotonic_clock() {
    let mut guest = Guest::new();
    guest.wasi.set_clock(Clock::Host);
    guest.host.monotonic_ns = 900;
    let mut saved = guest.wasi.clone();
    saved.settle_clock(&mut guest.host);
    guest.wasi = saved;
    guest.host.monotonic_ns = 0;
    assert_eq!(times(&mut guest).1, 900);
}

#[test]
fn seeded_bytes_repeat_and_continue_in_a_fork() {
    let mut guest = Guest::new();
    guest.wasi.set_entropy(Entropy::seeded(42));
    call!(guest, random_get(DATA, 100)).unwrap();
    let first = guest.get(DATA, 100);
    assert_ne!(first, [0; 100]);
    let mut fork = guest.wasi.clone();
    assert_eq!(fork.entropy_position(), Some(25));
    let (mut ours, mut theirs) = ([0; 40], [0; 40]);
    guest.wasi.fill_random(&mut guest.host, &mut ours);
    fork.fill_random(&mut guest.host, &mut theirs);
    assert_eq!(ours, theirs);

    guest.wasi.set_entropy(Entropy::seeded(42));
    call!(guest, random_get(DATA, 100)).unwrap();
    assert_eq!(guest.get(DATA, 100), first);
    guest.wasi.set_entropy(Entropy::seeded(42));
    guest.wasi.set_entropy_position(25);
    let mut again = [0; 40];
    guest.wasi.fill_random(&mut guest.host, &mut again);
    assert_eq!(again, ours);
    guest.wasi.set_entropy(Entropy::seeded(43));
    call!(guest, random_get(DATA, 100)).unwrap();
    assert_ne!(guest.get(DATA, 100), first);
}

#[test]
fn the_generator_is_chacha20_as_published() {
    // The key stream of a zero key, block 0 (draft-agl-tls-chacha20poly1305, test vector 1).
    let mut guest = Guest::new();
    guest.wasi.set_entropy(Entropy::Seeded([0; 32]));
    call!(guest, random_get(DATA, 8)).unwrap();
    assert_eq!(guest.get(DATA, 8), [0x76, 0xB8, 0xE0, 0xAD, 0xA0, 0xF1, 0x3D, 0x90]);
}

#[test]
fn host_entropy_comes_from_the_host() {
    let mut guest = Guest::new();
    guest.wasi.set_entropy(Entropy::Host);
    call!(guest, random_get(DATA, 3)).unwrap();
    assert_eq!(guest.get(DATA, 4), [0xA5, 0xA5, 0xA5, 0]);
    assert_eq!(guest.wasi.entropy_position(), None);
}

#[test]
fn random_bytes_cost_fuel() {
    let mut guest = Guest::new();
    guest.host.fuel = 100_000;
    let stopped = guest.wasi.random_get(&mut guest.host, 0, 1 << 20);
    assert_eq!(stopped, Err(Stop::OutOfFuel));
    // The call stopped before the chunk that it could not pay for.
    assert_eq!(guest.host.moved, 0);
    assert_eq!(call!(Guest::new(), random_get(DATA, u32::MAX)), Err(Errno::Fault));
}

#[test]
fn exiting_unwinds_with_the_code() {
    let mut guest = Guest::new();
    for (code, expected) in [(0, 0), (3, 3), (u32::MAX, -1)] {
        assert_eq!(guest.wasi.proc_exit(&mut guest.host, code), Err(Stop::Exit(expected)));
    }
}

#[test]
fn raising_signals_is_unsupported() {
    let mut guest = Guest::new();
    assert_eq!(call!(guest, proc_raise(6)), Err(Errno::NotSup));
    assert_eq!(call!(guest, proc_raise(31)), Err(Errno::Inval));
}

#[test]
fn yielding_succeeds_and_costs() {
    let mut guest = Guest::new();
    assert_eq!(call!(guest, sched_yield()), Ok(()));
    assert_eq!(guest.host.charged, glovebox_wasi::prices::CALL);
}

#[test]
fn sockets_are_unsupported() {
    let mut guest = Guest::new();
    for (fd, expected) in [(0, Errno::NotSock), (3, Errno::NotSock), (9, Errno::Badf)] {
        assert_eq!(call!(guest, sock_accept(fd, 0, OUT)), Err(expected));
        assert_eq!(call!(guest, sock_recv(fd, 0, 0, 0, OUT, OUT)), Err(expected));
        assert_eq!(call!(guest, sock_send(fd, 0, 0, 0, OUT)), Err(expected));
        assert_eq!(call!(guest, sock_shutdown(fd, 0)), Err(expected));
    }
}
