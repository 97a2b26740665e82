//! The calls, each a function of the state, the host and the guest's arguments.
//!
//! [`wasi_preview1_functions!`](crate::wasi_preview1_functions) makes them methods of [`Wasi`].

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
        /// The functions of WASI preview 1. The error number is the guest's result; [`Stop`] unwinds the guest.
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
