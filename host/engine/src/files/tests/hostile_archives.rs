//! Tests of malicious archives.

use glovebox_core::files::change;
use std::io::Read;

use glovebox_vfs::{VfsError, VfsLimits};
use tar::{Builder, EntryType, Header};

use super::{FileError, FilesError, IfExists, Space, archive, refusal};

/// Returns an entry with an arbitrary name, written as raw header bytes.
fn raw(kind: EntryType, name: &[u8], target: &[u8], data: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(data.len() as u64);
    header.set_mtime(0);
    header.set_cksum();
    let mut builder = Builder::new(Vec::new());
    builder.append(&header, data).unwrap();
    let mut bytes = builder.into_inner().unwrap();
    // Remove the end marker of the archive, so that entries can be concatenated.
    bytes.truncate(bytes.len() - 1_024);
    bytes
}

fn file(name: &[u8], data: &[u8]) -> Vec<u8> {
    raw(EntryType::Regular, name, b"", data)
}

fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let mut data = String::new();
    for (key, value) in records {
        let body = format!(" {key}={value}\n");
        let mut len = body.len() + 1;
        while len.to_string().len() + body.len() != len {
            len += 1;
        }
        data.push_str(&format!("{len}{body}"));
    }
    raw(EntryType::XHeader, b"pax", b"", data.as_bytes())
}

/// Imports into a workspace with one file, and asserts that the import fails without changing the workspace.
fn refused(archive: &[u8]) -> FilesError {
    let mut space = Space::holding(&[("held", "held")]);
    let error = space.import(archive, IfExists::Replace).expect_err("a hostile archive");
    assert_eq!(space.paths(), ["held"], "{error}");
    assert_eq!(space.text("held"), "held");
    error
}

#[track_caller]
fn refused_with(archive: &[u8], expected: &str) {
    let error = refused(archive);
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn names_that_lead_out_are_refused() {
    for name in [&b"../x"[..], b"a/../../x", b"/etc/passwd", b"..", b"a/..", b"/"] {
        assert!(matches!(refused(&[file(b"ok", b"1"), file(name, b"2")].concat()), FilesError::Archive { .. }));
    }
    refused_with(&[pax(&[("path", "../x")]), file(b"harmless", b"")].concat(), "contains `..`");
    refused_with(
        &[raw(EntryType::GNULongName, b"././@LongLink", b"", b"/x\0"), file(b"harmless", b"")].concat(),
        "absolute",
    );
    refused_with(&file(b"a\xff", b""), "not UTF-8");
    refused_with(&[pax(&[("path", "a\0b")]), file(b"harmless", b"")].concat(), "NUL byte");
    refused_with(&file(b"", b"1"), "no name");
    refused_with(&file(b"./", b"1"), "no name");
}

#[test]
fn backslash_is_not_a_separator() {
    let mut space = Space::new();
    space.import(&file(b"..\\..\\x", b"1"), IfExists::Fail).unwrap();
    assert_eq!(space.paths(), ["..\\..\\x"]);
}

#[test]
fn import_does_not_follow_links() {
    let link = raw(EntryType::Symlink, b"d", b"..", b"");
    assert_eq!(refusal::<()>(Err(refused(&[link, file(b"d/x", b"1")].concat()))), VfsError::NotADirectory);
    let archive = [raw(EntryType::Symlink, b"l", b"held", b""), file(b"l", b"overwritten")].concat();
    assert!(matches!(refused(&archive), FilesError::Workspace(FileError::Exists { .. })));
    // Links that the guest created are not followed.
    let mut space = Space::holding(&[("dir/f", "old")]);
    space.link("to-dir", "dir");
    space.link("to-f", "dir/f");
    assert_eq!(refusal(space.import(&file(b"to-dir/f", b"new"), IfExists::Replace)), VfsError::NotADirectory);
    space.import(&file(b"to-f", b"new"), IfExists::Replace).unwrap();
    assert_eq!((space.text("dir/f"), space.text("to-f")), ("old".into(), "new".into()));
}

#[test]
fn imported_symlink_cannot_lead_out() {
    let mut space = Space::new();
    let archive = [
        raw(EntryType::Symlink, b"absolute", b"/etc/passwd", b""),
        raw(EntryType::Symlink, b"up", b"../../etc/passwd", b""),
    ];
    let report = space.import(&archive.concat(), IfExists::Fail).unwrap();
    assert_eq!((report.link_count, report.skipped_count), (1, 1));
    assert_eq!(space.paths(), ["up"]);
    assert_eq!(refusal(space.files().read("up")), VfsError::NotCapable);
    assert_eq!(refusal::<()>(Err(refused(&raw(EntryType::Symlink, b"l", b"", b"")))), VfsError::NotFound);
}

#[test]
fn hard_links_refer_only_to_archive_entries() {
    for target in [&b"held"[..], b"gone", b"l"] {
        assert_eq!(refusal::<()>(Err(refused(&raw(EntryType::Link, b"l", target, b"")))), VfsError::NotFound);
    }
    refused_with(&raw(EntryType::Link, b"l", b"../../etc/passwd", b""), "points outside the archive");
    refused_with(&raw(EntryType::Link, b"l", b"/etc/passwd", b""), "points outside the archive");
    let onto_dir = [raw(EntryType::Directory, b"d/", b"", b""), raw(EntryType::Link, b"l", b"d", b"")].concat();
    assert_eq!(refusal::<()>(Err(refused(&onto_dir))), VfsError::NotFound);
    // A file can have at most 1,024 names.
    let mut archive = file(b"0", b"");
    for name in 1..=1_024 {
        archive.extend(raw(EntryType::Link, name.to_string().as_bytes(), b"0", b""));
    }
    assert_eq!(refusal::<()>(Err(refused(&archive))), VfsError::TooManyLinks);
}

#[test]
fn duplicate_archive_names_are_rejected() {
    assert!(matches!(
        refused(&[file(b"a", b"1"), file(b"a", b"2")].concat()),
        FilesError::Workspace(FileError::Exists { .. })
    ));
    assert!(matches!(
        refused(&[file(b"a", b"1"), file(b"./a", b"2")].concat()),
        FilesError::Workspace(FileError::Exists { .. })
    ));
    let onto_dir = [raw(EntryType::Directory, b"a", b"", b""), file(b"a", b"2")].concat();
    assert_eq!(refusal::<()>(Err(refused(&onto_dir))), VfsError::IsADirectory);
    let onto_file = [file(b"a", b"2"), raw(EntryType::Directory, b"a", b"", b"")].concat();
    assert_eq!(refusal::<()>(Err(refused(&onto_file))), VfsError::NotADirectory);
}

#[test]
fn special_and_unknown_entries_are_rejected() {
    for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo] {
        refused_with(&raw(kind, b"x", b"", b""), "devices and pipes");
    }
    for kind in [EntryType::new(b'V'), EntryType::new(b'D'), EntryType::new(b'M')] {
        refused_with(&raw(kind, b"x", b"", b""), "type is unknown");
    }
}

#[test]
fn sparse_files_are_refused() {
    refused_with(&raw(EntryType::GNUSparse, b"x", b"", b""), "sparse");
    let records = [("GNU.sparse.major", "1"), ("GNU.sparse.realsize", "1099511627776")];
    refused_with(&[pax(&records), file(b"x", b"1")].concat(), "sparse");
}

#[test]
fn oversized_entry_is_rejected_before_reading() {
    let mut header = Header::new_gnu();
    header.set_path("huge").unwrap();
    header.set_size(1 << 50);
    header.set_cksum();
    let mut space = Space::new();
    let top = space.top();
    // The data never ends.
    let endless = header.as_bytes().chain(std::io::repeat(7));
    let imported = change::atomically(&mut space.vfs, |vfs| archive::import(vfs, top, endless, IfExists::Fail));
    assert_eq!(refusal(imported), VfsError::NoSpace);
    assert_eq!(space.vfs.bytes_used(), 0);
}

#[test]
fn headers_are_bounded_in_size() {
    const MAX: usize = 64 << 10;
    for kind in [EntryType::GNULongName, EntryType::GNULongLink] {
        let archive = |len: usize| [raw(kind, b"long", b"", &vec![0; len]), file(b"x", b"1")].concat();
        refused_with(&archive(MAX + 1), "larger than 64 KiB");
        // A header at the limit is read. A name that contains only zero bytes is empty.
        if kind == EntryType::GNULongName {
            refused_with(&archive(MAX), "no name");
        } else {
            Space::new().import(&archive(MAX), IfExists::Fail).unwrap();
        }
    }
    refused_with(&[pax(&[("comment", &"c".repeat(MAX))]), file(b"x", b"1")].concat(), "larger than 64 KiB");
    let comment = "c".repeat(MAX - "65536 comment=\n".len());
    Space::new().import(&[pax(&[("comment", &comment)]), file(b"x", b"1")].concat(), IfExists::Fail).unwrap();
}

#[test]
fn headers_are_bounded_in_number() {
    // The limit is five headers per inode, plus 64.
    let max = 5 * 10 + 64;
    for (count, fits) in [(max - 1, true), (max, true), (max + 1, false)] {
        let mut space = Space::with(VfsLimits { inodes: 10, ..VfsLimits::default() });
        let archive = raw(EntryType::Directory, b"d", b"", b"").repeat(count);
        let imported = space.import(&archive, IfExists::Fail);
        assert_eq!(imported.is_ok(), fits, "{count}");
        if !fits {
            assert!(imported.unwrap_err().to_string().contains("more entries"), "{count}");
        }
    }
    // The archive never ends.
    let mut space = Space::new();
    let top = space.top();
    let header = raw(EntryType::XGlobalHeader, b"g", b"", b"");
    let endless = std::iter::repeat_with(|| &header[..]);
    let endless = EndlessHeaders { headers: endless, rest: &[] };
    let imported = change::atomically(&mut space.vfs, |vfs| archive::import(vfs, top, endless, IfExists::Fail));
    assert!(imported.unwrap_err().to_string().contains("more entries"));
}

struct EndlessHeaders<'h, I> {
    headers: I,
    rest: &'h [u8],
}

impl<'h, I: Iterator<Item = &'h [u8]>> Read for EndlessHeaders<'h, I> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.rest.is_empty() {
            self.rest = self.headers.next().unwrap_or_default();
        }
        self.rest.read(into)
    }
}

#[test]
fn malformed_archives_are_refused() {
    let good = file(b"x", &[7; 1_000]);
    for end in [1, 100, 511, 513, 600, 1_511, 1_535] {
        refused(&good[..end]);
    }
    Space::new().import(&good, IfExists::Fail).unwrap();
    let mut wrong_sum = good.clone();
    wrong_sum[0] = b'y';
    refused(&wrong_sum);
    refused(&[0xff; 1_024]);
    for records in
        ["9 path=a\n", "99 path=a\n", "path=a\n", "9 patha\n\n", "-9 path=a", "18446744073709551616 a=b\n", "1 \n"]
    {
        let header = raw(EntryType::XHeader, b"pax", b"", records.as_bytes());
        let records = records.to_owned();
        let result = Space::new().import(&[header, file(b"x", b"")].concat(), IfExists::Fail);
        // Only the first record is well-formed.
        assert_eq!(result.is_ok(), records == "9 path=a\n", "{records:?}: {result:?}");
    }
    refused_with(&[pax(&[("size", "5")]), file(b"x", b"1")].concat(), "different sizes");
    refused_with(&[pax(&[("size", "x")]), file(b"x", b"1")].concat(), "malformed");
    refused_with(&pax(&[("path", "orphan")]), "no entry");
    refused_with(&raw(EntryType::Directory, b"d", b"", b"data"), "only files");
    refused_with(&raw(EntryType::Symlink, b"l", b"x", b"data"), "only files");
}

#[test]
fn a_reader_that_fails_changes_nothing() {
    struct FailingReader;
    impl Read for FailingReader {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::ConnectionReset.into())
        }
    }
    let mut space = Space::holding(&[("held", "held")]);
    let top = space.top();
    let good = file(b"x", &[7; 1_000]);
    for end in [0, 100, 512, 600] {
        let reader = (&good[..end]).chain(FailingReader);
        let imported = change::atomically(&mut space.vfs, |vfs| archive::import(vfs, top, reader, IfExists::Fail));
        assert!(matches!(imported, Err(FilesError::Io { .. })), "{end}: {imported:?}");
    }
    assert_eq!(space.paths(), ["held"]);
}

/// Damaged archives must cause neither a panic nor an endless loop, and a failed import must change nothing.
#[test]
fn damaged_archives_are_imported_or_refused() {
    let mut good = Space::holding(&[("a", "A"), ("d/b", "B"), (&"n".repeat(150), "C")]);
    good.link("l", "a");
    good.hard_link("h", "a");
    let good = good.export();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for round in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=next() % 3 {
            let at = usize::try_from(next()).unwrap() % bytes.len();
            bytes[at] = next().to_le_bytes()[0];
        }
        if next() % 4 == 0 {
            // With a correct checksum, the parser reads more of the changed header.
            let at = usize::try_from(next()).unwrap() % (bytes.len() / 512) * 512;
            let block: &mut [u8; 512] = (&mut bytes[at..at + 512]).try_into().unwrap();
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        let mut space = Space::new();
        if space.import(&bytes, IfExists::Replace).is_err() {
            assert_eq!(space.vfs.bytes_used(), 0, "round {round}");
        } else {
            space.export();
        }
    }
}
