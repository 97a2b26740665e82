//! A guest's WASI state as bytes, which can be restored in another process.
//!
//! The layout, in the notation of [`glovebox_vfs::encoding`]:
//!
//! ```text
//! version, mounts { path, root }, descriptors { ascending number, target, flags, rights }, standard input { read, rest },
//! clock { monotonic, slept }, generator's position, file system
//! ```

use std::collections::BTreeMap;

use glovebox_vfs::{
    Access, FileKind, InodeId, RootId,
    encoding::{DecodeError, Decoder, Encoder},
    escaped, escaped_text,
};

use crate::{
    Wasi,
    clock::SavedClock,
    device::Device,
    mounts::is_above_a_mount,
    streams::Stdin,
    table::{self, Descriptor, FIRST_FREE, FdTarget, Table},
};

/// The first byte, which identifies the version of the layout.
const VERSION: u8 = 1;

// The numbers of descriptor targets. All other numbers identify devices.
const PREOPEN: u8 = 0;
const STDIN: u8 = 1;
const STDOUT: u8 = 2;
const STDERR: u8 = 3;
const FILE: u8 = 4;
const DIRECTORY: u8 = 5;
const VIRTUAL: u8 = 6;

/// Errors from restoring saved bytes. The state is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes do not encode a saved state.
    #[error(transparent)]
    Damaged(#[from] DecodeError),
    /// The bytes were saved with another version of the layout.
    #[error("the state was saved with layout version {0}; restore it with the release that saved it")]
    Version(u8),
    /// The mount paths, or their order, differ from the saved ones.
    #[error(
        "the state was saved with mounts at {saved}, but the mounts are now at {present}; mount the same paths in the same order",
        saved = escaped_text(.saved), present = escaped_text(.present)
    )]
    OtherMounts {
        /// The paths of the saved mounts.
        saved: String,
        /// The paths of the current mounts.
        present: String,
    },
    /// The root at a mounted path was a host directory when the state was saved, and is in memory now.
    #[error(
        "{0} was a host directory when the state was saved and is in memory now; use the same workspace and mounts"
    )]
    MountNowInMemory(String),
    /// The root at a mounted path was in memory when the state was saved, and is a host directory now.
    #[error(
        "{0} was in memory when the state was saved and is a host directory now; use the same workspace and mounts"
    )]
    MountNowOnHost(String),
    /// The preopened directories of the image differ from the saved ones.
    #[error("the state was saved by a guest with different preopened directories; restore it with the same image")]
    OtherPreopens,
    /// The number of a saved descriptor exceeds the limit on open files. Contains that number plus one.
    #[error("the saved state needs {0} descriptors; raise the limit on open files")]
    OpenFiles(u64),
    /// Linear memory and the unread standard input leave no room within the memory limit.
    #[error("linear memory and the rest of standard input exceed the memory limit; raise the limit")]
    Memory,
    /// A file is open for writing in a mount that is now read-only.
    #[error("a file in `{name}` is open for writing, but the mount is now read-only; mount it read-write", name = escaped(.0))]
    ReadOnly(String),
    /// The saved file system was rejected.
    #[error(transparent)]
    FileSystem(#[from] glovebox_vfs::RestoreError),
}

impl Wasi {
    /// Encodes the guest's own state for [`restore`](Self::restore): descriptors, files (see
    /// [`Vfs::save`](glovebox_vfs::Vfs::save)), unread standard input, clocks, and the generator's position. Equal
    /// states produce equal bytes.
    ///
    /// State that the embedder supplies is not saved: limits, the sources and access of mounts, arguments, environment,
    /// the generator's seed, the clock's source. State of one execution is not saved either: output, events and an
    /// unread tool reply. With [`Clock::Host`](crate::Clock::Host), call [`settle_clock`](Self::settle_clock) first.
    pub fn save(&self) -> Vec<u8> {
        let mut to = Encoder::new();
        to.byte(VERSION);
        to.length(self.mounts.len());
        for mount in &self.mounts {
            to.text(&mount.path);
            to.number(u64::from(mount.root.index()));
        }
        let mut next = 0;
        for (fd, descriptor) in self.table.iter().filter(|(_, descriptor)| self.is_held(descriptor)) {
            // Encode the gap plus one, because 0 marks the end.
            to.number(u64::from(fd).saturating_add(1).saturating_sub(next));
            next = u64::from(fd).saturating_add(1);
            encode_descriptor(&mut to, descriptor);
        }
        to.number(0);
        to.number(self.stdin.position());
        to.run(self.stdin.rest());
        let clock = self.clock.save();
        to.fixed(clock.monotonic_ns);
        to.number(clock.slept_ns);
        let position = self.entropy.position();
        to.byte(u8::from(position.is_some()));
        to.raw(&position.unwrap_or_default().to_le_bytes());
        let open = self.table.iter().filter(|(_, descriptor)| descriptor.preopen.is_none());
        let open = open.filter_map(|(_, descriptor)| descriptor.target.inode()).collect();
        to.raw(&self.vfs.save(&open));
        to.finish()
    }

    /// Returns `true` if a descriptor's target exists. The embedder may have replaced the file system.
    fn is_held(&self, descriptor: &Descriptor) -> bool {
        descriptor.target.inode().is_none_or(|inode| self.vfs.stat(inode).is_ok())
    }
}

fn encode_descriptor(to: &mut Encoder, descriptor: &Descriptor) {
    if let Some(path) = &descriptor.preopen {
        // The embedder determines a preopen's target and rights.
        to.byte(PREOPEN);
        to.text(path);
        to.number(u64::from(descriptor.flags));
        return;
    }
    match &descriptor.target {
        FdTarget::Stdin => to.byte(STDIN),
        FdTarget::Stdout => to.byte(STDOUT),
        FdTarget::Stderr => to.byte(STDERR),
        FdTarget::File { inode, position } => {
            to.byte(FILE);
            to.number(inode.get());
            to.number(*position);
        }
        FdTarget::Directory { inode } => {
            to.byte(DIRECTORY);
            to.number(inode.get());
        }
        FdTarget::Virtual { path } => {
            to.byte(VIRTUAL);
            to.text(path);
        }
        FdTarget::Device(device) => to.byte(device.number()),
    }
    to.number(u64::from(descriptor.flags));
    to.number(descriptor.rights_base);
    to.number(descriptor.rights_inheriting);
}

/// Maximum position in a file: guests represent positions as signed numbers.
const MAX_POSITION: u64 = i64::MAX.unsigned_abs();

/// Maximum position of the generator in 32-bit words: the generator has 2^64 blocks of 16 words.
const MAX_ENTROPY_WORDS: u128 = 1 << 68;

/// Maximum number of mount paths in an error message.
const SHOWN_PATHS: usize = 8;

/// Maximum length of a path in an error message, in characters.
const SHOWN_CHARS: usize = 64;

/// A saved descriptor. Its inode is a number until the file system is restored.
struct SavedDescriptor<'a> {
    target: SavedTarget<'a>,
    flags: u16,
    rights_base: u64,
    rights_inheriting: u64,
}

enum SavedTarget<'a> {
    Preopen { path: &'a str },
    Stream(FdTarget),
    File { number: u64, position: u64 },
    Directory { number: u64 },
    Virtual { path: &'a str },
    Device(Device),
}

impl Wasi {
    /// Restores the output of [`save`](Self::save) into a state that the embedder created for this guest: with the same
    /// mounts in the same order, and with the same image. Keeps this state's limits, mount sources and access,
    /// arguments, environment, clock source, and generator seed.
    ///
    /// The bytes are untrusted. They are accepted only if a guest could have reached the state by calls within the
    /// limits. Set the size of the guest's memory first ([`set_linear_memory_bytes`](Self::set_linear_memory_bytes)),
    /// because the memory counts towards [`WasiLimits::memory_bytes`](crate::WasiLimits::memory_bytes).
    ///
    /// # Errors
    /// Returns [`RestoreError`] if the bytes are rejected. On failure, the state is unchanged.
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
        let bytes = from.raw(16)?.try_into().map_err(|_| DecodeError("it is truncated"))?;
        let words = u128::from_le_bytes(bytes);
        if seeded > 1 || words >= MAX_ENTROPY_WORDS || (seeded == 0 && words != 0) {
            return Err(DecodeError("the generator's position is out of range").into());
        }
        if seeded == 1 {
            next.entropy.set_position(words);
        }
        let ceiling_bytes = next.vfs_ceiling_bytes();
        if ceiling_bytes == 0 {
            return Err(RestoreError::Memory);
        }
        next.vfs.set_available_bytes(ceiling_bytes);
        let open: Vec<u64> = descriptors.values().filter_map(SavedDescriptor::number).collect();
        next.vfs.restore(from.rest(), &open)?;
        next.table = next.restored_table(descriptors)?;
        *self = next;
        Ok(())
    }

    fn check_mounts(&self, from: &mut Decoder<'_>) -> Result<(), RestoreError> {
        let count = usize::try_from(from.number()?).unwrap_or(usize::MAX);
        let mut same = count == self.mounts.len();
        let (mut saved, mut other_kind) = (Vec::new(), None);
        // If the number of mounts differs, read only the mounts that the error message shows.
        for index in 0..if same { count } else { count.min(SHOWN_PATHS) } {
            let (path, root) = (from.text()?, from.number()?);
            let present = self.mounts.get(index);
            same &= present.is_some_and(|mount| mount.path == path);
            // Roots are numbered in creation order, beginning with the roots in memory.
            if let Some(present) = present.map(|mount| u64::from(mount.root.index()))
                && other_kind.is_none()
                && present != root
            {
                other_kind = Some((path, present < root));
            }
            if saved.len() < SHOWN_PATHS {
                saved.push(path);
            }
        }
        if same {
            return match other_kind {
                None => Ok(()),
                Some((path, true)) => Err(RestoreError::MountNowInMemory(format_paths([path], 1))),
                Some((path, false)) => Err(RestoreError::MountNowOnHost(format_paths([path], 1))),
            };
        }
        let present = self.mounts.iter().map(|mount| mount.path.as_str());
        Err(RestoreError::OtherMounts {
            saved: format_paths(saved, count),
            present: format_paths(present, self.mounts.len()),
        })
    }

    fn decode_descriptors<'a>(
        &self,
        from: &mut Decoder<'a>,
    ) -> Result<BTreeMap<u32, SavedDescriptor<'a>>, RestoreError> {
        let mut descriptors = BTreeMap::new();
        // The limit can be exceeded by three: before an execution, closed standard streams are opened again.
        let max = u64::from(self.limits.open_files).saturating_add(u64::from(FIRST_FREE));
        let mut next = 0_u64;
        loop {
            let by = from.number()?;
            if by == 0 {
                return Ok(descriptors);
            }
            next = next.saturating_add(by);
            let fd = next.saturating_sub(1);
            if fd >= max {
                return Err(RestoreError::OpenFiles(next));
            }
            let fd = u32::try_from(fd).map_err(|_| DecodeError("a descriptor's number is too high"))?;
            descriptors.insert(fd, SavedDescriptor::decode(from)?);
        }
    }

    fn restored_table(&self, descriptors: BTreeMap<u32, SavedDescriptor<'_>>) -> Result<Table, RestoreError> {
        let mut preopens = self.table.iter().filter(|(_, descriptor)| descriptor.preopen.is_some());
        let mut table = Table::default();
        for (fd, saved) in descriptors {
            let descriptor = match saved.target {
                SavedTarget::Preopen { path } => {
                    let present = preopens.next();
                    let present = present.filter(|(at, known)| *at == fd && known.preopen.as_deref() == Some(path));
                    let (_, present) = present.ok_or(RestoreError::OtherPreopens)?;
                    let target = match self.mount_root(path) {
                        Some(root) if matches!(present.target, FdTarget::Directory { .. }) => {
                            let inode = self.vfs.root_dir(root).ok_or(RestoreError::OtherPreopens)?;
                            FdTarget::Directory { inode }
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

    /// Restores one of the guest's descriptors. Rejects rights that the guest could not have obtained.
    fn descriptor(&self, saved: SavedDescriptor<'_>) -> Result<Descriptor, RestoreError> {
        let SavedDescriptor { target, flags, rights_base, rights_inheriting } = saved;
        let target = match target {
            SavedTarget::Preopen { .. } => return Err(RestoreError::OtherPreopens),
            SavedTarget::Stream(target) => target,
            SavedTarget::File { number, position } => {
                let (inode, root) = self.opened(number, FileKind::File)?;
                if rights_base & table::FD_WRITE != 0 && self.vfs.access(root) == Some(Access::ReadOnly) {
                    let mount = self.mounts.iter().find(|mount| mount.root == root);
                    return Err(RestoreError::ReadOnly(mount.map(|mount| mount.path.clone()).unwrap_or_default()));
                }
                FdTarget::File { inode, position }
            }
            SavedTarget::Directory { number } => {
                let (inode, _) = self.opened(number, FileKind::Directory)?;
                FdTarget::Directory { inode }
            }
            SavedTarget::Virtual { path } => {
                if path != "/" && !is_above_a_mount(&self.mounts, path) {
                    return Err(DecodeError("a virtual directory is not above any mount").into());
                }
                FdTarget::Virtual { path: path.to_owned() }
            }
            SavedTarget::Device(device) => FdTarget::Device(device),
        };
        let (max_base, max_inheriting) = target.max_rights();
        if rights_base & !max_base != 0 || rights_inheriting & !max_inheriting != 0 {
            return Err(DecodeError("a descriptor has invalid rights").into());
        }
        Ok(Descriptor { target, flags, rights_base, rights_inheriting, preopen: None })
    }

    fn opened(&self, number: u64, kind: FileKind) -> Result<(InodeId, RootId), DecodeError> {
        let inode = self.vfs.inode_numbered(number).ok_or(DecodeError("a descriptor's inode does not exist"))?;
        let stat = self.vfs.stat(inode).map_err(|_| DecodeError("a descriptor's inode does not exist"))?;
        if stat.kind == kind {
            Ok((inode, stat.root))
        } else {
            Err(DecodeError("a descriptor's inode has the wrong type"))
        }
    }
}

impl<'a> SavedDescriptor<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let target = match from.byte()? {
            PREOPEN => SavedTarget::Preopen { path: from.text()? },
            STDIN => SavedTarget::Stream(FdTarget::Stdin),
            STDOUT => SavedTarget::Stream(FdTarget::Stdout),
            STDERR => SavedTarget::Stream(FdTarget::Stderr),
            FILE => SavedTarget::File { number: from.number()?, position: from.number()? },
            DIRECTORY => SavedTarget::Directory { number: from.number()? },
            VIRTUAL => SavedTarget::Virtual { path: from.text()? },
            number => {
                let device = Device::numbered(number).ok_or(DecodeError("a descriptor has an unknown target"))?;
                SavedTarget::Device(device)
            }
        };
        let flags = u16::try_from(from.number()?).ok().filter(|flags| flags & !table::FDFLAGS == 0);
        let flags = flags.ok_or(DecodeError("a descriptor has unknown flags"))?;
        if matches!(target, SavedTarget::File { position, .. } if position > MAX_POSITION) {
            return Err(DecodeError("a descriptor's position is out of range"));
        }
        let (rights_base, rights_inheriting) = match target {
            SavedTarget::Preopen { .. } => (0, 0),
            _ => (from.number()?, from.number()?),
        };
        Ok(Self { target, flags, rights_base, rights_inheriting })
    }

    /// Returns the inode number of the descriptor's target, if it has one.
    fn number(&self) -> Option<u64> {
        match self.target {
            SavedTarget::File { number, .. } | SavedTarget::Directory { number } => Some(number),
            _ => None,
        }
    }
}

/// Formats up to [`SHOWN_PATHS`] of `count` paths for an error message. The paths are untrusted, because they come from
/// saved state, so each is truncated and quoted.
fn format_paths<'a>(paths: impl IntoIterator<Item = &'a str>, count: usize) -> String {
    let clipped = |path: &str| format!("{:?}", path.chars().take(SHOWN_CHARS).collect::<String>());
    let quoted: Vec<String> = paths.into_iter().take(SHOWN_PATHS).map(clipped).collect();
    let more = if count > SHOWN_PATHS { ", …" } else { "" };
    format!("{}{more}", quoted.join(", "))
}
