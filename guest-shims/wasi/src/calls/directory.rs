//! Reading directories.

use glovebox_vfs::{DirEntry, FileKind, InodeId};

use crate::{
    Errno, Host, Wasi,
    host::Call,
    layout,
    memory::{check, guest_size, size, write_u32},
    mounts::{children, virtual_inode},
    prices, rights,
    table::FdTarget,
};

/// Number of entries requested from the file system at once: enough to fill the C library's buffer of 4 KiB, and a
/// bound on the host memory of one call.
const BATCH: usize = 128;

/// An entry in the guest's view.
struct Entry {
    next_cookie: u64,
    inode: u64,
    file_type: u8,
    name: String,
}

/// Packs entries. The last one is truncated at the end of the buffer, which tells the guest that there are more.
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
    descriptor.require(rights::FD_READDIR)?;
    let mut packer = Packer { at: buf, room: buf_len, used: 0 };
    let mut cookie = cookie;
    while packer.room > 0 {
        let entries = match &target {
            FdTarget::Directory { inode } => {
                // An entry takes at least its header and one byte.
                let wanted = (size(packer.room) / layout::DIRENT_BYTES).saturating_add(1).min(BATCH);
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
        let header = layout::dirent(entry.next_cookie, entry.inode, guest_size(name.len())?, entry.file_type);
        for bytes in [header.as_slice(), name] {
            let fitting = bytes.get(..size(self.room)).unwrap_or(bytes);
            let len = guest_size(fitting.len())?;
            host.write(self.at, fitting)?;
            // Saturates only at the end of a full memory.
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
        file_type: layout::file_type(entry.kind),
        name: entry.name.as_ref().to_owned(),
    };
    Ok(entries.into_iter().map(entry).collect())
}

/// Lists a directory above the mounts, which has at most as many entries as there are mounts. The cookie counts them.
fn list_virtual(wasi: &Wasi, path: &str, cookie: u64) -> Result<Vec<Entry>, Errno> {
    let directory = layout::file_type(FileKind::Directory);
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
