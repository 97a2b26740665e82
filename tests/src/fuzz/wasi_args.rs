//! Calls WASI preview 1 functions with arbitrary arguments and memory.

use glovebox_vfs::{Access, Vfs, VfsLimits};
use glovebox_wasi::{Entropy, Errno, Fault, Host, Mount, Stop, Stream, Wasi, WasiConfig, WasiLimits};

use super::Bytes;

const MEMORY_BYTES: usize = 1 << 16;
const QUOTA_BYTES: u64 = 1 << 20;
const FUEL: u64 = 50_000_000;

/// Makes a sequence of calls. No call may panic, use more fuel than remains, or make the host allocate more than the
/// limits allow.
pub fn wasi_args(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut vfs = Vfs::new(VfsLimits { bytes: QUOTA_BYTES, inodes: 100, ..VfsLimits::default() });
    let app = vfs.add_root(Access::ReadWrite);
    vfs.write_file(app, "/a/b", b"content").expect("a new file system has room");
    let mut config = WasiConfig::new(vfs);
    config.mounts.push(Mount::new("/app", app));
    config.args = vec!["prog".into(), "arg".into()];
    config.env = vec![("KEY".into(), "value".into())];
    config.stdin = b"input\n".to_vec();
    config.entropy = Entropy::seeded(1);
    config.limits = WasiLimits {
        stdout_bytes: 1_000,
        stderr_bytes: 10,
        display_bytes: 1_000,
        tool_bytes: 1_000,
        open_files: 16,
        memory_bytes: 8 << 20,
    };
    let mut wasi = Wasi::new(config).expect("the configuration is sound");
    wasi.set_linear_memory_bytes(MEMORY_BYTES as u64);
    wasi.begin_execution();

    // Repeats the input, so that the memory contains paths and vectors.
    let memory =
        if data.is_empty() { vec![0; MEMORY_BYTES] } else { data.iter().copied().cycle().take(MEMORY_BYTES).collect() };
    let mut host = ToyHost { memory, fuel: FUEL };
    lay_out(&mut host.memory);
    while !bytes.is_empty() {
        let which = bytes.byte();
        match call(which, &mut wasi, &mut host, &mut bytes) {
            Ok(_) => {}
            Err(Stop::OutOfFuel | Stop::Exit(_)) => break,
            Err(stop) => panic!("a guest must not end with {stop:?}"),
        }
        assert!(wasi.vfs().bytes_used() <= QUOTA_BYTES, "the quota was exceeded");
        assert!(wasi.host_bytes() <= 8 << 20, "the host's memory limit was exceeded");
        assert!(
            wasi.output(Stream::Stdout).len() <= 1_000 && wasi.output(Stream::Stderr).len() <= 10,
            "an output limit was exceeded"
        );
    }
    let _ = (wasi.take_output(), wasi.take_events());
}

/// Writes well-formed vectors and paths to low addresses, so that small numbers are meaningful arguments.
fn lay_out(memory: &mut [u8]) {
    for (index, (at, len)) in [(64_u32, 4_u32), (80, 2), (65_530, 10), (u32::MAX, 1)].into_iter().enumerate() {
        memory[index * 8..index * 8 + 4].copy_from_slice(&at.to_le_bytes());
        memory[index * 8 + 4..index * 8 + 8].copy_from_slice(&len.to_le_bytes());
    }
    memory[64..84].copy_from_slice(b"a/b\0../x/a/../b/new\0");
}

struct ToyHost {
    memory: Vec<u8>,
    fuel: u64,
}

impl ToyHost {
    fn part(&mut self, at: u32, len: usize) -> Result<&mut [u8], Fault> {
        let at = at as usize;
        self.memory.get_mut(at..at.checked_add(len).ok_or(Fault)?).ok_or(Fault)
    }
}

impl Host for ToyHost {
    fn memory_len(&self) -> u64 {
        self.memory.len() as u64
    }

    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(self.part(at, into.len())?);
        Ok(())
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault> {
        self.part(at, from.len())?.copy_from_slice(from);
        Ok(())
    }

    fn charge(&mut self, fuel: u64) -> Result<(), Stop> {
        self.fuel = self.fuel.checked_sub(fuel).ok_or(Stop::OutOfFuel)?;
        Ok(())
    }

    fn realtime_ns(&mut self) -> u64 {
        unreachable!("the clock is fixed")
    }

    fn monotonic_ns(&mut self) -> u64 {
        unreachable!("the clock is fixed")
    }

    fn sleep_ns(&mut self, _: u64) -> Result<(), Stop> {
        unreachable!("the clock is fixed")
    }

    fn fill_random(&mut self, _: &mut [u8]) {
        unreachable!("the entropy is seeded")
    }

    fn output(&mut self, _: Stream, _: &[u8]) {}
}

/// An argument of a call, read from the fuzzer's bytes.
trait Argument {
    fn of(bytes: &mut Bytes<'_>) -> Self;
}

impl Argument for u32 {
    #[allow(clippy::cast_possible_truncation, reason = "the low half of an arbitrary number is an arbitrary number")]
    fn of(bytes: &mut Bytes<'_>) -> Self {
        bytes.number(MEMORY_BYTES as u64) as Self
    }
}

impl Argument for u64 {
    fn of(bytes: &mut Bytes<'_>) -> Self {
        bytes.number(QUOTA_BYTES)
    }
}

impl Argument for i64 {
    fn of(bytes: &mut Bytes<'_>) -> Self {
        bytes.number(QUOTA_BYTES).cast_signed()
    }
}

type Call = fn(&mut Wasi, &mut ToyHost, &mut Bytes<'_>) -> Result<Errno, Stop>;

macro_rules! calls {
    ($( $(#[$meta:meta])* fn $name:ident( $($arg:ident: $ty:ty),* ) -> $ret:ty; )*) => {
        const CALLS: &[Call] = &[$(
            |wasi, host, _bytes| {
                $(let $arg = <$ty as Argument>::of(_bytes);)*
                wasi.$name(host, $($arg),*)
            },
        )*];
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}
glovebox_wasi::wasi_preview1_functions!(calls);

fn call(which: u8, wasi: &mut Wasi, host: &mut ToyHost, bytes: &mut Bytes<'_>) -> Result<Errno, Stop> {
    CALLS[usize::from(which) % CALLS.len()](wasi, host, bytes)
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let index = |name: &str| {
        u8::try_from(NAMES.iter().position(|each| *each == name).expect("`name` is in `NAMES`"))
            .expect("there are 46 names")
    };
    // Small bytes encode themselves (see `Bytes::number`); 0x40 means that the next byte is the number.
    vec![
        // Opens `a/b` for reading and writing with all rights, then reads, writes, seeks and lists.
        vec![
            index("path_open"),
            3,
            1,
            0x40,
            64,
            3,
            0,
            0xA0,
            0xA0,
            0,
            0x40,
            200,
            index("fd_write"),
            4,
            0,
            1,
            0x40,
            220,
            index("fd_read"),
            4,
            0,
            2,
            0x40,
            220,
        ],
        vec![index("fd_readdir"), 3, 0x40, 100, 0x40, 90, 0, 0x40, 220, index("path_create_directory"), 3, 0x40, 70, 1],
        vec![index("path_symlink"), 0x40, 64, 3, 3, 0x40, 70, 1, index("path_rename"), 3, 0x40, 64, 3, 3, 0x40, 80, 3],
        (0..=255).collect(),
        (0..=255).rev().collect(),
    ]
}
