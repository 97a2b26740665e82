//! Saving.

use glovebox_vfs::encoding::Encoder;

use super::{DIRECTORY, DISPLAYS, FILE, NULL, PREOPEN, SCRYPT, SPACE, STDERR, STDIN, STDOUT, TOOLS, VERSION, VIRTUAL};
use crate::Wasi;
use crate::device::Device;
use crate::table::{Descriptor, Target};

impl Wasi {
    /// Encodes the guest's own state for [`restore`](Self::restore): descriptors, files (see
    /// [`Vfs::save`](glovebox_vfs::Vfs::save)), the rest of standard input, clocks, the generator's position. Equal
    /// states give equal bytes.
    ///
    /// State that the embedder supplies is not saved: limits, the sources and access of mounts, arguments, environment,
    /// the generator's seed, the clock's source. State of one execution is not saved either: output, events, an unread
    /// tool reply. Under [`Clock::Host`](crate::Clock::Host), call [`settle_clock`](Self::settle_clock) first.
    #[must_use]
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
            // The gap plus one, so that 0 is the end.
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

    /// Returns whether a descriptor's target exists. An embedder may have replaced the file system.
    fn is_held(&self, descriptor: &Descriptor) -> bool {
        descriptor.target.inode().is_none_or(|inode| self.vfs.stat(inode).is_ok())
    }
}

fn encode_descriptor(to: &mut Encoder, descriptor: &Descriptor) {
    if let Some(path) = &descriptor.preopen {
        // The embedder decides the target and the rights of a preopen.
        to.byte(PREOPEN);
        to.text(path);
        to.number(u64::from(descriptor.flags));
        return;
    }
    match &descriptor.target {
        Target::Stdin => to.byte(STDIN),
        Target::Stdout => to.byte(STDOUT),
        Target::Stderr => to.byte(STDERR),
        Target::File { inode, position } => {
            to.byte(FILE);
            to.number(inode.get());
            to.number(*position);
        }
        Target::Directory { inode } => {
            to.byte(DIRECTORY);
            to.number(inode.get());
        }
        Target::Virtual { path } => {
            to.byte(VIRTUAL);
            to.text(path);
        }
        Target::Device(Device::Null) => to.byte(NULL),
        Target::Device(Device::Tools) => to.byte(TOOLS),
        Target::Device(Device::Displays) => to.byte(DISPLAYS),
        Target::Device(Device::Space) => to.byte(SPACE),
        Target::Device(Device::Scrypt) => to.byte(SCRYPT),
    }
    to.number(u64::from(descriptor.flags));
    to.number(descriptor.rights_base);
    to.number(descriptor.rights_inheriting);
}
