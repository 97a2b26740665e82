//! Descriptors: their attributes and positions, closing and renumbering.

use glovebox_vfs::InodeId;

use crate::{
    Errno, Host, Stop, Wasi,
    device::Device,
    host::Call,
    layout,
    memory::{check, guest_size, write_u64},
    rights,
    table::{Descriptor, FdTarget},
};

pub(super) fn fd_fdstat_get<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, stat: u32) -> Call {
    if fd == 0 && wasi.park.take() {
        return Err(Stop::Parked.into());
    }
    let Descriptor { target, flags, rights_base, rights_inheriting, .. } = wasi.table.get(fd)?;
    let file_type = match target {
        // Not a character device, because the C library takes a character device that cannot seek for a terminal.
        FdTarget::Stdin | FdTarget::Stdout | FdTarget::Stderr => layout::UNKNOWN,
        FdTarget::File { .. } => layout::REGULAR,
        FdTarget::Directory { .. } | FdTarget::Virtual { .. } => layout::DIRECTORY,
        FdTarget::Device(_) => layout::CHARACTER_DEVICE,
    };
    Ok(host.write(stat, &layout::fdstat(file_type, *flags, *rights_base, *rights_inheriting))?)
}

pub(super) fn fd_fdstat_set_flags<H: Host>(wasi: &mut Wasi, _: &mut H, fd: u32, flags: u32) -> Call {
    let descriptor = wasi.table.get_mut(fd)?;
    let flags = fdflags(flags)?;
    descriptor.require(rights::FD_FDSTAT_SET_FLAGS)?;
    descriptor.flags = flags;
    Ok(())
}

/// Decodes `fdflags`. Unknown flags are an error.
pub(super) fn fdflags(flags: u32) -> Result<u16, Errno> {
    let flags = u16::try_from(flags).map_err(|_| Errno::Inval)?;
    if flags & !rights::FDFLAGS == 0 { Ok(flags) } else { Err(Errno::Inval) }
}

/// Reduces the rights. Rights cannot be gained.
pub(super) fn fd_fdstat_set_rights<H: Host>(
    wasi: &mut Wasi,
    _: &mut H,
    fd: u32,
    rights_base: u64,
    rights_inheriting: u64,
) -> Call {
    let descriptor = wasi.table.get_mut(fd)?;
    if rights_base & !descriptor.rights_base != 0 || rights_inheriting & !descriptor.rights_inheriting != 0 {
        return Err(Errno::NotCapable.into());
    }
    // A preopen keeps its rights, because a script must not damage it for later executions.
    if descriptor.preopen.is_none() {
        descriptor.rights_base = rights_base;
        descriptor.rights_inheriting = rights_inheriting;
    }
    Ok(())
}

pub(super) fn fd_close<H: Host>(wasi: &mut Wasi, _: &mut H, fd: u32) -> Call {
    if wasi.table.get(fd)?.preopen.is_some() {
        return Err(Errno::NotSup.into());
    }
    let closed = wasi.table.remove(fd)?;
    wasi.release(&closed);
    Ok(())
}

pub(super) fn fd_renumber<H: Host>(wasi: &mut Wasi, _: &mut H, fd: u32, to: u32) -> Call {
    if wasi.table.get(fd)?.preopen.is_some() || wasi.table.get(to)?.preopen.is_some() {
        return Err(Errno::NotSup.into());
    }
    if let Some(replaced) = wasi.table.renumber(fd, to)? {
        wasi.release(&replaced);
    }
    Ok(())
}

pub(super) fn fd_prestat_get<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, stat: u32) -> Call {
    // `EBADF` tells the C library that there are no more preopens.
    let name = wasi.table.get(fd)?.preopen.as_ref().ok_or(Errno::Badf)?;
    let [a, b, c, d] = guest_size(name.len())?.to_le_bytes();
    Ok(host.write(stat, &[0, 0, 0, 0, a, b, c, d])?)
}

pub(super) fn fd_prestat_dir_name<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, path: u32, path_len: u32) -> Call {
    let name = wasi.table.get(fd)?.preopen.as_ref().ok_or(Errno::Badf)?;
    if guest_size(name.len())? > path_len {
        return Err(Errno::NameTooLong.into());
    }
    Ok(host.write(path, name.as_bytes())?)
}

/// Returns the file of a descriptor and its position, if it is seekable.
fn seekable(wasi: &Wasi, fd: u32, right: u64) -> Call<(InodeId, u64)> {
    let descriptor = wasi.table.get(fd)?;
    match descriptor.target {
        FdTarget::File { inode, position } => {
            descriptor.require(right)?;
            Ok((inode, position))
        }
        FdTarget::Stdin | FdTarget::Stdout | FdTarget::Stderr | FdTarget::Device(_) => Err(Errno::Spipe.into()),
        FdTarget::Directory { .. } | FdTarget::Virtual { .. } => Err(Errno::Badf.into()),
    }
}

/// Returns whether a descriptor refers to the null device, whose position is always 0.
fn is_null(wasi: &Wasi, fd: u32, right: u64) -> Result<bool, Errno> {
    let descriptor = wasi.table.get(fd)?;
    if descriptor.target != FdTarget::Device(Device::Null) {
        return Ok(false);
    }
    descriptor.require(right).map(|()| true)
}

pub(super) fn fd_seek<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    fd: u32,
    offset: i64,
    whence: u32,
    position: u32,
) -> Call {
    const SET: u32 = 0;
    const CURRENT: u32 = 1;
    const END: u32 = 2;
    check(host, position, 8)?;
    // Reading the position needs fewer rights than moving it.
    let asking = whence == CURRENT && offset == 0;
    let right = if asking { rights::FD_TELL } else { rights::FD_SEEK };
    if is_null(wasi, fd, right)? {
        return if whence > END { Err(Errno::Inval.into()) } else { write_u64(host, position, 0) };
    }
    let (inode, current) = seekable(wasi, fd, right)?;
    let from = match whence {
        SET => 0,
        CURRENT => current,
        END => wasi.with_vfs(host, |vfs| vfs.stat(inode))?.size_bytes,
        _ => return Err(Errno::Inval.into()),
    };
    // The guest sees positions as signed numbers.
    let to = from.checked_add_signed(offset).filter(|to| i64::try_from(*to).is_ok()).ok_or(Errno::Inval)?;
    if let FdTarget::File { position, .. } = &mut wasi.table.get_mut(fd)?.target {
        *position = to;
    }
    write_u64(host, position, to)
}

pub(super) fn fd_tell<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, position: u32) -> Call {
    let current = if is_null(wasi, fd, rights::FD_TELL)? { 0 } else { seekable(wasi, fd, rights::FD_TELL)?.1 };
    write_u64(host, position, current)
}

pub(super) fn fd_sync<H: Host>(wasi: &mut Wasi, _: &mut H, fd: u32) -> Call {
    wasi.table.get(fd)?;
    Ok(())
}

pub(super) fn fd_datasync<H: Host>(wasi: &mut Wasi, _: &mut H, fd: u32) -> Call {
    wasi.table.get(fd)?;
    Ok(())
}

pub(super) fn fd_advise<H: Host>(wasi: &mut Wasi, _: &mut H, fd: u32, _offset: u64, _len: u64, advice: u32) -> Call {
    /// The number of `advice` values, from `normal` to `noreuse`.
    const ADVICES: u32 = 6;
    seekable(wasi, fd, 0)?;
    if advice < ADVICES { Ok(()) } else { Err(Errno::Inval.into()) }
}

pub(super) fn fd_allocate<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, offset: u64, len: u64) -> Call {
    let (inode, _) = seekable(wasi, fd, 0)?;
    wasi.table.get(fd)?.require(rights::FD_ALLOCATE).map_err(|_| Errno::Badf)?;
    wasi.change_vfs(host, |vfs| vfs.allocate(inode, offset, len))
}
