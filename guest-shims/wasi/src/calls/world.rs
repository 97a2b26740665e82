//! Arguments, environment, clocks, randomness, the process, and the sockets that do not exist.

use crate::{
    Errno, Host, Stop, Wasi,
    clock::ClockId,
    host::Call,
    memory::{Region, check, size, write_u64},
    prices,
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

/// Reads a clock. The precision is ignored, because each clock has a single one.
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
