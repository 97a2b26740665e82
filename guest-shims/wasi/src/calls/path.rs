//! Calls on paths (opening, creating, removing, renaming and linking), and calls that read or set attributes.

use glovebox_vfs::{FileKind, InodeId, OpenOptions, Vfs, VfsError};

use super::descriptor::{self, fdflags};
use crate::{
    Errno, Host, Wasi,
    access::{GuestPath, Purpose, RealPath, follow},
    device::Device,
    host::Call,
    memory::{self, FileStat, check, guest_size, read_path, size, write_u32},
    mounts::virtual_inode,
    prices,
    table::{self, Descriptor, FdTarget},
};

/// Runs an operation that changes a directory entry.
fn change<H: Host, T>(
    wasi: &mut Wasi,
    host: &mut H,
    places: &[&RealPath],
    operation: impl FnOnce(&mut Vfs) -> Result<T, VfsError>,
) -> Call<T> {
    host.charge(prices::DIRECTORY_CHANGE)?;
    let result = wasi.change_vfs(host, operation);
    wasi.record_escape(places, result)
}

pub(super) fn path_create_directory<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, path: u32, path_len: u32) -> Call {
    let place =
        wasi.resolve_path(host, fd, table::PATH_CREATE_DIRECTORY, Purpose::Use, path, path_len)?.real(Errno::Exist)?;
    let place = wasi.creation_path(place)?;
    change(wasi, host, &[&place], |vfs| vfs.create_dir(place.at, place.path.as_bytes()))?;
    Ok(())
}

pub(super) fn path_remove_directory<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, path: u32, path_len: u32) -> Call {
    let place = wasi.resolve_path(host, fd, table::PATH_REMOVE_DIRECTORY, Purpose::Use, path, path_len)?;
    let otherwise =
        if matches!(place, GuestPath::Device(_) | GuestPath::Descriptor(_)) { Errno::NotDir } else { Errno::Busy };
    let place = place.real(otherwise)?;
    change(wasi, host, &[&place], |vfs| vfs.remove_dir(place.at, place.path.as_bytes()))
}

pub(super) fn path_unlink_file<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, path: u32, path_len: u32) -> Call {
    let place = wasi.resolve_path(host, fd, table::PATH_UNLINK_FILE, Purpose::Use, path, path_len)?;
    let otherwise =
        if matches!(place, GuestPath::Device(_) | GuestPath::Descriptor(_)) { Errno::Busy } else { Errno::IsDir };
    let place = place.real(otherwise)?;
    change(wasi, host, &[&place], |vfs| vfs.unlink(place.at, place.path.as_bytes()))
}

#[expect(clippy::too_many_arguments, reason = "the signature is WASI's")]
pub(super) fn path_rename<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    fd: u32,
    old_path: u32,
    old_path_len: u32,
    new_fd: u32,
    new_path: u32,
    new_path_len: u32,
) -> Call {
    let from = wasi.resolve_path(host, fd, table::PATH_RENAME_SOURCE, Purpose::Use, old_path, old_path_len)?;
    let to = wasi.resolve_path(host, new_fd, table::PATH_RENAME_TARGET, Purpose::Use, new_path, new_path_len)?;
    if let (GuestPath::Descriptor(from), GuestPath::Descriptor(to)) = (&from, &to) {
        // Renaming `/dev/fd/FROM` to `/dev/fd/TO` moves a descriptor. The driver's `os.dup2` uses this rename, because
        // the C library has no `dup2`.
        return descriptor::assign(wasi, *from, *to);
    }
    let (from, to) = (from.real(Errno::Busy)?, to.real(Errno::Busy)?);
    change(wasi, host, &[&from, &to], |vfs| vfs.rename(from.at, from.path.as_bytes(), to.at, to.path.as_bytes()))
}

#[expect(clippy::too_many_arguments, reason = "the signature is WASI's")]
pub(super) fn path_link<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    old_fd: u32,
    old_flags: u32,
    old_path: u32,
    old_path_len: u32,
    new_fd: u32,
    new_path: u32,
    new_path_len: u32,
) -> Call {
    let follow = follow(old_flags)?;
    let from = wasi
        .resolve_path(host, old_fd, table::PATH_LINK_SOURCE, Purpose::Use, old_path, old_path_len)?
        .real(Errno::Perm)?;
    let to = wasi
        .resolve_path(host, new_fd, table::PATH_LINK_TARGET, Purpose::Use, new_path, new_path_len)?
        .real(Errno::Exist)?;
    change(wasi, host, &[&from, &to], |vfs| vfs.link(from.at, from.path.as_bytes(), follow, to.at, to.path.as_bytes()))
}

pub(super) fn path_symlink<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    target: u32,
    target_len: u32,
    fd: u32,
    path: u32,
    path_len: u32,
) -> Call {
    let target = read_path(host, target, target_len)?;
    let place = wasi.resolve_path(host, fd, table::PATH_SYMLINK, Purpose::Use, path, path_len)?.real(Errno::Exist)?;
    // If the target causes a refusal, the event log records the target.
    let shown = RealPath { path: target.clone(), below: place.below.clone(), ..place };
    change(wasi, host, &[&place, &shown], |vfs| vfs.symlink(target.as_bytes(), place.at, place.path.as_bytes()))
}

/// Reads a symlink. A target that is longer than the buffer is truncated, as POSIX requires.
#[expect(clippy::too_many_arguments, reason = "the signature is WASI's")]
pub(super) fn path_readlink<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    fd: u32,
    path: u32,
    path_len: u32,
    buf: u32,
    buf_len: u32,
    used: u32,
) -> Call {
    check(host, used, 4)?;
    check(host, buf, u64::from(buf_len))?;
    let place = wasi.resolve_path(host, fd, table::PATH_READLINK, Purpose::Look, path, path_len)?.real(Errno::Inval)?;
    let target = wasi.with_vfs(host, |vfs| vfs.read_link(place.at, place.path.as_bytes()));
    let target = wasi.record_escape(&[&place], target)?;
    let bytes = target.as_bytes();
    let fitting = bytes.get(..size(buf_len)).unwrap_or(bytes);
    host.charge(prices::bytes(u64::try_from(fitting.len()).unwrap_or(u64::MAX)))?;
    host.write(buf, fitting)?;
    write_u32(host, used, guest_size(fitting.len())?)
}

/// The arguments of `path_open`, except the path.
struct Request {
    options: OpenOptions,
    rights_base: u64,
    rights_inheriting: u64,
    flags: u16,
}

impl Request {
    fn descriptor(&self, target: FdTarget) -> Descriptor {
        Descriptor::opened(target, self.flags, self.rights_base, self.rights_inheriting)
    }
}

#[expect(clippy::too_many_arguments, reason = "the signature is WASI's")]
pub(super) fn path_open<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    fd: u32,
    dirflags: u32,
    path: u32,
    path_len: u32,
    oflags: u32,
    rights_base: u64,
    rights_inheriting: u64,
    fdflags_: u32,
    opened: u32,
) -> Call {
    check(host, opened, 4)?;
    if oflags & !(table::CREAT | table::DIRECTORY | table::EXCL | table::TRUNC) != 0 {
        return Err(Errno::Inval.into());
    }
    let flags = fdflags(fdflags_)?;
    let options = OpenOptions {
        follow: follow(dirflags)?,
        create: oflags & table::CREAT != 0,
        exclusive: oflags & table::EXCL != 0,
        truncate: oflags & table::TRUNC != 0,
        directory: oflags & table::DIRECTORY != 0,
        write: rights_base & table::FD_WRITE != 0,
    };
    let mut needed = table::PATH_OPEN;
    if options.create {
        needed |= table::PATH_CREATE_FILE;
    }
    if options.truncate {
        needed |= table::PATH_FILESTAT_SET_SIZE;
    }
    // Opening a directory for listing is treated as a lookup.
    let looks = options.directory && !options.create && !options.truncate && !options.write;
    let purpose = if looks { Purpose::Look } else { Purpose::Use };
    let place = wasi.resolve_path(host, fd, needed, purpose, path, path_len)?;
    // Unknown rights are ignored, because some libraries request all 64 bits.
    let (rights_base, rights_inheriting) = (rights_base & table::ALL, rights_inheriting & table::ALL);
    let inherited = wasi.table.get(fd)?.rights_inheriting;
    if (rights_base | rights_inheriting) & !inherited != 0 {
        return Err(Errno::NotCapable.into());
    }
    // Check before opening, so that a refused call does not create a file.
    if !wasi.table.has_room(wasi.limits.open_files) {
        wasi.events.open_file_limit();
        return Err(Errno::Mfile.into());
    }
    let request = Request { options, rights_base, rights_inheriting, flags };
    let descriptor = match place {
        GuestPath::Virtual { path } => request.descriptor(open_virtual(path, &request)?),
        GuestPath::Device(device) => request.descriptor(open_device(device, &request)?),
        GuestPath::Descriptor(fd) => open_again(wasi, fd, &request)?,
        GuestPath::Real(place) => request.descriptor(open_real(wasi, host, &place, &request)?),
    };
    match wasi.table.insert(descriptor, wasi.limits.open_files) {
        Ok(fd) => write_u32(host, opened, fd),
        Err(refused) => {
            wasi.release(&refused);
            Err(Errno::Mfile.into())
        }
    }
}

fn open_virtual(path: String, request: &Request) -> Result<FdTarget, Errno> {
    let options = &request.options;
    if options.create && options.directory {
        Err(Errno::Inval)
    } else if options.create && options.exclusive {
        Err(Errno::Exist)
    } else if options.write || options.truncate {
        Err(Errno::IsDir)
    } else {
        Ok(FdTarget::Virtual { path })
    }
}

/// Opens a device. Truncating it has no effect, and exclusive creation fails.
fn open_device(device: Device, request: &Request) -> Result<FdTarget, Errno> {
    let options = &request.options;
    if options.create && options.directory {
        Err(Errno::Inval)
    } else if options.create && options.exclusive {
        Err(Errno::Exist)
    } else if options.directory {
        Err(Errno::NotDir)
    } else {
        Ok(FdTarget::Device(device))
    }
}

/// Reopens the target of a descriptor, with at most the same rights, and with a separate position that starts at the
/// descriptor's position. Returns `ENOENT` for a descriptor that is not open, as in Linux, and for a preopen, because
/// the script did not open it.
fn open_again(wasi: &mut Wasi, fd: u32, request: &Request) -> Call<Descriptor> {
    let original = wasi.named_descriptor(fd)?.clone();
    let options = &request.options;
    let is_directory = matches!(original.target, FdTarget::Directory { .. } | FdTarget::Virtual { .. });
    if options.create && options.exclusive {
        return Err(Errno::Exist.into());
    }
    if options.directory && !is_directory {
        return Err(Errno::NotDir.into());
    }
    if options.write && original.rights_base & table::FD_WRITE == 0 {
        return Err(Errno::Acces.into());
    }
    if options.truncate && matches!(original.target, FdTarget::File { .. }) {
        return Err(Errno::Inval.into());
    }
    if let Some(inode) = original.target.inode() {
        wasi.vfs.retain(inode).map_err(|_| Errno::NoEnt)?;
    }
    Ok(Descriptor {
        rights_base: original.rights_base & request.rights_base,
        rights_inheriting: original.rights_inheriting & request.rights_inheriting,
        flags: original.flags | request.flags,
        ..original
    })
}

fn open_real<H: Host>(wasi: &mut Wasi, host: &mut H, place: &RealPath, request: &Request) -> Call<FdTarget> {
    if request.options.create {
        host.charge(prices::DIRECTORY_CHANGE)?;
    }
    let options = request.options;
    let opened = wasi.change_vfs(host, |vfs| vfs.open(place.at, place.path.as_bytes(), options));
    let opened = wasi.record_escape(&[place], opened)?;
    Ok(match opened.kind {
        FileKind::Directory => FdTarget::Directory { inode: opened.inode },
        FileKind::File | FileKind::Symlink => FdTarget::File { inode: opened.inode, position: 0 },
    })
}

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
    let found = match wasi.resolve_path(host, fd, table::PATH_FILESTAT_GET, Purpose::Look, path, path_len)? {
        GuestPath::Virtual { path } => virtual_stat(&path),
        GuestPath::Device(device) => device_stat(device),
        GuestPath::Descriptor(fd) => {
            wasi.named_descriptor(fd)?;
            stat_descriptor(wasi, host, fd)?
        }
        GuestPath::Real(place) => {
            let looked_up = wasi.with_vfs(host, |vfs| vfs.lookup(place.at, place.path.as_bytes(), follow));
            let inode = wasi.record_escape(&[&place], looked_up)?;
            stat_inode(wasi, host, inode)?
        }
    };
    Ok(host.write(stat, &found.encode())?)
}

fn stat_descriptor<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32) -> Call<FileStat> {
    let descriptor = wasi.table.get(fd)?;
    descriptor.require(table::FD_FILESTAT_GET)?;
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
    FileStat { inode: virtual_inode(path), file_type: memory::DIRECTORY, links: 1, ..FileStat::default() }
}

fn device_stat(device: Device) -> FileStat {
    let inode = virtual_inode(device.path());
    FileStat { inode, file_type: memory::CHARACTER_DEVICE, links: 1, ..FileStat::default() }
}

pub(super) fn fd_filestat_set_size<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, size: u64) -> Call {
    let descriptor = wasi.table.get(fd)?;
    let FdTarget::File { inode, .. } = descriptor.target else {
        return Err(Errno::Inval.into());
    };
    // POSIX allows `EBADF` and `EINVAL` for a descriptor that was not opened for writing.
    descriptor.require(table::FD_FILESTAT_SET_SIZE).map_err(|_| Errno::Badf)?;
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
    descriptor.require(table::FD_FILESTAT_SET_TIMES)?;
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
    let place =
        wasi.resolve_path(host, fd, table::PATH_FILESTAT_SET_TIMES, Purpose::Use, path, path_len)?.real(Errno::Rofs)?;
    let looked_up = wasi.with_vfs(host, |vfs| vfs.lookup(place.at, place.path.as_bytes(), follow));
    let inode = wasi.record_escape(&[&place], looked_up)?;
    set_times(wasi, host, inode, atim, mtim, fst_flags)
}

fn set_times<H: Host>(wasi: &mut Wasi, host: &mut H, inode: InodeId, atim: u64, mtim: u64, fst_flags: u32) -> Call {
    if fst_flags & !(table::ATIM | table::ATIM_NOW | table::MTIM | table::MTIM_NOW) != 0 {
        return Err(Errno::Inval.into());
    }
    let now = wasi.realtime_ns(host);
    let accessed = chosen_time(fst_flags, table::ATIM, table::ATIM_NOW, atim, now)?;
    let modified = chosen_time(fst_flags, table::MTIM, table::MTIM_NOW, mtim, now)?;
    wasi.change_vfs(host, |vfs| vfs.set_times(inode, accessed, modified))
}

/// Returns the given time, the current time, or `None` to leave a time unchanged. Fails if both times are requested.
fn chosen_time(flags: u32, given: u32, at_once: u32, time: u64, now: u64) -> Result<Option<u64>, Errno> {
    match (flags & given != 0, flags & at_once != 0) {
        (true, true) => Err(Errno::Inval),
        (true, false) => Ok(Some(time)),
        (false, true) => Ok(Some(now)),
        (false, false) => Ok(None),
    }
}
