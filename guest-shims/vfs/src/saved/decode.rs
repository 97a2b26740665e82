//! Decodes saved inodes. `tree.rs` checks that the inodes form a file system.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    CHARGED_TO_MOUNT, DIRECTORY, GONE, KIND, MAX_INODES, MOUNTED, PRIVATE, RestoreError, SYMLINK, VERSION, WRITTEN,
    tree::Tree,
};
use crate::{
    changes::{ChangedNames, Journal, PreviousTarget, charge},
    encoding::{DecodeError, Decoder},
    entries::{Entries, FIRST_PLACE},
    files::Chunks,
    inode::{Body, Content, FileKind, Inode, InodeId, Link, ListingState, Name, RootId, SourcePath, Table, Times},
    limits::{INODE_BYTES, MAX_FILE_BYTES, Usage, data_charge, entry_charge, length, workspace_charge},
    mount::{FileIdentity, SourceStat},
    vfs::{Access, Root, Vfs, VfsState},
};

impl Vfs {
    /// Restores the state that [`save`](Self::save) encoded: all roots with their content, under this file system's
    /// quotas, access and sources. This file system must have the same number of roots as the saved one, with sources
    /// for the same roots. A new period of [`changes`](Self::changes) begins; uncommitted changes remain uncommitted.
    ///
    /// `open` contains the numbers of the inodes that the guest has open, once for each reference. These references
    /// replace the existing references. The bytes are untrusted: they are accepted only if a guest could have produced
    /// the state within the quotas. The cost is proportional to the number of bytes.
    ///
    /// # Errors
    /// Returns [`RestoreError`] if the bytes are rejected. On failure, the file system is unchanged.
    pub fn restore(&mut self, saved: &[u8], open: &[u64]) -> Result<(), RestoreError> {
        let mut from = Decoder::new(saved);
        let version = from.byte()?;
        if version != VERSION {
            return Err(RestoreError::Version(version));
        }
        let mut reader = Reader { from, vfs: self, usage: Usage::default(), made_bytes: 0 };
        let now_ns = reader.from.fixed()?;
        let next = reader.from.number()?;
        if next >= MAX_INODES {
            return Err(DecodeError("an inode's number is too high").into());
        }
        let roots = reader.roots(next)?;
        let mut read = reader.inodes(roots, next)?;
        reader.from.finish()?;
        let usage = reader.usage;
        let mut references = BTreeMap::new();
        for &number in open {
            let count: &mut u64 = references.entry(InodeId(number)).or_default();
            *count = count.saturating_add(1);
        }
        let usage = Tree { read: &mut read, vfs: self, open: &references, usage }.assemble()?;
        let DecodedState { table, roots, .. } = read;
        self.state = Arc::new(VfsState { table, roots, open: references, usage });
        self.cache = Arc::default();
        self.now_ns = now_ns;
        self.note_peak();
        Ok(())
    }

    /// Returns the inode with this number, if it exists.
    pub fn inode_numbered(&self, number: u64) -> Option<InodeId> {
        let id = InodeId(number);
        self.state.table.get(id).map(|_| id)
    }
}

struct Reader<'a, 'b> {
    from: Decoder<'b>,
    vfs: &'a Vfs,
    usage: Usage,
    /// The charge for names that journals record as created. Each name must be an entry of the workspace, so the final
    /// charge is at least this high.
    made_bytes: u64,
}

impl<'b> Reader<'_, 'b> {
    fn roots(&mut self, next: u64) -> Result<Vec<Root>, RestoreError> {
        let count = self.from.number()?;
        if count != u64::try_from(self.vfs.state.roots.len()).unwrap_or(u64::MAX) {
            return Err(RestoreError::OtherRoots);
        }
        let mut roots = Vec::new();
        for present in &self.vfs.state.roots {
            if self.from.byte()? != u8::from(present.source.is_some()) {
                return Err(RestoreError::OtherRoots);
            }
            let dir = InodeId(check_below(self.from.number()?, next)?);
            let committed = Arc::new(self.journal(next)?);
            roots.push(Root { dir, marked: Arc::default(), committed, ..present.clone() });
        }
        Ok(roots)
    }

    fn journal(&mut self, next: u64) -> Result<Journal, RestoreError> {
        let mut dirs = BTreeMap::new();
        let mut last = 0;
        for _ in 0..self.from.number()? {
            last = ascending(last, self.from.number()?, next)?;
            let mut names = ChangedNames::new();
            for _ in 0..self.from.number()? {
                let name = self.name()?;
                if names.last_key_value().is_some_and(|(before, _)| **before >= *name) {
                    return Err(DecodeError("the names of a journal are not in order").into());
                }
                let was = match self.kind()? {
                    None => {
                        self.made_bytes = self.made_bytes.saturating_add(entry_charge(name));
                        None
                    }
                    Some(kind) => {
                        let inode = InodeId(check_below(self.from.number()?, next)?);
                        let base = self.base()?;
                        self.usage.tombstone_bytes = self.usage.tombstone_bytes.saturating_add(charge(name));
                        Some(PreviousTarget { inode, kind, base: base.map(Arc::new) })
                    }
                };
                // Check before storing, because nothing else bounds the number of names.
                check_usage(&Usage { workspace_bytes: self.made_bytes, ..self.usage }, self.vfs)?;
                names.insert(Name::from(name), was);
            }
            if names.is_empty() {
                return Err(DecodeError("a journal has an empty directory").into());
            }
            dirs.insert(InodeId(last), names);
        }
        Ok(Journal::of(dirs))
    }

    fn inodes(&mut self, roots: Vec<Root>, next: u64) -> Result<DecodedState, RestoreError> {
        let mut read = DecodedState { table: Table::default(), roots, names: Vec::new() };
        let mut last = 0;
        loop {
            let by = self.from.number()?;
            if by == 0 {
                break;
            }
            last = ascending(last, by, next)?;
            let id = InodeId(last);
            let inode = self.inode(&mut read, id, next)?;
            read.table.insert_at(id, inode);
        }
        read.table.set_next(next);
        Ok(read)
    }

    fn inode(&mut self, read: &mut DecodedState, id: InodeId, next: u64) -> Result<Inode, RestoreError> {
        let flags = self.from.byte()?;
        let number = self.from.number()?;
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let root = read.roots.get_mut(at).ok_or(DecodeError("an inode's root does not exist"))?;
        let is_root = root.dir == id;
        let mounted = root.source.is_some();
        let accessed_ns = self.from.fixed()?;
        let times = Times { accessed_ns, modified_ns: self.from.fixed()?, changed_ns: self.from.fixed()? };
        let charged_to_mount = flags & CHARGED_TO_MOUNT != 0;
        if (charged_to_mount && (!mounted || is_root)) || flags & !(KIND | WRITTEN | CHARGED_TO_MOUNT) != 0 {
            return Err(DecodeError("an inode has invalid flags").into());
        }
        if flags & WRITTEN != 0 {
            if flags & KIND != PRIVATE || (mounted && root.access == Access::ReadOnly) {
                return Err(if flags & KIND == PRIVATE {
                    RestoreError::ReadOnly
                } else {
                    WRITTEN_WITHOUT_CONTENT.into()
                });
            }
            Arc::make_mut(&mut root.committed).written.insert(id);
        }
        let journal = root.committed.clone();
        let mut source = None;
        let body = match flags & KIND {
            PRIVATE => self.private_file()?,
            MOUNTED if mounted => {
                let size_bytes = file_size(self.from.number()?)?;
                source = Some(Arc::new(self.source_path()?));
                Body::File { size_bytes, content: Content::Mounted }
            }
            GONE if mounted => Body::File { size_bytes: file_size(self.from.number()?)?, content: Content::Gone },
            DIRECTORY => {
                let entries = self.entries(&mut read.names, (id, mounted), &journal, next)?;
                Body::Directory { entries: Arc::new(entries), listed: ListingState::Whole }
            }
            SYMLINK => self.symlink(charged_to_mount)?,
            _ => return Err(DecodeError("an inode has an unknown type").into()),
        };
        let mount_charge = charged_to_mount.then(|| match &body {
            Body::Symlink(target) => INODE_BYTES.saturating_add(length(target)),
            Body::File { .. } | Body::Directory { .. } => INODE_BYTES,
        });
        let root = RootId(u32::try_from(at).map_err(|_| DecodeError("an inode's root does not exist"))?);
        let inode = Inode { root, body, links: Vec::new(), times, mount_charge, source };
        if !is_root {
            self.charge(&inode)?;
        }
        Ok(inode)
    }

    fn charge(&mut self, inode: &Inode) -> Result<(), RestoreError> {
        let usage = &mut self.usage;
        if let Some(bytes) = inode.mount_charge {
            usage.mount_bytes = usage.mount_bytes.saturating_add(bytes);
            usage.mount_entries = usage.mount_entries.saturating_add(1);
        } else {
            usage.inodes = usage.inodes.saturating_add(1);
        }
        usage.workspace_bytes = usage.workspace_bytes.saturating_add(workspace_charge(inode));
        check_usage(usage, self.vfs)
    }

    /// Decodes a private file. Charges the file's size before its content is read.
    fn private_file(&mut self) -> Result<Body, RestoreError> {
        let size_bytes = file_size(self.from.number()?)?;
        let mut usage = self.usage;
        usage.workspace_bytes = usage.workspace_bytes.saturating_add(data_charge(size_bytes));
        check_usage(&usage, self.vfs)?;
        let chunks = Chunks::decode(&mut self.from, size_bytes)?;
        Ok(Body::File { size_bytes, content: Content::Private(Arc::new(chunks)) })
    }

    fn entries(
        &mut self,
        names: &mut Vec<(InodeId, usize, Link)>,
        (dir, mounted): (InodeId, bool),
        journal: &Journal,
        next: u64,
    ) -> Result<Entries, RestoreError> {
        let mut entries = Entries::default();
        let mut free = FIRST_PLACE;
        for _ in 0..self.from.number()? {
            let place = place_after(free, self.from.number()?)?;
            let name = Name::from(self.name()?);
            let inode = InodeId(check_below(self.from.number()?, next)?);
            let which = usize::try_from(self.from.number()?)
                .map_err(|_| DecodeError("the names of an inode are not numbered consecutively"))?;
            let base = self.base()?;
            let in_source = mounted && !journal.has(dir, &name);
            let bytes = if in_source { &mut self.usage.mount_bytes } else { &mut self.usage.workspace_bytes };
            *bytes = bytes.saturating_add(entry_charge(&name));
            check_usage(&self.usage, self.vfs)?;
            if !entries.set_at(&name, inode, place, in_source) {
                return Err(DecodeError("a directory has the same name twice").into());
            }
            entries.set_base(&name, base.map(Arc::new));
            free = place_after(place, 1)?;
            names.push((inode, which, Link { dir, name }));
        }
        entries.set_next_place(place_after(free, self.from.number()?)?);
        Ok(entries)
    }

    fn symlink(&mut self, charged_to_mount: bool) -> Result<Body, RestoreError> {
        let target = self.from.text()?;
        // A link from a source can have any target, because links are never followed out of their root.
        let sound = !target.contains('\0') && (charged_to_mount || !(target.is_empty() || target.starts_with('/')));
        if !sound {
            return Err(DecodeError("a symlink has an invalid target").into());
        }
        if !charged_to_mount && target.len() > self.vfs.limits.path_bytes {
            return Err(RestoreError::Limit("path_bytes"));
        }
        Ok(Body::Symlink(Arc::from(target)))
    }

    fn source_path(&mut self) -> Result<SourcePath, RestoreError> {
        let path = self.from.text()?;
        if !path.split('/').all(is_name) {
            return Err(DecodeError("a source path is invalid").into());
        }
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok(SourcePath { dir: Arc::from(dir), name: Name::from(name) })
    }

    fn name(&mut self) -> Result<&'b str, RestoreError> {
        let name = self.from.text()?;
        if !is_name(name) {
            return Err(DecodeError("a name is invalid").into());
        }
        if name.len() > self.vfs.limits.name_bytes { Err(RestoreError::Limit("name_bytes")) } else { Ok(name) }
    }

    fn base(&mut self) -> Result<Option<SourceStat>, RestoreError> {
        let Some(kind) = self.kind()? else { return Ok(None) };
        let size_bytes = self.from.number()?;
        let (modified_ns, changed_ns) = (self.from.fixed()?, self.from.fixed()?);
        let identity = FileIdentity { device: self.from.number()?, inode: self.from.number()? };
        Ok(Some(SourceStat { kind, size_bytes, modified_ns, changed_ns, identity }))
    }

    fn kind(&mut self) -> Result<Option<FileKind>, RestoreError> {
        match self.from.byte()? {
            0 => Ok(None),
            1 => Ok(Some(FileKind::File)),
            2 => Ok(Some(FileKind::Directory)),
            3 => Ok(Some(FileKind::Symlink)),
            _ => Err(DecodeError("an entry has an unknown type").into()),
        }
    }
}

const WRITTEN_WITHOUT_CONTENT: DecodeError = DecodeError("an inode without its own content is marked as written");

fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

fn check_below(number: u64, next: u64) -> Result<u64, DecodeError> {
    if number > 0 && number < next { Ok(number) } else { Err(DecodeError("an inode's number was never assigned")) }
}

fn ascending(last: u64, by: u64, next: u64) -> Result<u64, DecodeError> {
    if by == 0 {
        return Err(DecodeError("an inode's number occurs twice"));
    }
    check_below(last.saturating_add(by), next)
}

fn place_after(place: u32, by: u64) -> Result<u32, DecodeError> {
    let by = u32::try_from(by).ok();
    by.and_then(|by| place.checked_add(by)).ok_or(DecodeError("a directory's position overflows"))
}

fn file_size(size_bytes: u64) -> Result<u64, DecodeError> {
    if size_bytes <= MAX_FILE_BYTES { Ok(size_bytes) } else { Err(DecodeError("a file is larger than the maximum")) }
}

/// The decoded state, before its consistency is checked.
pub(super) struct DecodedState {
    pub(super) table: Table,
    pub(super) roots: Vec<Root>,
    /// All names: each with its inode and its index among the inode's names.
    pub(super) names: Vec<(InodeId, usize, Link)>,
}

/// Checks the usage against the limits. As in a running file system, recorded deletions can exceed the quota, because
/// deletions must always be possible.
pub(super) fn check_usage(usage: &Usage, vfs: &Vfs) -> Result<(), RestoreError> {
    let limits = &vfs.limits;
    for (used, limit, name) in [
        (usage.workspace_bytes, limits.bytes, "bytes"),
        (usage.inodes, limits.inodes, "inodes"),
        (usage.mount_entries, limits.known_entries(), "mount_entries"),
        (usage.total_bytes(), vfs.available_bytes, "memory"),
    ] {
        if used > limit {
            return Err(RestoreError::Limit(name));
        }
    }
    Ok(())
}
