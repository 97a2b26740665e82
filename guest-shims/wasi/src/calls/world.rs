//! Calls for arguments, environment, clocks, randomness, waiting and the process, and for sockets, which do not exist.

use crate::{
    Errno, Host, Stop, Wasi,
    clock::ClockId,
    device::Device,
    host::Call,
    memory::{Region, check, check_array, event, field, offset, read_array, size, write_u32, write_u64},
    prices,
    streams::Source,
    table::{self, FdTarget},
};

pub(super) fn args_get<H: Host>(wasi: &mut Wasi, host: &mut H, argv: u32, argv_buf: u32) -> Call {
    wasi.args.deliver(host, argv, argv_buf)
}

pub(super) fn args_sizes_get<H: Host>(wasi: &mut Wasi, host: &mut H, argc: u32, argv_buf_size: u32) -> Call {
    wasi.args.sizes(host, argc, argv_buf_size)
}

pub(super) fn environ_get<H: Host>(wasi: &mut Wasi, host: &mut H, environ: u32, environ_buf: u32) -> Call {
    wasi.env.deliver(host, environ, environ_buf)
}

pub(super) fn environ_sizes_get<H: Host>(wasi: &mut Wasi, host: &mut H, environc: u32, environ_buf_size: u32) -> Call {
    wasi.env.sizes(host, environc, environ_buf_size)
}

pub(super) fn clock_res_get<H: Host>(wasi: &mut Wasi, host: &mut H, id: u32, resolution: u32) -> Call {
    ClockId::try_from(id)?;
    write_u64(host, resolution, wasi.clock.resolution_ns())
}

/// Reads a clock. The requested precision is ignored, because each clock has only one resolution.
pub(super) fn clock_time_get<H: Host>(wasi: &mut Wasi, host: &mut H, id: u32, _precision: u64, time: u32) -> Call {
    let now = wasi.clock.now(host, ClockId::try_from(id)?);
    write_u64(host, time, now)
}

pub(super) fn random_get<H: Host>(wasi: &mut Wasi, host: &mut H, buf: u32, len: u32) -> Call {
    check(host, buf, u64::from(len))?;
    for chunk in (Region { at: buf, len }).chunks() {
        host.charge(prices::RANDOM_BYTE.saturating_mul(u64::from(chunk.len)))?;
        let mut bytes = vec![0; size(chunk.len)];
        wasi.entropy.fill(host, &mut bytes);
        host.write(chunk.at, &bytes)?;
    }
    Ok(())
}

pub(super) fn sched_yield<H: Host>(_: &mut Wasi, _: &mut H) -> Call {
    Ok(())
}

pub(super) fn proc_exit<H: Host>(_: &mut Wasi, _: &mut H, code: u32) -> Call {
    Err(Stop::Exit(code.cast_signed()).into())
}

pub(super) fn proc_raise<H: Host>(_: &mut Wasi, _: &mut H, signal: u32) -> Call {
    /// The number of `signal` values, from `none` to `sys`.
    const SIGNALS: u32 = 31;
    Err(if signal < SIGNALS { Errno::NotSup } else { Errno::Inval }.into())
}

fn no_socket(wasi: &Wasi, fd: u32) -> Call {
    wasi.table.get(fd)?;
    Err(Errno::NotSock.into())
}

pub(super) fn sock_accept<H: Host>(wasi: &mut Wasi, _: &mut H, fd: u32, _flags: u32, _opened: u32) -> Call {
    no_socket(wasi, fd)
}

#[expect(clippy::too_many_arguments, reason = "the signature is WASI's")]
pub(super) fn sock_recv<H: Host>(
    wasi: &mut Wasi,
    _: &mut H,
    fd: u32,
    _iovs: u32,
    _iovs_len: u32,
    _flags: u32,
    _nread: u32,
    _out_flags: u32,
) -> Call {
    no_socket(wasi, fd)
}

pub(super) fn sock_send<H: Host>(
    wasi: &mut Wasi,
    _: &mut H,
    fd: u32,
    _iovs: u32,
    _iovs_len: u32,
    _flags: u32,
    _nwritten: u32,
) -> Call {
    no_socket(wasi, fd)
}

pub(super) fn sock_shutdown<H: Host>(wasi: &mut Wasi, _: &mut H, fd: u32, _how: u32) -> Call {
    no_socket(wasi, fd)
}

/// Maximum number of subscriptions in one call, which bounds the host memory for the call. C libraries need at most one
/// per descriptor and one for a timeout.
const MAX_SUBSCRIPTIONS: u32 = 1024;

const SUBSCRIPTION_BYTES: u32 = 48;
const EVENT_BYTES: u32 = 32;

const CLOCK: u8 = 0;
const FD_READ: u8 = 1;
const FD_WRITE: u8 = 2;

/// The value of `subclockflags`: the timeout is absolute.
const ABSTIME: u16 = 1;
/// The value of `eventrwflags`: end of file.
const HANGUP: u16 = 1;

enum Readiness {
    /// The subscription is ready.
    Ready { errno: Errno, available_bytes: u64, flags: u16 },
    /// The subscription will be ready after this number of nanoseconds.
    After { wait_ns: u64 },
}

struct Subscription {
    userdata: u64,
    event_type: u8,
    readiness: Readiness,
}

pub(super) fn poll_oneoff<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    subscriptions: u32,
    events: u32,
    count: u32,
    ready: u32,
) -> Call {
    if count == 0 || count > MAX_SUBSCRIPTIONS {
        return Err(Errno::Inval.into());
    }
    check_array(host, subscriptions, count, u64::from(SUBSCRIPTION_BYTES))?;
    check_array(host, events, count, u64::from(EVENT_BYTES))?;
    check(host, ready, 4)?;
    host.charge(prices::ELEMENT.saturating_mul(u64::from(count)))?;
    // Read all subscriptions before writing the first event, because the two arrays may overlap.
    let mut all = Vec::new();
    for index in 0..count {
        let at = offset(subscriptions, index.saturating_mul(SUBSCRIPTION_BYTES))?;
        let bytes: [u8; 48] = read_array(host, at)?;
        all.push(decode(wasi, host, &bytes)?);
    }
    let waited = wait(wasi, host, &all)?;
    let mut at = events;
    let mut happened = 0_u32;
    for subscription in &all {
        let (errno, available_bytes, flags) = match subscription.readiness {
            Readiness::Ready { errno, available_bytes, flags } => (errno, available_bytes, flags),
            Readiness::After { wait_ns } if wait_ns <= waited => (Errno::Success, 0, 0),
            Readiness::After { .. } => continue,
        };
        let event = event(subscription.userdata, errno.code(), subscription.event_type, available_bytes, flags);
        host.write(at, &event)?;
        at = at.saturating_add(EVENT_BYTES);
        happened = happened.saturating_add(1);
    }
    write_u32(host, ready, happened)
}

/// Waits for the first event. Returns the waiting time in nanoseconds.
fn wait<H: Host>(wasi: &mut Wasi, host: &mut H, all: &[Subscription]) -> Call<u64> {
    let mut shortest = u64::MAX;
    for subscription in all {
        match subscription.readiness {
            Readiness::Ready { .. } => return Ok(0),
            Readiness::After { wait_ns } => shortest = shortest.min(wait_ns),
        }
    }
    if shortest > 0 {
        host.charge(prices::SLEEP)?;
        wasi.clock.sleep(host, shortest)?;
    }
    Ok(shortest)
}

fn decode<H: Host>(wasi: &mut Wasi, host: &mut H, bytes: &[u8; 48]) -> Call<Subscription> {
    let userdata = u64::from_le_bytes(field(bytes, 0));
    let [event_type] = field(bytes, 8);
    let readiness = match event_type {
        CLOCK => match clock_wait(wasi, host, bytes) {
            Ok(wait_ns) => Readiness::After { wait_ns },
            Err(errno) => Readiness::Ready { errno, available_bytes: 0, flags: 0 },
        },
        FD_READ | FD_WRITE => {
            let fd = u32::from_le_bytes(field(bytes, 16));
            match available(wasi, fd, event_type) {
                Ok((available_bytes, flags)) => Readiness::Ready { errno: Errno::Success, available_bytes, flags },
                Err(errno) => Readiness::Ready { errno, available_bytes: 0, flags: 0 },
            }
        }
        _ => return Err(Errno::Inval.into()),
    };
    Ok(Subscription { userdata, event_type, readiness })
}

/// Returns the time until a clock subscription is due, in nanoseconds.
fn clock_wait<H: Host>(wasi: &Wasi, host: &mut H, bytes: &[u8; 48]) -> Result<u64, Errno> {
    let id = ClockId::try_from(u32::from_le_bytes(field(bytes, 16)))?;
    let timeout = u64::from_le_bytes(field(bytes, 24));
    match u16::from_le_bytes(field(bytes, 40)) {
        0 => Ok(timeout),
        ABSTIME => Ok(timeout.saturating_sub(wasi.clock.now(host, id))),
        _ => Err(Errno::Inval),
    }
}

/// Returns the number of bytes that a descriptor can deliver or accept now, and event flags. All descriptors are always
/// ready, although a read from standard input or from the tools device can wait.
fn available(wasi: &Wasi, fd: u32, event_type: u8) -> Result<(u64, u16), Errno> {
    let at_end = |rest: u64| (rest, if rest == 0 { HANGUP } else { 0 });
    let descriptor = wasi.table.get(fd)?;
    let right = if event_type == FD_READ { table::FD_READ } else { table::FD_WRITE };
    descriptor.require(right).map_err(|_| Errno::Badf)?;
    descriptor.require(table::POLL_FD_READWRITE)?;
    Ok(match (&descriptor.target, event_type) {
        (FdTarget::Stdin, FD_READ) => at_end(wasi.stdin.rest_bytes()),
        (FdTarget::File { inode, position }, FD_READ) => {
            let stat = wasi.vfs.stat(*inode).map_err(|_| Errno::Badf)?;
            (stat.size_bytes.saturating_sub(*position), 0)
        }
        (
            FdTarget::Device(Device::Null | Device::Displays | Device::Space | Device::Scrypt | Device::Text),
            FD_READ,
        ) => (0, 0),
        // The tools device is always ready, although a read waits for a new reply if the last one was read completely.
        // The guest sets a timeout for each read that may wait, so waiting here would be redundant.
        (FdTarget::Device(Device::Tools), FD_READ) => (wasi.tools.rest_bytes().max(1), 0),
        _ => (1, 0),
    })
}
