//! Calls on descriptors: attributes, positions, closing, renumbering, and reading directories.

use glovebox_vfs::{DirEntry, FileKind, InodeId};

use crate::{
    Errno, Host, Stop, Wasi,
    device::Device,
    host::Call,
    memory::{self, check, guest_size, size, write_u32, write_u64},
    mounts::{children, virtual_inode},
    prices,
    table::{self, Descriptor, FdTarget},
};

pub(super) fn fd_fdstat_get<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, stat: u32) -> Call {
    // The guest has requested parking with `PARK_FRAME`, and is parked at its next query of standard input.
    if fd == 0 && wasi.park.take() {
        return Err(Stop::Parked.into());
    }
    let Descriptor { target, flags, rights_base, rights_inheriting, .. } = wasi.table.get(fd)?;
    let file_type = match target {
        // The standard streams are not reported as character devices, because the C library treats a character device
        // that cannot seek as a terminal.
        FdTarget::Stdin | FdTarget::Stdout | FdTarget::Stderr => memory::UNKNOWN,
        FdTarget::File { .. } => memory::REGULAR,
        FdTarget::Directory { .. } | FdTarget::Virtual { .. } => memory::DIRECTORY,
        FdTarget::Device(_) => memory::CHARACTER_DEVICE,
    };
    Ok(host.write(stat, &memory::fdstat(file_type, *flags, *rights_base, *rights_inheriting))?)
}

pub(super) fn fd_fdstat_set_flags<H: Host>(wasi: &mut Wasi, _: &mut H, fd: u32, flags: u32) -> Call {
    let descriptor = wasi.table.get_mut(fd)?;
    let flags = fdflags(flags)?;
    descriptor.require(table::FD_FDSTAT_SET_FLAGS)?;
    descriptor.flags = flags;
    Ok(())
}

/// Decodes `fdflags`. Unknown flags are an error.
pub(super) fn fdflags(flags: u32) -> Result<u16, Errno> {
    let flags = u16::try_from(flags).map_err(|_| Errno::Inval)?;
    if flags & !table::FDFLAGS == 0 { Ok(flags) } else { Err(Errno::Inval) }
}

/// Reduces a descriptor's rights. Rights cannot be added.
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
    // A preopen's rights do not change, because a script must not break the preopen for later executions.
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

/// Moves a descriptor to a number that need not be open.
pub(super) fn assign(wasi: &mut Wasi, from: u32, to: u32) -> Call {
    if [from, to].into_iter().any(|fd| wasi.table.get(fd).is_ok_and(|descriptor| descriptor.preopen.is_some())) {
        return Err(Errno::NotSup.into());
    }
    if let Some(replaced) = wasi.table.assign(from, to, wasi.limits.open_files)? {
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

/// Returns a descriptor's file and position, or an error if the descriptor is not seekable.
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

/// Returns `true` if a descriptor refers to the null device, whose position is always 0.
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
    // Reading the position requires fewer rights than moving it.
    let asking = whence == CURRENT && offset == 0;
    let right = if asking { table::FD_TELL } else { table::FD_SEEK };
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
    // Guests represent positions as signed numbers.
    let to = from.checked_add_signed(offset).filter(|to| i64::try_from(*to).is_ok()).ok_or(Errno::Inval)?;
    if let FdTarget::File { position, .. } = &mut wasi.table.get_mut(fd)?.target {
        *position = to;
    }
    write_u64(host, position, to)
}

pub(super) fn fd_tell<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, position: u32) -> Call {
    let current = if is_null(wasi, fd, table::FD_TELL)? { 0 } else { seekable(wasi, fd, table::FD_TELL)?.1 };
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
    wasi.table.get(fd)?.require(table::FD_ALLOCATE).map_err(|_| Errno::Badf)?;
    wasi.change_vfs(host, |vfs| vfs.allocate(inode, offset, len))
}

/// The number of entries requested from the file system at once: enough to fill the C library's buffer of 4 KiB, and
/// few enough to bound the host memory for one call.
const BATCH: usize = 128;

/// A directory entry as the guest sees it.
struct Entry {
    next_cookie: u64,
    inode: u64,
    file_type: u8,
    name: String,
}

/// Encodes directory entries. The last entry is truncated at the end of the buffer, which tells the guest that there
/// are more entries.
pub(super) fn fd_readdir<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    fd: u32,
    buf: u32,
    buf_len: u32,
    cookie: u64,
    used: u32,
) -> Call {
    check(host, used, 4)?;
    check(host, buf, u64::from(buf_len))?;
    let descriptor = wasi.table.get(fd)?;
    let target = descriptor.target.clone();
    if !matches!(target, FdTarget::Directory { .. } | FdTarget::Virtual { .. }) {
        return Err(Errno::NotDir.into());
    }
    descriptor.require(table::FD_READDIR)?;
    let mut packer = Packer { at: buf, room: buf_len, used: 0 };
    let mut cookie = cookie;
    while packer.room > 0 {
        let entries = match &target {
            FdTarget::Directory { inode } => {
                // An entry occupies at least its header and one byte.
                let wanted = (size(packer.room) / memory::DIRENT_BYTES).saturating_add(1).min(BATCH);
                list(wasi, host, *inode, cookie, wanted)?
            }
            FdTarget::Virtual { path } => list_virtual(wasi, path, cookie)?,
            _ => return Err(Errno::NotDir.into()),
        };
        let Some(last) = entries.last() else { break };
        cookie = last.next_cookie;
        for entry in &entries {
            if packer.room == 0 {
                break;
            }
            host.charge(prices::DIRECTORY_ENTRY)?;
            packer.pack(host, entry)?;
        }
    }
    write_u32(host, used, packer.used)
}

struct Packer {
    at: u32,
    room: u32,
    used: u32,
}

impl Packer {
    fn pack<H: Host>(&mut self, host: &mut H, entry: &Entry) -> Call {
        let name = entry.name.as_bytes();
        let header = memory::dirent(entry.next_cookie, entry.inode, guest_size(name.len())?, entry.file_type);
        for bytes in [header.as_slice(), name] {
            let fitting = bytes.get(..size(self.room)).unwrap_or(bytes);
            let len = guest_size(fitting.len())?;
            host.write(self.at, fitting)?;
            // The addition saturates only at the end of a full memory.
            self.at = self.at.saturating_add(len);
            self.room = self.room.saturating_sub(len);
            self.used = self.used.saturating_add(len);
            if self.room == 0 {
                break;
            }
        }
        Ok(())
    }
}

fn list<H: Host>(wasi: &mut Wasi, host: &mut H, inode: InodeId, cookie: u64, wanted: usize) -> Call<Vec<Entry>> {
    let entries = wasi.with_vfs(host, |vfs| vfs.read_dir(inode, cookie, wanted))?;
    let entry = |entry: DirEntry| Entry {
        next_cookie: entry.next_cookie,
        inode: entry.inode.get(),
        file_type: memory::file_type(entry.kind),
        name: entry.name.as_ref().to_owned(),
    };
    Ok(entries.into_iter().map(entry).collect())
}

/// Lists a directory above the mounts. Apart from `.` and `..`, the directory has at most as many entries as there are
/// mounts. The cookie is an entry's position.
fn list_virtual(wasi: &Wasi, path: &str, cookie: u64) -> Result<Vec<Entry>, Errno> {
    let directory = memory::file_type(FileKind::Directory);
    let parent = path.rsplit_once('/').map_or("/", |(parent, _)| parent);
    let mut all = vec![
        (".".to_owned(), virtual_inode(path)),
        ("..".to_owned(), virtual_inode(if parent.is_empty() { "/" } else { parent })),
    ];
    for (name, root) in children(&wasi.mounts, path) {
        let inode = match root {
            Some(root) => wasi.root_dir(root)?.get(),
            None => virtual_inode(&format!("{}/{name}", path.trim_end_matches('/'))),
        };
        all.push((name, inode));
    }
    let mut entries = Vec::new();
    for ((name, inode), next_cookie) in all.into_iter().zip(1_u64..) {
        if next_cookie > cookie {
            entries.push(Entry { next_cookie, inode, file_type: directory, name });
        }
    }
    Ok(entries)
}
