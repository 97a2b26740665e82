//! Restoring.

use std::collections::BTreeMap;

use glovebox_vfs::encoding::{Damaged, Decoder};
use glovebox_vfs::{Access, FileKind, InodeId, RootId};

use super::{
    DIRECTORY, DISPLAYS, FILE, NULL, PREOPEN, RestoreError, SCRYPT, SPACE, STDERR, STDIN, STDOUT, TOOLS, VERSION,
    VIRTUAL,
};
use crate::clock::SavedClock;
use crate::device::Device;
use crate::mounts::is_above_a_mount;
use crate::stdin::Stdin;
use crate::table::{Descriptor, FIRST_FREE, Table, Target};
use crate::{Wasi, rights};

/// The maximum position in a file, because the guest sees positions as signed numbers.
const MAX_POSITION: u64 = i64::MAX.unsigned_abs();

/// The maximum position of the generator in 32-bit words: it counts 2^64 blocks of 16.
const MAX_ENTROPY_WORDS: u128 = 1 << 68;

/// Maximum number of mounts in a message. No policy has more mounts, and no message needs more.
const SHOWN_PATHS: usize = 8;

/// Maximum length of a path in a message, in characters.
const SHOWN_CHARS: usize = 64;

/// A saved descriptor. Its inodes are numbers until the file system is restored.
struct Saved<'a> {
    target: SavedTarget<'a>,
    flags: u16,
    rights_base: u64,
    rights_inheriting: u64,
}

enum SavedTarget<'a> {
    Preopen { path: &'a str },
    Stream(Target),
    File { number: u64, position: u64 },
    Directory { number: u64 },
    Virtual { path: &'a str },
    Device(Device),
}

impl Wasi {
    /// Restores the output of [`save`](Self::save) into a state that the embedder created for this guest: with the same
    /// mounts in the same order and the same image. Limits, sources, access, clock and generator are this state's.
    ///
    /// The bytes are untrusted: accepted state is state that a guest could have reached by calls within the limits. Set
    /// the size of the guest's memory first ([`set_linear_memory_bytes`](Self::set_linear_memory_bytes)), so that the
    /// common limit holds.
    ///
    /// # Errors
    /// [`RestoreError`]; the state is then unchanged.
    pub fn restore(&mut self, saved: &[u8]) -> Result<(), RestoreError> {
        let mut from = Decoder::new(saved);
        let version = from.byte()?;
        if version != VERSION {
            return Err(RestoreError::Version(version));
        }
        self.check_mounts(&mut from)?;
        let descriptors = self.decode_descriptors(&mut from)?;
        let mut next = self.clone();
        next.stdin = Stdin::resumed(from.number()?, from.run()?.to_vec());
        next.clock.restore(SavedClock { monotonic_ns: from.fixed()?, slept_ns: from.number()? });
        let seeded = from.byte()?;
        let bytes = from.raw(16)?.try_into().map_err(|_| Damaged("it ends too early"))?;
        let words = u128::from_le_bytes(bytes);
        if seeded > 1 || words >= MAX_ENTROPY_WORDS || (seeded == 0 && words != 0) {
            return Err(Damaged("the generator's position is out of range").into());
        }
        if seeded == 1 {
            next.entropy.set_position(words);
        }
        let ceiling_bytes = next.vfs_ceiling_bytes();
        if ceiling_bytes == 0 {
            return Err(RestoreError::Memory);
        }
        next.vfs.set_available_bytes(ceiling_bytes);
        let open: Vec<u64> = descriptors.values().filter_map(Saved::number).collect();
        next.vfs.restore(from.rest(), &open)?;
        next.table = next.restored_table(descriptors)?;
        *self = next;
        Ok(())
    }

    fn check_mounts(&self, from: &mut Decoder<'_>) -> Result<(), RestoreError> {
        let count = usize::try_from(from.number()?).unwrap_or(usize::MAX);
        let mut same = count == self.mounts.len();
        let (mut saved, mut other_kind) = (Vec::new(), None);
        // If the number of mounts differs, only the mounts that the message shows are read.
        for index in 0..if same { count } else { count.min(SHOWN_PATHS) } {
            let (path, root) = (from.text()?, from.number()?);
            let present = self.mounts.get(index);
            same &= present.is_some_and(|mount| mount.path == path);
            // Roots are numbered in the order of creation, starting with those in memory.
            if other_kind.is_none() && present.is_some_and(|mount| u64::from(mount.root.index()) != root) {
                other_kind = Some(path);
            }
            if saved.len() < SHOWN_PATHS {
                saved.push(path);
            }
        }
        if same {
            return match other_kind {
                None => Ok(()),
                Some(path) => Err(RestoreError::OtherMountKind(shown([path], 1))),
            };
        }
        let present = self.mounts.iter().map(|mount| mount.path.as_str());
        Err(RestoreError::OtherMounts { saved: shown(saved, count), present: shown(present, self.mounts.len()) })
    }

    fn decode_descriptors<'a>(&self, from: &mut Decoder<'a>) -> Result<BTreeMap<u32, Saved<'a>>, RestoreError> {
        let mut descriptors = BTreeMap::new();
        // The standard streams are restored in place of any descriptors that the guest opened there.
        let most = u64::from(self.limits.open_files).saturating_add(u64::from(FIRST_FREE));
        let mut next = 0_u64;
        loop {
            let by = from.number()?;
            if by == 0 {
                return Ok(descriptors);
            }
            next = next.saturating_add(by);
            let fd = next.saturating_sub(1);
            if fd >= most {
                return Err(RestoreError::OpenFiles(next));
            }
            let fd = u32::try_from(fd).map_err(|_| Damaged("a descriptor's number is too high"))?;
            descriptors.insert(fd, Saved::decode(from)?);
        }
    }

    fn restored_table(&self, descriptors: BTreeMap<u32, Saved<'_>>) -> Result<Table, RestoreError> {
        let mut preopens = self.table.iter().filter(|(_, descriptor)| descriptor.preopen.is_some());
        let mut table = Table::default();
        for (fd, saved) in descriptors {
            let descriptor = match saved.target {
                SavedTarget::Preopen { path } => {
                    let present = preopens.next();
                    let present = present.filter(|(at, known)| *at == fd && known.preopen.as_deref() == Some(path));
                    let (_, present) = present.ok_or(RestoreError::OtherPreopens)?;
                    let target = match self.mount_root(path) {
                        Some(root) if matches!(present.target, Target::Directory { .. }) => {
                            let inode = self.vfs.root_dir(root).ok_or(RestoreError::OtherPreopens)?;
                            Target::Directory { inode }
                        }
                        _ => present.target.clone(),
                    };
                    Descriptor { target, flags: saved.flags, ..present.clone() }
                }
                _ => self.descriptor(saved)?,
            };
            table.put(fd, descriptor);
        }
        if preopens.next().is_some() { Err(RestoreError::OtherPreopens) } else { Ok(table) }
    }

    /// Returns a descriptor of the guest, with only those rights that it could have obtained.
    fn descriptor(&self, saved: Saved<'_>) -> Result<Descriptor, RestoreError> {
        let Saved { target, flags, rights_base, rights_inheriting } = saved;
        let (target, max_base, max_inheriting) = match target {
            SavedTarget::Preopen { .. } => return Err(RestoreError::OtherPreopens),
            SavedTarget::Stream(Target::Stdin) => (Target::Stdin, rights::INPUT, 0),
            SavedTarget::Stream(target) => (target, rights::OUTPUT, 0),
            SavedTarget::File { number, position } => {
                let (inode, root) = self.opened(number, FileKind::File)?;
                if rights_base & rights::FD_WRITE != 0 && self.vfs.access(root) == Some(Access::ReadOnly) {
                    let mount = self.mounts.iter().find(|mount| mount.root == root);
                    return Err(RestoreError::ReadOnly(mount.map(|mount| mount.path.clone()).unwrap_or_default()));
                }
                (Target::File { inode, position }, rights::ALL, rights::ALL)
            }
            SavedTarget::Directory { number } => {
                let (inode, _) = self.opened(number, FileKind::Directory)?;
                (Target::Directory { inode }, rights::ALL & !rights::FD_WRITE, rights::ALL)
            }
            SavedTarget::Virtual { path } => {
                if path != "/" && !is_above_a_mount(&self.mounts, path) {
                    return Err(Damaged("a virtual directory is not above any mount").into());
                }
                (Target::Virtual { path: path.to_owned() }, rights::ALL & !rights::FD_WRITE, rights::ALL)
            }
            SavedTarget::Device(device) => (Target::Device(device), rights::DEVICE, 0),
        };
        if rights_base & !max_base != 0 || rights_inheriting & !max_inheriting != 0 {
            return Err(Damaged("a descriptor has invalid rights").into());
        }
        // Earlier releases gave files and directories rights that do not apply to them.
        Ok(Descriptor::opened(target, flags, rights_base, rights_inheriting))
    }

    fn opened(&self, number: u64, kind: FileKind) -> Result<(InodeId, RootId), Damaged> {
        let inode = self.vfs.inode_numbered(number).ok_or(Damaged("a descriptor's inode does not exist"))?;
        let stat = self.vfs.stat(inode).map_err(|_| Damaged("a descriptor's inode does not exist"))?;
        if stat.kind == kind { Ok((inode, stat.root)) } else { Err(Damaged("a descriptor's inode has another type")) }
    }
}

impl<'a> Saved<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Damaged> {
        let target = match from.byte()? {
            PREOPEN => SavedTarget::Preopen { path: from.text()? },
            STDIN => SavedTarget::Stream(Target::Stdin),
            STDOUT => SavedTarget::Stream(Target::Stdout),
            STDERR => SavedTarget::Stream(Target::Stderr),
            FILE => SavedTarget::File { number: from.number()?, position: from.number()? },
            DIRECTORY => SavedTarget::Directory { number: from.number()? },
            VIRTUAL => SavedTarget::Virtual { path: from.text()? },
            TOOLS => SavedTarget::Device(Device::Tools),
            NULL => SavedTarget::Device(Device::Null),
            DISPLAYS => SavedTarget::Device(Device::Displays),
            SPACE => SavedTarget::Device(Device::Space),
            SCRYPT => SavedTarget::Device(Device::Scrypt),
            _ => return Err(Damaged("a descriptor has an unknown target")),
        };
        let flags = u16::try_from(from.number()?).ok().filter(|flags| flags & !rights::FDFLAGS == 0);
        let flags = flags.ok_or(Damaged("a descriptor has unknown flags"))?;
        if matches!(target, SavedTarget::File { position, .. } if position > MAX_POSITION) {
            return Err(Damaged("a descriptor's position is out of range"));
        }
        let (rights_base, rights_inheriting) = match target {
            SavedTarget::Preopen { .. } => (0, 0),
            _ => (from.number()?, from.number()?),
        };
        Ok(Self { target, flags, rights_base, rights_inheriting })
    }

    /// Returns the number of the descriptor's inode.
    fn number(&self) -> Option<u64> {
        match self.target {
            SavedTarget::File { number, .. } | SavedTarget::Directory { number } => Some(number),
            _ => None,
        }
    }
}

/// Returns the first `count` paths, for a message. The saved paths are untrusted.
fn shown<'a>(paths: impl IntoIterator<Item = &'a str>, count: usize) -> String {
    let clipped = |path: &str| format!("{:?}", path.chars().take(SHOWN_CHARS).collect::<String>());
    let quoted: Vec<String> = paths.into_iter().take(SHOWN_PATHS).map(clipped).collect();
    let more = if count > SHOWN_PATHS { ", …" } else { "" };
    format!("{}{more}", quoted.join(", "))
}
