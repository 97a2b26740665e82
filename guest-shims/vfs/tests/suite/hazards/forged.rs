//! Tests of hand-made saved file systems, in the layout of `src/saved/mod.rs`.

use std::sync::Arc;

use glovebox_vfs::encoding::Encoder;
use glovebox_vfs::{Access, CommitStep, RestoreError, Vfs, VfsLimits};

use super::saved::{mounted, none, refused};
use super::{fresh, with_limits};
use crate::support::FakeHost;

const PRIVATE: u8 = 0;
const MOUNTED: u8 = 1;
const GONE: u8 = 2;
const DIRECTORY: u8 = 3;
const SYMLINK: u8 = 4;
const WRITTEN: u8 = 8;
const CHARGED_TO_MOUNT: u8 = 16;
const FILE_WAS: u8 = 1;
const DIRECTORY_WAS: u8 = 2;

/// A name, the type of its previous target (0 for none), and the previous target's inode.
type Name<'a> = (&'a str, u8, u64);
type Names<'a> = &'a [Name<'a>];
/// Names by directory.
type Journal<'a> = &'a [(u64, Names<'a>)];

/// A saved root with directory 1, with or without a source. Inode numbers below 50 are assigned.
struct Forgery {
    to: Encoder,
    last: u64,
    mounted: bool,
}

impl Forgery {
    fn new(mounted: bool, journal: Journal<'_>) -> Self {
        let mut to = Encoder::new();
        to.byte(2);
        to.fixed(0);
        to.number(50);
        to.number(1);
        to.byte(u8::from(mounted));
        to.number(1);
        to.length(journal.len());
        let mut last = 0;
        for (dir, names) in journal {
            to.number(dir - last);
            last = *dir;
            to.length(names.len());
            for (name, kind, inode) in *names {
                to.text(name);
                to.byte(*kind);
                if *kind > 0 {
                    to.number(*inode);
                    to.byte(0);
                }
            }
        }
        Self { to, last: 0, mounted }
    }

    fn inode(mut self, number: u64, flags: u8) -> Self {
        self.to.number(number - self.last);
        self.last = number;
        self.to.byte(flags);
        self.to.number(0);
        (0..3).for_each(|_| self.to.fixed(0));
        self
    }

    /// Adds a directory. Each entry is `(name, inode, index among the inode's names)`.
    fn dir(self, number: u64, entries: &[(&str, u64, u64)]) -> Self {
        let flags = if self.mounted && number > 1 { DIRECTORY | CHARGED_TO_MOUNT } else { DIRECTORY };
        let mut made = self.inode(number, flags);
        made.to.length(entries.len());
        for (name, inode, which) in entries {
            made.to.number(0);
            made.to.text(name);
            made.to.number(*inode);
            made.to.number(*which);
            made.to.byte(0);
        }
        made.to.number(0);
        made
    }

    /// Adds a file with only one chunk, whose number is `chunk`.
    fn file(self, inode: u64, size: u64, chunk: u64, content: &[u8]) -> Self {
        let mut made = self.inode(inode, PRIVATE);
        made.to.number(size);
        made.to.number(1);
        made.to.number(chunk);
        made.to.raw(content);
        made
    }

    fn empty_file(self, inode: u64, flags: u8) -> Self {
        let mut made = self.inode(inode, flags);
        made.to.number(0);
        made.to.number(0);
        made
    }

    fn text(self, inode: u64, flags: u8, size: Option<u64>, text: &str) -> Self {
        let mut made = self.inode(inode, flags);
        size.into_iter().for_each(|size| made.to.number(size));
        made.to.text(text);
        made
    }

    fn bytes(mut self) -> Vec<u8> {
        self.to.number(0);
        self.to.finish()
    }

    fn restore(self, open: &[u64]) -> Result<Vfs, RestoreError> {
        let mounted = self.mounted;
        let host = Arc::new(FakeHost::default());
        let (mut vfs, ..) = if mounted { self::mounted(&host, Access::ReadWrite) } else { fresh() };
        vfs.restore(&self.bytes(), open)?;
        Ok(vfs)
    }

    fn must_be_damaged(self, open: &[u64], why: &str) {
        let error = self.restore(open).unwrap_err();
        assert_eq!(error.to_string(), format!("the saved state is damaged: {why}"));
    }
}

fn plain() -> Forgery {
    Forgery::new(false, &[])
}

fn over_a_source() -> Forgery {
    Forgery::new(true, &[])
}

#[test]
fn sound_handmade_bytes_are_accepted() {
    let vfs = plain().dir(1, &[("d", 2, 0), ("f", 3, 1)]).dir(2, &[("g", 3, 0)]).file(3, 5_000, 1, &[7; 904]);
    let mut vfs = vfs.restore(&[]).unwrap();
    let root = vfs.root_of(vfs.inode_numbered(1).unwrap()).unwrap();
    assert_eq!(vfs.path_of(vfs.inode_numbered(3).unwrap()).unwrap(), "d/g");
    assert_eq!(vfs.read_file(root, "f", 9_000).unwrap()[4_096..], [7; 904]);
    assert!(over_a_source().dir(1, &[("d", 2, 0)]).dir(2, &[]).restore(&[]).is_ok());
    let journal = Forgery::new(true, &[(1, &[("gone", FILE_WAS, 9), ("new", 0, 0)])]);
    let mut vfs = journal.dir(1, &[("new", 3, 0)]).empty_file(3, PRIVATE | WRITTEN).restore(&[]).unwrap();
    let plan = vfs.commit_plan(root);
    assert!(matches!(&plan[..], [CommitStep::DeleteFile { .. }, CommitStep::WriteFile { .. }]), "{plan:?}");
    assert!(vfs.exists(root, "new").unwrap());
}

#[test]
fn directory_cycles_and_aliases_are_rejected() {
    plain()
        .dir(1, &[])
        .dir(2, &[("b", 3, 0)])
        .dir(3, &[("a", 2, 0)])
        .must_be_damaged(&[], "a directory is its own ancestor");
    plain().dir(1, &[]).dir(2, &[("a", 2, 0)]).must_be_damaged(&[], "a directory is its own ancestor");
    let two = plain().dir(1, &[("a", 2, 0), ("b", 2, 1)]).dir(2, &[]);
    two.must_be_damaged(&[], "an inode has too many names");
    plain().dir(1, &[("a", 1, 0)]).must_be_damaged(&[], "a name refers to an inode in another root");
}

#[test]
fn invalid_and_duplicate_names_are_rejected() {
    for name in ["", ".", "..", "a/b", "/", "a\0b"] {
        plain().dir(1, &[(name, 2, 0)]).empty_file(2, PRIVATE).must_be_damaged(&[], "a name is invalid");
        Forgery::new(false, &[(1, &[(name, FILE_WAS, 9)])]).dir(1, &[]).must_be_damaged(&[], "a name is invalid");
        let path = format!("a/{name}");
        let source = over_a_source().dir(1, &[("f", 2, 0)]).text(2, MOUNTED, Some(0), &path);
        assert_eq!(source.restore(&[]).is_ok(), name == "a/b", "{path:?}");
    }
    let twice = plain().dir(1, &[("a", 2, 0), ("a", 2, 1)]).empty_file(2, PRIVATE);
    twice.must_be_damaged(&[], "a directory has the same name twice");
    plain().dir(1, &[("a", 2, 0)]).must_be_damaged(&[], "a name refers to no inode");
    plain().dir(1, &[("a", 50, 0)]).must_be_damaged(&[], "an inode's number was never assigned");
    let numbered = "the names of an inode are not numbered consecutively";
    plain().dir(1, &[("a", 2, 1)]).empty_file(2, PRIVATE).must_be_damaged(&[], numbered);
    let skipped = plain().dir(1, &[("a", 2, 0), ("b", 2, 2)]).empty_file(2, PRIVATE);
    skipped.must_be_damaged(&[], numbered);
}

#[test]
fn unreachable_inodes_are_rejected() {
    let nameless = || plain().dir(1, &[]).empty_file(2, PRIVATE);
    nameless().must_be_damaged(&[], "an inode has no name and is not open");
    assert!(nameless().restore(&[2, 2]).is_ok());
    plain().dir(1, &[]).must_be_damaged(&[2], "an open inode does not exist");
    let full = plain().dir(1, &[]).dir(2, &[("a", 3, 0)]).empty_file(3, PRIVATE);
    full.must_be_damaged(&[2], "a removed directory has entries");
    let removed = plain().dir(1, &[]).dir(2, &[]).restore(&[2]).unwrap();
    assert_eq!(removed.stat(removed.inode_numbered(2).unwrap()).unwrap().links, 0);
    plain().empty_file(1, PRIVATE).must_be_damaged(&[], "a root is not a directory");
    plain().dir(2, &[]).must_be_damaged(&[2], "a root has no directory");
}

#[test]
fn contents_must_be_nonempty_and_within_their_files() {
    let one = |size, chunk, content: &[u8]| plain().dir(1, &[("f", 2, 0)]).file(2, size, chunk, content);
    assert!(one(5_000, 0, &[1; 4_096]).restore(&[]).is_ok());
    one(4_096, 1, &[]).must_be_damaged(&[], "a chunk is empty or lies past the end of its file");
    one(5_000, u64::MAX, &[]).must_be_damaged(&[], "a chunk is empty or lies past the end of its file");
    one(5_000, 0, &[0; 4_096]).must_be_damaged(&[], "a chunk is empty or lies past the end of its file");
    assert!(one(5_000, 1, &[1; 4_096]).restore(&[]).is_err(), "the chunk is longer than the rest of the file");
    one(1 << 63, 0, &[1; 4_096]).must_be_damaged(&[], "a file is larger than the maximum");
    assert_eq!(
        one(1 << 40, 0, &[]).restore(&[]).unwrap_err(),
        RestoreError::Limit("bytes"),
        "the size is checked before the content is read"
    );
    let largest = plain().dir(1, &[("f", 2, 0)]).inode(2, PRIVATE);
    let mut to = largest.to;
    to.number(100);
    to.number(u64::MAX);
    let largest = Forgery { to, last: 2, mounted: false };
    assert!(largest.restore(&[]).is_err(), "a claimed count allocates nothing");
}

#[test]
fn source_data_without_a_source_is_rejected() {
    let one = |flags, size, text| plain().dir(1, &[("f", 2, 0)]).text(2, flags, size, text);
    one(MOUNTED, Some(1), "f").must_be_damaged(&[], "an inode has an unknown type");
    one(GONE, Some(1), "").must_be_damaged(&[], "an inode has an unknown type");
    one(SYMLINK | CHARGED_TO_MOUNT, None, "t").must_be_damaged(&[], "an inode has invalid flags");
    one(SYMLINK, None, "/etc").must_be_damaged(&[], "a symlink has an invalid target");
    one(SYMLINK, None, "").must_be_damaged(&[], "a symlink has an invalid target");
    one(SYMLINK | WRITTEN, None, "t").must_be_damaged(&[], "an inode without its own content is marked as written");
    one(SYMLINK | 32, None, "t").must_be_damaged(&[], "an inode has invalid flags");
    one(7, None, "").must_be_damaged(&[], "an inode has an unknown type");
    let gone = over_a_source().dir(1, &[("f", 2, 0)]).inode(2, GONE);
    let mut to = gone.to;
    to.number(3);
    let gone = Forgery { to, last: 2, mounted: true };
    gone.must_be_damaged(&[], "a file that was removed by a commit still has a name");
    let own = over_a_source().dir(1, &[("d", 2, 0)]).inode(2, DIRECTORY);
    let mut to = own.to;
    to.number(0);
    to.number(0);
    let own = Forgery { to, last: 2, mounted: true };
    own.must_be_damaged(&[], "a mounted directory is not in its source");
}

#[test]
fn journal_must_describe_a_tree() {
    let journal = |journal: Journal<'_>| Forgery::new(true, journal).dir(1, &[]);
    journal(&[(1, &[("a", 0, 0)])]).must_be_damaged(&[], "a journal records an unchanged name");
    journal(&[(1, &[])]).must_be_damaged(&[], "a journal has an empty directory");
    let order = journal(&[(1, &[("b", FILE_WAS, 9), ("a", FILE_WAS, 8)])]);
    order.must_be_damaged(&[], "the names of a journal are not in order");
    let circle = journal(&[(1, &[("a", DIRECTORY_WAS, 9)]), (9, &[("b", DIRECTORY_WAS, 9)])]);
    circle.must_be_damaged(&[], "a directory was in two parents at once");
    let root = journal(&[(1, &[("a", DIRECTORY_WAS, 1)])]);
    root.must_be_damaged(&[], "a directory was in two parents at once");
    let both = journal(&[(1, &[("a", DIRECTORY_WAS, 9), ("b", DIRECTORY_WAS, 9)])]);
    both.must_be_damaged(&[], "a directory was in two parents at once");
    let nowhere = journal(&[(9, &[("b", FILE_WAS, 8)])]);
    nowhere.must_be_damaged(&[], "a journal records a directory that had no parent");
    let link_with_names = journal(&[(1, &[("a", 3, 9)]), (9, &[("b", 3, 9)])]);
    link_with_names.must_be_damaged(&[], "a journal contradicts an inode's type or root");
    let other_kind = Forgery::new(true, &[(1, &[("a", DIRECTORY_WAS, 2), ("b", 0, 0)])]);
    let other_kind = other_kind.dir(1, &[("b", 2, 0)]).empty_file(2, PRIVATE);
    other_kind.must_be_damaged(&[], "a journal contradicts an inode's type or root");
    let of_a_file = Forgery::new(true, &[(2, &[("a", FILE_WAS, 9)])]);
    let of_a_file = of_a_file.dir(1, &[("b", 2, 0)]).empty_file(2, PRIVATE);
    of_a_file.must_be_damaged(&[], "a journal's directory is not in its root");
}

#[test]
fn journal_names_are_charged_once() {
    let journal = || Forgery::new(false, &[(1, &[("made", 0, 0)])]).dir(1, &[("made", 2, 0)]).empty_file(2, PRIVATE);
    let used = journal().restore(&[]).unwrap().bytes_used();
    assert_eq!(used, 512 + 260);
    for (bytes, fits) in [(used, true), (used - 1, false)] {
        let (mut vfs, ..) = with_limits(VfsLimits { bytes, ..VfsLimits::default() });
        assert_eq!(vfs.restore(&journal().bytes(), &[]).is_ok(), fits, "{bytes}");
    }
}

#[test]
fn deep_and_wide_trees_cost_their_bytes_only() {
    // A chain of directories, in the current tree and in the old one.
    let chain = |count: u64| {
        let name = "n".repeat(200);
        let names: Vec<[Name<'_>; 1]> = (1..count).map(|dir| [(name.as_str(), DIRECTORY_WAS, dir + 1)]).collect();
        let journal: Vec<(u64, Names<'_>)> = (1..).zip(names.iter().map(|names| &names[..])).collect();
        Forgery::new(true, &journal).dir(1, &[])
    };
    assert!(chain(40).restore(&[]).is_ok());
    let vfs = (1..49).fold(plain(), |made, dir| made.dir(dir, &[("d", dir + 1, 0)])).dir(49, &[]);
    assert!(vfs.restore(&[]).is_ok());
    let (mut vfs, ..) = with_limits(VfsLimits { depth: 10, ..VfsLimits::default() });
    let deep = (1..49).fold(plain(), |made, dir| made.dir(dir, &[("d", dir + 1, 0)])).dir(49, &[]).bytes();
    assert_eq!(refused(&mut vfs, &deep, &[]), RestoreError::Limit("depth"));
    let host = Arc::new(FakeHost::default());
    let mut vfs = Vfs::new(VfsLimits { depth: 10, ..VfsLimits::default() });
    vfs.add_mount(host, Access::ReadWrite).unwrap();
    assert_eq!(refused(&mut vfs, &chain(40).bytes(), &[]), RestoreError::Limit("depth"));
}

#[test]
fn truncated_and_trailing_bytes_are_rejected() {
    let (mut vfs, root, _) = fresh();
    vfs.write_file(root, "dir/file", b"content").unwrap();
    let saved = vfs.save(&none());
    for len in 0..saved.len() {
        assert!(vfs.restore(&saved[..len], &[]).is_err(), "{len}");
    }
    let longer = [&saved[..], &[0]].concat();
    let error = refused(&mut vfs, &longer, &[]);
    assert_eq!(error.to_string(), "the saved state is damaged: it has trailing bytes");
    vfs.restore(&saved, &[]).unwrap();
}
