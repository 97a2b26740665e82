//! Opening.

use glovebox_vfs::{FileKind, OpenOptions};

use super::descriptor::fdflags;
use crate::access::{GuestPath, Purpose, RealPath, follow};
use crate::device::Device;
use crate::failure::Call;
use crate::memory::{check, write_u32};
use crate::table::{Descriptor, Target};
use crate::{Errno, Host, Wasi, prices, rights};

/// The arguments of the call apart from the path.
struct Request {
    options: OpenOptions,
    rights_base: u64,
    rights_inheriting: u64,
    flags: u16,
}

impl Request {
    fn descriptor(&self, target: Target) -> Descriptor {
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
    if oflags & !(rights::CREAT | rights::DIRECTORY | rights::EXCL | rights::TRUNC) != 0 {
        return Err(Errno::Inval.into());
    }
    let flags = fdflags(fdflags_)?;
    let options = OpenOptions {
        follow: follow(dirflags)?,
        create: oflags & rights::CREAT != 0,
        exclusive: oflags & rights::EXCL != 0,
        truncate: oflags & rights::TRUNC != 0,
        directory: oflags & rights::DIRECTORY != 0,
        write: rights_base & rights::FD_WRITE != 0,
    };
    let mut needed = rights::PATH_OPEN;
    if options.create {
        needed |= rights::PATH_CREATE_FILE;
    }
    if options.truncate {
        needed |= rights::PATH_FILESTAT_SET_SIZE;
    }
    // Opening a directory for listing counts as a look-up.
    let looks = options.directory && !options.create && !options.truncate && !options.write;
    let purpose = if looks { Purpose::Look } else { Purpose::Use };
    let place = wasi.resolve_path(host, fd, needed, purpose, path, path_len)?;
    // Unknown rights are ignored, because some libraries request all 64 bits.
    let (rights_base, rights_inheriting) = (rights_base & rights::ALL, rights_inheriting & rights::ALL);
    let inherited = wasi.table.get(fd)?.rights_inheriting;
    if (rights_base | rights_inheriting) & !inherited != 0 {
        return Err(Errno::NotCapable.into());
    }
    // Checked before anything is created.
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

fn open_virtual(path: String, request: &Request) -> Result<Target, Errno> {
    let options = &request.options;
    if options.create && options.directory {
        Err(Errno::Inval)
    } else if options.create && options.exclusive {
        Err(Errno::Exist)
    } else if options.write || options.truncate {
        Err(Errno::IsDir)
    } else {
        Ok(Target::Virtual { path })
    }
}

/// Opens a device. There is nothing to create or truncate.
fn open_device(device: Device, request: &Request) -> Result<Target, Errno> {
    let options = &request.options;
    if options.create && options.directory {
        Err(Errno::Inval)
    } else if options.create && options.exclusive {
        Err(Errno::Exist)
    } else if options.directory {
        Err(Errno::NotDir)
    } else {
        Ok(Target::Device(device))
    }
}

/// Reopens the target of a descriptor, with at most the same rights, and with a separate position that starts at the
/// descriptor's. Returns `ENOENT` for a descriptor that is not open, as in Linux, and for a preopen, which is not the
/// script's.
fn open_again(wasi: &mut Wasi, fd: u32, request: &Request) -> Call<Descriptor> {
    let original = wasi.named_descriptor(fd)?.clone();
    let options = &request.options;
    let is_directory = matches!(original.target, Target::Directory { .. } | Target::Virtual { .. });
    if options.create && options.exclusive {
        return Err(Errno::Exist.into());
    }
    if options.directory && !is_directory {
        return Err(Errno::NotDir.into());
    }
    if options.write && original.rights_base & rights::FD_WRITE == 0 {
        return Err(Errno::Acces.into());
    }
    if options.truncate && matches!(original.target, Target::File { .. }) {
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

fn open_real<H: Host>(wasi: &mut Wasi, host: &mut H, place: &RealPath, request: &Request) -> Call<Target> {
    if request.options.create {
        host.charge(prices::DIRECTORY_CHANGE)?;
    }
    let options = request.options;
    let opened = wasi.change_vfs(host, |vfs| vfs.open(place.at, place.path.as_bytes(), options));
    let opened = wasi.watch(&[place], opened)?;
    Ok(match opened.kind {
        FileKind::Directory => Target::Directory { inode: opened.inode },
        FileKind::File | FileKind::Symlink => Target::File { inode: opened.inode, position: 0 },
    })
}
