//! Attributes: size and times.

use glovebox_vfs::InodeId;

use crate::{
    Errno, Host, Wasi,
    access::{GuestPath, Purpose, follow},
    device::Device,
    host::Call,
    layout::{self, FileStat},
    mounts::virtual_inode,
    rights,
    table::FdTarget,
};

pub(super) fn fd_filestat_get<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, stat: u32) -> Call {
    let found = stat_descriptor(wasi, host, fd)?;
    Ok(host.write(stat, &found.encode())?)
}

pub(super) fn path_filestat_get<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    fd: u32,
    flags: u32,
    path: u32,
    path_len: u32,
    stat: u32,
) -> Call {
    let follow = follow(flags)?;
    let found = match wasi.resolve_path(host, fd, rights::PATH_FILESTAT_GET, Purpose::Look, path, path_len)? {
        GuestPath::Virtual { path } => virtual_stat(&path),
        GuestPath::Device(device) => device_stat(device),
        GuestPath::Descriptor(fd) => {
            wasi.named_descriptor(fd)?;
            stat_descriptor(wasi, host, fd)?
        }
        GuestPath::Real(place) => {
            let looked_up = wasi.with_vfs(host, |vfs| vfs.lookup(place.at, place.path.as_bytes(), follow));
            let inode = wasi.watch(&[&place], looked_up)?;
            stat_inode(wasi, host, inode)?
        }
    };
    Ok(host.write(stat, &found.encode())?)
}

fn stat_descriptor<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32) -> Call<FileStat> {
    let descriptor = wasi.table.get(fd)?;
    descriptor.require(rights::FD_FILESTAT_GET)?;
    Ok(match descriptor.target.clone() {
        FdTarget::File { inode, .. } | FdTarget::Directory { inode } => stat_inode(wasi, host, inode)?,
        FdTarget::Virtual { path } => virtual_stat(&path),
        FdTarget::Device(device) => device_stat(device),
        FdTarget::Stdin | FdTarget::Stdout | FdTarget::Stderr => {
            FileStat { inode: u64::from(fd), links: 1, ..FileStat::default() }
        }
    })
}

fn stat_inode<H: Host>(wasi: &mut Wasi, host: &mut H, inode: InodeId) -> Call<FileStat> {
    Ok(FileStat::of(&wasi.with_vfs(host, |vfs| vfs.stat(inode))?))
}

fn virtual_stat(path: &str) -> FileStat {
    FileStat { inode: virtual_inode(path), file_type: layout::DIRECTORY, links: 1, ..FileStat::default() }
}

fn device_stat(device: Device) -> FileStat {
    let inode = virtual_inode(device.path());
    FileStat { inode, file_type: layout::CHARACTER_DEVICE, links: 1, ..FileStat::default() }
}

pub(super) fn fd_filestat_set_size<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, size: u64) -> Call {
    let descriptor = wasi.table.get(fd)?;
    let FdTarget::File { inode, .. } = descriptor.target else {
        return Err(Errno::Inval.into());
    };
    // As POSIX requires for a descriptor that was not opened for writing.
    descriptor.require(rights::FD_FILESTAT_SET_SIZE).map_err(|_| Errno::Badf)?;
    wasi.change_vfs(host, |vfs| vfs.set_len(inode, size))
}

pub(super) fn fd_filestat_set_times<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    fd: u32,
    atim: u64,
    mtim: u64,
    fst_flags: u32,
) -> Call {
    let descriptor = wasi.table.get(fd)?;
    let inode = match &descriptor.target {
        FdTarget::File { inode, .. } | FdTarget::Directory { inode } => *inode,
        FdTarget::Virtual { .. } | FdTarget::Device(_) => return Err(Errno::Rofs.into()),
        FdTarget::Stdin | FdTarget::Stdout | FdTarget::Stderr => return Err(Errno::Badf.into()),
    };
    descriptor.require(rights::FD_FILESTAT_SET_TIMES)?;
    set_times(wasi, host, inode, atim, mtim, fst_flags)
}

#[expect(clippy::too_many_arguments, reason = "the signature is WASI's")]
pub(super) fn path_filestat_set_times<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    fd: u32,
    flags: u32,
    path: u32,
    path_len: u32,
    atim: u64,
    mtim: u64,
    fst_flags: u32,
) -> Call {
    let follow = follow(flags)?;
    let place = wasi
        .resolve_path(host, fd, rights::PATH_FILESTAT_SET_TIMES, Purpose::Use, path, path_len)?
        .real(Errno::Rofs)?;
    let looked_up = wasi.with_vfs(host, |vfs| vfs.lookup(place.at, place.path.as_bytes(), follow));
    let inode = wasi.watch(&[&place], looked_up)?;
    set_times(wasi, host, inode, atim, mtim, fst_flags)
}

fn set_times<H: Host>(wasi: &mut Wasi, host: &mut H, inode: InodeId, atim: u64, mtim: u64, fst_flags: u32) -> Call {
    if fst_flags & !(rights::ATIM | rights::ATIM_NOW | rights::MTIM | rights::MTIM_NOW) != 0 {
        return Err(Errno::Inval.into());
    }
    let now = wasi.realtime_ns(host);
    let accessed = chosen_time(fst_flags, rights::ATIM, rights::ATIM_NOW, atim, now)?;
    let modified = chosen_time(fst_flags, rights::MTIM, rights::MTIM_NOW, mtim, now)?;
    wasi.change_vfs(host, |vfs| vfs.set_times(inode, accessed, modified))
}

/// Returns the given time, the current time, or `None` to leave a time unchanged. A request for two of them is an
/// error.
fn chosen_time(flags: u32, given: u32, at_once: u32, time: u64, now: u64) -> Result<Option<u64>, Errno> {
    match (flags & given != 0, flags & at_once != 0) {
        (true, true) => Err(Errno::Inval),
        (true, false) => Ok(Some(time)),
        (false, true) => Ok(Some(now)),
        (false, false) => Ok(None),
    }
}
