//! The WASI calls. Each is a function of the state, the host and the guest's arguments.
//!
//! [`wasi_preview1_functions!`](crate::wasi_preview1_functions) makes these functions methods of [`Wasi`].

mod descriptor;
mod io;
mod path;
mod world;

use descriptor::{
    fd_advise, fd_allocate, fd_close, fd_datasync, fd_fdstat_get, fd_fdstat_set_flags, fd_fdstat_set_rights,
    fd_prestat_dir_name, fd_prestat_get, fd_readdir, fd_renumber, fd_seek, fd_sync, fd_tell,
};
use io::{fd_pread, fd_pwrite, fd_read, fd_write};
use path::{
    fd_filestat_get, fd_filestat_set_size, fd_filestat_set_times, path_create_directory, path_filestat_get,
    path_filestat_set_times, path_link, path_open, path_readlink, path_remove_directory, path_rename, path_symlink,
    path_unlink_file,
};
use world::{
    args_get, args_sizes_get, clock_res_get, clock_time_get, environ_get, environ_sizes_get, poll_oneoff, proc_exit,
    proc_raise, random_get, sched_yield, sock_accept, sock_recv, sock_send, sock_shutdown,
};

use crate::{Errno, Host, Stop, Wasi, host::CallFailure, prices, wasi_preview1_functions};

macro_rules! methods {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)*) => {
        /// The functions of WASI preview 1. The guest receives the error number; [`Stop`] unwinds the guest.
        impl Wasi {
            $(
                $(#[$meta])*
                #[allow(clippy::too_many_arguments, reason = "the signatures are WASI's")]
                pub fn $name<H: Host>(&mut self, host: &mut H, $($arg: $ty),*) -> Result<Errno, Stop> {
                    host.charge(prices::CALL)?;
                    match $name(self, host, $($arg),*) {
                        Ok(()) => Ok(Errno::Success),
                        Err(CallFailure::Errno(errno)) => Ok(errno),
                        Err(CallFailure::Stop(stop)) => Err(stop),
                    }
                }
            )*
        }
    };
}

wasi_preview1_functions!(methods);

/// Lists the 46 functions of `wasi_snapshot_preview1`, so that an embedder generates its imports from the same text
/// that defines the methods of [`Wasi`](crate::Wasi).
///
/// `wasi_preview1_functions!(callback)` expands to one `callback! { … }` with lines of this form:
///
/// ```text
/// $( $(#[$meta:meta])* fn $name:ident( $($arg:ident: $ty:ty),* ) -> $ret:ty; )*
/// ```
///
/// The types match the WebAssembly signature (`u32` for every `i32`). `$ret` is `u32`, or `()` for `proc_exit`. The
/// method is `Wasi::$name(&mut self, host, $($arg),*) -> Result<Errno, Stop>`, and `.map(<$ret>::from)` converts its
/// result to the import's type.
#[macro_export]
macro_rules! wasi_preview1_functions {
    ($callback:ident) => {
        $callback! {
            /// Writes pointers to the arguments to `argv`, and their bytes to `argv_buf`.
            fn args_get(argv: u32, argv_buf: u32) -> u32;
            /// Writes the number of arguments and their total size in bytes.
            fn args_sizes_get(argc: u32, argv_buf_size: u32) -> u32;
            /// Writes pointers to the environment variables to `environ`, and their bytes to `environ_buf`.
            fn environ_get(environ: u32, environ_buf: u32) -> u32;
            /// Writes the number of environment variables and their total size in bytes.
            fn environ_sizes_get(environc: u32, environ_buf_size: u32) -> u32;
            /// Writes a clock's resolution in nanoseconds.
            fn clock_res_get(id: u32, resolution: u32) -> u32;
            /// Writes a clock's value in nanoseconds.
            fn clock_time_get(id: u32, precision: u64, time: u32) -> u32;
            /// Accepts and ignores advice on the use of a file.
            fn fd_advise(fd: u32, offset: u64, len: u64, advice: u32) -> u32;
            /// Ensures that a file is at least `offset + len` bytes long.
            fn fd_allocate(fd: u32, offset: u64, len: u64) -> u32;
            /// Closes a descriptor. A preopened directory remains open (`ENOTSUP`).
            fn fd_close(fd: u32) -> u32;
            /// Does nothing: there is no storage below the file system to synchronize with.
            fn fd_datasync(fd: u32) -> u32;
            /// Writes a descriptor's type, flags and rights.
            fn fd_fdstat_get(fd: u32, stat: u32) -> u32;
            /// Sets a descriptor's flags.
            fn fd_fdstat_set_flags(fd: u32, flags: u32) -> u32;
            /// Reduces a descriptor's rights.
            fn fd_fdstat_set_rights(fd: u32, rights_base: u64, rights_inheriting: u64) -> u32;
            /// Writes the attributes of a descriptor's target.
            fn fd_filestat_get(fd: u32, stat: u32) -> u32;
            /// Truncates a file or extends it with zeros.
            fn fd_filestat_set_size(fd: u32, size: u64) -> u32;
            /// Sets access and modification times.
            fn fd_filestat_set_times(fd: u32, atim: u64, mtim: u64, fst_flags: u32) -> u32;
            /// Reads at an offset.
            fn fd_pread(fd: u32, iovs: u32, iovs_len: u32, offset: u64, nread: u32) -> u32;
            /// Writes the type of a preopen, and the length of its path.
            fn fd_prestat_get(fd: u32, stat: u32) -> u32;
            /// Writes the guest's path of a preopen.
            fn fd_prestat_dir_name(fd: u32, path: u32, path_len: u32) -> u32;
            /// Writes at an offset.
            fn fd_pwrite(fd: u32, iovs: u32, iovs_len: u32, offset: u64, nwritten: u32) -> u32;
            /// Reads at the descriptor's position.
            fn fd_read(fd: u32, iovs: u32, iovs_len: u32, nread: u32) -> u32;
            /// Reads directory entries, starting at `cookie`.
            fn fd_readdir(fd: u32, buf: u32, buf_len: u32, cookie: u64, used: u32) -> u32;
            /// Moves a descriptor to the number of a second open descriptor, which is closed.
            fn fd_renumber(fd: u32, to: u32) -> u32;
            /// Moves the descriptor's position.
            fn fd_seek(fd: u32, offset: i64, whence: u32, position: u32) -> u32;
            /// Does nothing: there is no storage below the file system to synchronize with.
            fn fd_sync(fd: u32) -> u32;
            /// Writes the descriptor's position.
            fn fd_tell(fd: u32, position: u32) -> u32;
            /// Writes at the descriptor's position.
            fn fd_write(fd: u32, iovs: u32, iovs_len: u32, nwritten: u32) -> u32;
            /// Creates a directory.
            fn path_create_directory(fd: u32, path: u32, path_len: u32) -> u32;
            /// Writes the attributes of a path's target.
            fn path_filestat_get(fd: u32, flags: u32, path: u32, path_len: u32, stat: u32) -> u32;
            /// Sets access and modification times of a path's target.
            fn path_filestat_set_times(fd: u32, flags: u32, path: u32, path_len: u32, atim: u64, mtim: u64, fst_flags: u32) -> u32;
            /// Creates a hard link.
            fn path_link(old_fd: u32, old_flags: u32, old_path: u32, old_path_len: u32, new_fd: u32, new_path: u32, new_path_len: u32) -> u32;
            /// Opens a file or directory.
            fn path_open(fd: u32, dirflags: u32, path: u32, path_len: u32, oflags: u32, rights_base: u64, rights_inheriting: u64, fdflags: u32, opened: u32) -> u32;
            /// Reads a symbolic link's target.
            fn path_readlink(fd: u32, path: u32, path_len: u32, buf: u32, buf_len: u32, used: u32) -> u32;
            /// Removes an empty directory.
            fn path_remove_directory(fd: u32, path: u32, path_len: u32) -> u32;
            /// Renames a file or directory.
            fn path_rename(fd: u32, old_path: u32, old_path_len: u32, new_fd: u32, new_path: u32, new_path_len: u32) -> u32;
            /// Creates a symbolic link.
            fn path_symlink(target: u32, target_len: u32, fd: u32, path: u32, path_len: u32) -> u32;
            /// Removes a file or a symbolic link.
            fn path_unlink_file(fd: u32, path: u32, path_len: u32) -> u32;
            /// Waits for clocks. Files and standard input are always ready.
            fn poll_oneoff(subscriptions: u32, events: u32, count: u32, ready: u32) -> u32;
            /// Ends the guest. Always returns [`Stop::Exit`](crate::Stop::Exit).
            fn proc_exit(code: u32) -> ();
            /// Fails with `ENOTSUP`, or `EINVAL` for an unknown signal: there are no signals.
            fn proc_raise(signal: u32) -> u32;
            /// Does nothing: there is only one thread.
            fn sched_yield() -> u32;
            /// Fills a buffer with random bytes.
            fn random_get(buf: u32, len: u32) -> u32;
            /// Fails with `ENOTSOCK`, or `EBADF` for a descriptor that is not open: there are no sockets.
            fn sock_accept(fd: u32, flags: u32, opened: u32) -> u32;
            /// Fails with `ENOTSOCK`, or `EBADF` for a descriptor that is not open: there are no sockets.
            fn sock_recv(fd: u32, iovs: u32, iovs_len: u32, flags: u32, nread: u32, out_flags: u32) -> u32;
            /// Fails with `ENOTSOCK`, or `EBADF` for a descriptor that is not open: there are no sockets.
            fn sock_send(fd: u32, iovs: u32, iovs_len: u32, flags: u32, nwritten: u32) -> u32;
            /// Fails with `ENOTSOCK`, or `EBADF` for a descriptor that is not open: there are no sockets.
            fn sock_shutdown(fd: u32, how: u32) -> u32;
        }
    };
}
