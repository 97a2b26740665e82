//! Creating, removing, renaming and linking.

use glovebox_vfs::{Vfs, VfsError};

use crate::access::{GuestPath, Purpose, RealPath, follow};
use crate::failure::Call;
use crate::memory::{check, guest_size, read_path, size, write_u32};
use crate::{Errno, Host, Wasi, prices, rights};

/// Runs an operation that changes a directory entry.
fn change<H: Host, T>(
    wasi: &mut Wasi,
    host: &mut H,
    places: &[&RealPath],
    operation: impl FnOnce(&mut Vfs) -> Result<T, VfsError>,
) -> Call<T> {
    host.charge(prices::DIRECTORY_CHANGE)?;
    let result = wasi.change_vfs(host, operation);
    wasi.watch(places, result)
}

pub(super) fn path_create_directory<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, path: u32, path_len: u32) -> Call {
    let place =
        wasi.resolve_path(host, fd, rights::PATH_CREATE_DIRECTORY, Purpose::Use, path, path_len)?.real(Errno::Exist)?;
    let place = wasi.where_made(place)?;
    change(wasi, host, &[&place], |vfs| vfs.create_dir(place.at, place.path.as_bytes()))?;
    Ok(())
}

pub(super) fn path_remove_directory<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, path: u32, path_len: u32) -> Call {
    let place = wasi.resolve_path(host, fd, rights::PATH_REMOVE_DIRECTORY, Purpose::Use, path, path_len)?;
    let otherwise =
        if matches!(place, GuestPath::Device(_) | GuestPath::Descriptor(_)) { Errno::NotDir } else { Errno::Busy };
    let place = place.real(otherwise)?;
    change(wasi, host, &[&place], |vfs| vfs.remove_dir(place.at, place.path.as_bytes()))
}

pub(super) fn path_unlink_file<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, path: u32, path_len: u32) -> Call {
    let place = wasi.resolve_path(host, fd, rights::PATH_UNLINK_FILE, Purpose::Use, path, path_len)?;
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
    let from = wasi
        .resolve_path(host, fd, rights::PATH_RENAME_SOURCE, Purpose::Use, old_path, old_path_len)?
        .real(Errno::Busy)?;
    let to = wasi
        .resolve_path(host, new_fd, rights::PATH_RENAME_TARGET, Purpose::Use, new_path, new_path_len)?
        .real(Errno::Busy)?;
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
        .resolve_path(host, old_fd, rights::PATH_LINK_SOURCE, Purpose::Use, old_path, old_path_len)?
        .real(Errno::Perm)?;
    let to = wasi
        .resolve_path(host, new_fd, rights::PATH_LINK_TARGET, Purpose::Use, new_path, new_path_len)?
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
    let place = wasi.resolve_path(host, fd, rights::PATH_SYMLINK, Purpose::Use, path, path_len)?.real(Errno::Exist)?;
    // If the target is the reason for a refusal, the log shows the target.
    let shown = RealPath { path: target.clone(), below: place.below.clone(), ..place };
    change(wasi, host, &[&place, &shown], |vfs| vfs.symlink(target.as_bytes(), place.at, place.path.as_bytes()))
}

/// Reads a symlink. A target longer than the buffer is truncated, as POSIX requires.
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
    let place =
        wasi.resolve_path(host, fd, rights::PATH_READLINK, Purpose::Look, path, path_len)?.real(Errno::Inval)?;
    let target = wasi.with_vfs(host, |vfs| vfs.read_link(place.at, place.path.as_bytes()));
    let target = wasi.watch(&[&place], target)?;
    let bytes = target.as_bytes();
    let fitting = bytes.get(..size(buf_len)).unwrap_or(bytes);
    host.charge(prices::bytes(u64::try_from(fitting.len()).unwrap_or(u64::MAX)))?;
    host.write(buf, fitting)?;
    write_u32(host, used, guest_size(fitting.len())?)
}
