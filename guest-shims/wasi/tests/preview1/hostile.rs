//! Tests of arguments that no compiler would generate.

use glovebox_vfs::VfsLimits;
use glovebox_wasi::{Clock, Errno, SecurityEvent, Stop, WasiLimits, prices, wasi_preview1_functions};
use proptest::{
    collection,
    prelude::{Strategy, any, prop_oneof, proptest},
    prop_assert_eq,
};

use crate::support::{ALL_RIGHTS, APP, CREAT, FakeHost, Guest, IOVS, OTHER_PATH, OUT, PATH, READ, call};

/// A xorshift64* generator, which produces the same sequence on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let index = self.below(u64::try_from(from.len()).unwrap());
        from[usize::try_from(index).unwrap()]
    }
}

pub(crate) const MEMORY: u32 = 64 * 1024;

/// The address of region arrays. Results are stored at lower addresses.
const PIECES: u32 = 0x4000;
const TEXT: u32 = 0x8000;

/// A randomly generated argument. Its parameter name determines plausible values; some values are nonsense.
trait Argument: Sized {
    fn plausible(name: &str, random: &mut Random) -> Self;
    fn nonsense(random: &mut Random) -> Self;

    fn random(name: &str, random: &mut Random) -> Self {
        if random.below(12) == 0 { Self::nonsense(random) } else { Self::plausible(name, random) }
    }
}

impl Argument for u32 {
    fn plausible(name: &str, random: &mut Random) -> Self {
        let mut below = |limit: u64| u32::try_from(random.below(limit)).unwrap();
        match name {
            "old_fd" | "new_fd" => 3 + below(2),
            "fd" | "to" => [3, 4, below(10)][usize::try_from(below(3)).unwrap()],
            "iovs" | "subscriptions" => PIECES + below(u64::from(TEXT - PIECES)) / 48 * 48,
            "path" | "old_path" | "new_path" | "target" => TEXT + below(u64::from(MEMORY - TEXT) - 16),
            "path_len" | "old_path_len" | "new_path_len" | "target_len" => below(3) + u32::from(below(20) > 0),
            "buf_len" | "len" => below(300),
            name if name.ends_with("flags") || matches!(name, "whence" | "id" | "advice") => below(3) * below(2),
            "iovs_len" | "count" => below(4),
            _ => below(u64::from(PIECES)) & !7,
        }
    }

    fn nonsense(random: &mut Random) -> Self {
        match random.below(3) {
            0 => MEMORY - u32::try_from(random.below(70)).unwrap(),
            1 => random.pick(&[u32::MAX, u32::MAX - 7, 1 << 31, 1024, 1025, 4096, 65_536]),
            _ => u32::try_from(random.next() >> 32).unwrap(),
        }
    }
}

impl Argument for u64 {
    fn plausible(name: &str, random: &mut Random) -> Self {
        if name.starts_with("rights") { random.pick(&[ALL_RIGHTS, READ, 0]) } else { random.below(5_000) }
    }

    fn nonsense(random: &mut Random) -> Self {
        match random.below(2) {
            0 => random.next(),
            _ => random.pick(&[u64::MAX, 1 << 63, (1 << 28) - 1, i64::MAX.unsigned_abs()]),
        }
    }
}

impl Argument for i64 {
    fn plausible(name: &str, random: &mut Random) -> Self {
        u64::plausible(name, random).cast_signed()
    }

    fn nonsense(random: &mut Random) -> Self {
        u64::nonsense(random).cast_signed()
    }
}

macro_rules! dispatcher {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)*) => {
        pub(crate) const FUNCTIONS: &[(&str, fn(&mut Guest, &mut Random) -> Result<Errno, Stop>)] = &[
            $((stringify!($name), |guest, _random| {
                guest.wasi.$name(&mut guest.host, $(<$ty as Argument>::random(stringify!($arg), _random)),*)
            })),*
        ];
    };
}
wasi_preview1_functions!(dispatcher);

/// Fills memory so that regions and subscriptions are mostly valid and texts are mostly paths.
pub(crate) fn scribble(host: &mut FakeHost, random: &mut Random) {
    let (pieces, text) = (usize::try_from(PIECES).unwrap(), usize::try_from(TEXT).unwrap());
    for at in (pieces..text - 48).step_by(48) {
        let mut bytes = [0; 48];
        if random.below(4) == 0 {
            // A subscription: the event type at byte 8, the clock or descriptor at 16, the timeout at 24.
            bytes[8] = random.pick(&[0, 0, 1, 2, 9]);
            bytes[16] = random.pick(&[0, 1, 2, 4, 77]);
            bytes[24] = random.pick(&[0, 1, 255]);
        } else {
            for piece in bytes.chunks_exact_mut(8) {
                piece[..4].copy_from_slice(&u32::random("path", random).to_le_bytes());
                piece[4..].copy_from_slice(&u32::random("len", random).to_le_bytes());
            }
        }
        host.memory[at..at + 48].copy_from_slice(&bytes);
    }
    for byte in &mut host.memory[text..] {
        *byte = random.pick(b"a/b/./a/../ab/\xC3");
    }
}

pub(crate) fn hostile_guest() -> Guest {
    let limits = WasiLimits {
        stdout_bytes: 5_000,
        stderr_bytes: 5_000,
        display_bytes: 0,
        tool_bytes: 5_000,
        open_files: 20,
        memory_bytes: 2_000_000,
    };
    let mut guest = Guest::with(VfsLimits { bytes: 1_000_000, inodes: 100, ..VfsLimits::default() }, |config| {
        config.limits = limits;
        config.root_preopen = true;
        config.args = vec!["a".to_owned()];
        config.env = vec![("A".to_owned(), "b".to_owned())];
        config.stdin = vec![b'x'; 10_000];
    });
    guest.host.memory.truncate(usize::try_from(MEMORY).unwrap());
    guest.wasi.set_linear_memory_bytes(u64::from(MEMORY));
    guest
}

/// Creates and opens a few files, even if the guest has closed and removed others.
pub(crate) fn refill(guest: &mut Guest) {
    for name in ["a", "b", "./a/b"] {
        let _ = guest.open(name, CREAT);
    }
    guest.host.replies.extend([None, Some(b"{}".to_vec()), Some(vec![b'x'; 3_000])]);
    for device in ["dev/glovebox/tools", "dev/null"] {
        let _ = guest.open_at(4, device, 0, ALL_RIGHTS, 0);
    }
    let (target, path) = (guest.path("b"), guest.other_path("ab"));
    let _ = call!(*guest, path_symlink(PATH, target, APP, OTHER_PATH, path));
}

#[test]
fn random_calls_are_bounded_and_cost_fuel() {
    for seed in 1..=20_u64 {
        println!("seed {seed}");
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut guest = hostile_guest();
        if seed % 2 == 0 {
            guest.wasi.set_clock(Clock::Host);
        }
        for round in 0..5_000 {
            if round % 200 == 0 {
                scribble(&mut guest.host, &mut random);
            }
            if round % 50 == 0 {
                refill(&mut guest);
            }
            if round % 1_000 == 999 {
                guest.wasi.begin_execution();
            }
            let index = usize::try_from(random.below(u64::try_from(FUNCTIONS.len()).unwrap())).unwrap();
            let (name, function) = FUNCTIONS[index];
            let (moved, charged) = (guest.host.moved, guest.host.charged);
            let answer = function(&mut guest, &mut random);
            // An unwound guest would not continue, but the state must tolerate further calls.
            drop(answer);
            let (moved, charged) = (guest.host.moved - moved, guest.host.charged - charged);
            assert!(moved * prices::BYTE <= charged, "{name}: {moved} bytes for {charged} fuel");
            let held = guest.wasi.host_bytes() + u64::from(MEMORY);
            assert!(held <= 2_000_000, "{name}: {held} bytes");
        }
        let events = guest.wasi.take_events();
        assert!(events.len() <= 6);
    }
}

#[test]
fn random_calls_include_successes() {
    let mut random = Random(7);
    let mut guest = hostile_guest();
    let mut succeeded = vec![0_u32; FUNCTIONS.len()];
    for round in 0..150_000 {
        if round % 500 == 0 {
            scribble(&mut guest.host, &mut random);
        }
        if round % 50 == 0 {
            refill(&mut guest);
        }
        if round % 1_000 == 0 {
            guest.wasi.begin_execution();
        }
        let index = usize::try_from(random.below(u64::try_from(FUNCTIONS.len()).unwrap())).unwrap();
        succeeded[index] += u32::from(FUNCTIONS[index].1(&mut guest, &mut random) == Ok(Errno::Success));
    }
    let never: Vec<&str> = FUNCTIONS
        .iter()
        .zip(&succeeded)
        .filter(|((name, _), count)| **count == 0 && !name.starts_with("sock_") && !name.starts_with("proc_"))
        .map(|((name, _), _)| *name)
        .collect();
    println!("{:?}", FUNCTIONS.iter().map(|(name, _)| name).zip(&succeeded).collect::<Vec<_>>());
    assert!(never.is_empty(), "never succeeded: {never:?}");
}

#[test]
fn calls_without_fuel_have_no_effect() {
    for (name, function) in FUNCTIONS {
        let mut guest = hostile_guest();
        guest.host.fuel = 0;
        let before = guest.wasi.host_bytes();
        assert_eq!(function(&mut guest, &mut Random(1)), Err(Stop::OutOfFuel), "{name}");
        assert_eq!((guest.host.moved, guest.wasi.host_bytes()), (0, before), "{name}");
    }
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => 0..2 * MEMORY,
        4 => 0..64_u32,
        1 => MEMORY - 2..MEMORY + 2,
        1 => any::<u32>(),
        1 => u32::MAX - 8..=u32::MAX,
    ]
}

proptest! {
    #[test]
    fn iovecs_decode_as_the_standard_says(iovs in collection::vec((number(), number()), 0..40), extra in 0..3_u32) {
        let mut guest = Guest::new();
        guest.host.memory.truncate(usize::try_from(MEMORY).unwrap());
        let count = guest.iovs(&iovs) + extra;
        // Memory after the array is zero, so the extra regions are empty.
        let mut expected = Ok(0_u64);
        for (at, len) in iovs.iter().map(|(at, len)| (u64::from(*at), u64::from(*len))) {
            if at + len > u64::from(MEMORY) {
                expected = Err(Errno::Fault);
                break;
            }
            expected = expected.map(|sum| sum + len);
        }
        let written = call!(guest, fd_write(1, IOVS, count, OUT));
        prop_assert_eq!(written, expected.map(|_| ()));
        if let Ok(total) = expected {
            prop_assert_eq!(u64::from(guest.u32_at(OUT)), total);
            prop_assert_eq!(guest.wasi.take_output().stdout.total_bytes, total);
        }
    }
}

#[test]
fn open_file_limit_is_exact_and_recoverable() {
    let limits = WasiLimits { open_files: 6, ..WasiLimits::default() };
    let mut guest = Guest::with(VfsLimits::default(), |config| config.limits = limits);
    let first = guest.open("a", CREAT).unwrap();
    let second = guest.open("b", CREAT).unwrap();
    assert_eq!((first, second), (4, 5), "three streams and a preopen are already open");
    assert_eq!(guest.open("c", CREAT), Err(Errno::Mfile));
    assert_eq!(guest.stat(APP, "c"), Err(Errno::NoEnt), "a refused open creates no file");
    assert_eq!(guest.wasi.take_events(), [SecurityEvent::OpenFileLimit { count: 1 }]);
    call!(guest, fd_close(first)).unwrap();
    assert_eq!(guest.open("c", CREAT), Ok(first));
    call!(guest, fd_renumber(first, second)).unwrap();
    assert_eq!(guest.open("d", CREAT), Ok(first));
    assert_eq!(guest.open("e", CREAT), Err(Errno::Mfile));
}

#[test]
fn repeated_open_and_close_leaks_nothing() {
    let mut guest = Guest::new();
    guest.file("file", b"abc");
    let before = guest.wasi.host_bytes();
    for _ in 0..10_000 {
        let fd = guest.open("file", CREAT).unwrap();
        call!(guest, fd_close(fd)).unwrap();
        assert_eq!(guest.open("none", 0), Err(Errno::NoEnt));
    }
    assert_eq!(guest.wasi.host_bytes(), before);
}

#[test]
fn inode_quota_is_reported_and_recoverable() {
    let mut guest = Guest::with(VfsLimits { inodes: 20, ..VfsLimits::default() }, |_| ());
    let mut made = 0;
    let refused = loop {
        match guest.make_dir(&format!("d{made}")) {
            Ok(()) => made += 1,
            Err(errno) => break errno,
        }
    };
    assert_eq!(refused, Errno::NoSpc);
    assert!((18..=20).contains(&made), "{made}");
    assert_eq!(guest.open("file", CREAT), Err(Errno::NoSpc));
    assert_eq!(guest.wasi.take_events(), [SecurityEvent::QuotaExceeded { count: 2 }]);
    let len = guest.path("d0");
    call!(guest, path_remove_directory(APP, PATH, len)).unwrap();
    assert!(guest.open("file", CREAT).is_ok());
}

#[test]
fn terabyte_of_zeros_is_rejected() {
    let mut guest = Guest::new();
    let fd = guest.open("sparse", CREAT).unwrap();
    assert!(call!(guest, fd_filestat_set_size(fd, 1 << 40)).is_err());
    call!(guest, fd_seek(fd, 1 << 40, 0, OUT)).unwrap();
    assert!(guest.write(fd, b"x").is_err());
    assert!(guest.wasi.host_bytes() < 100_000);
}

#[test]
fn held_bytes_are_reported() {
    let mut guest = Guest::new();
    let empty = guest.wasi.host_bytes();
    guest.wasi.set_stdin(vec![0; 1_000]);
    assert_eq!(guest.wasi.host_bytes(), empty + 1_000);
    guest.write(1, &[b'x'; 2_000]).unwrap();
    assert!(guest.wasi.host_bytes() >= empty + 3_000);
    guest.file("file", &[1; 10_000]);
    assert!(guest.wasi.host_bytes() >= empty + 13_000);
    guest.wasi.take_output();
    guest.wasi.set_stdin(Vec::new());
    guest.wasi.begin_execution();
    assert!(guest.wasi.host_bytes() < empty + 15_000);
    assert!(guest.wasi.room_bytes() <= guest.wasi.limits().memory_bytes - guest.wasi.host_bytes());
}

#[test]
fn changed_limits_apply_immediately() {
    let mut guest = Guest::new();
    guest.wasi.set_limits(WasiLimits { stdout_bytes: 2, open_files: 4, ..WasiLimits::default() });
    guest.write(1, b"abc").unwrap();
    assert_eq!(guest.wasi.take_output().stdout.bytes, b"ab");
    assert_eq!(guest.open("file", CREAT), Err(Errno::Mfile));
    guest.wasi.begin_execution();
    guest.write(1, b"abc").unwrap();
    assert_eq!(guest.wasi.take_output().stdout.bytes, b"ab");
}
