//! Files and blobs.

use glovebox_core::contract::MAX_READ_BYTES;

use super::*;
use crate::component::wit::{
    sandbox::{HostBlob, HostFiles},
    types::{FileError, FileKind, IfExists},
};

fn write(
    ctx: &mut SandboxCtx,
    session: &Resource<SessionResource>,
    path: &str,
    bytes: &[u8],
) -> Result<(), SandboxFailure> {
    HostSession::write_file(ctx, same(session), path.into(), bytes.into(), IfExists::Fail)
}

fn kind<T: std::fmt::Debug>(result: Result<T, SandboxFailure>) -> FileError {
    match told(result) {
        SandboxError::File(failure) => failure.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_snapshot_stays_as_it_was_and_outlives_its_session() {
    let mut ctx = ctx();
    let session = open(&mut ctx);
    write(&mut ctx, &session, "a/b.txt", b"before").unwrap();
    let files = HostSession::files(&mut ctx, same(&session)).unwrap();
    said_in(&mut ctx, &session, "std.writeFile('a/b.txt', 'after'); 0");
    HostSession::drop(&mut ctx, session).unwrap();
    let list = HostFiles::list(&mut ctx, same(&files), "**".into()).unwrap();
    let seen: Vec<_> = list.iter().map(|entry| (entry.path.as_str(), entry.kind, entry.size_bytes)).collect();
    assert_eq!(seen, [("a", FileKind::Directory, 0), ("a/b.txt", FileKind::File, 6)]);
    let mut read = |offset, len| HostFiles::read(&mut ctx, same(&files), "a/b.txt".into(), offset, len).unwrap();
    assert_eq!(read(0, u64::MAX), b"before");
    assert_eq!(read(2, 3), b"for");
    assert_eq!(read(6, 1), b"");
    assert_eq!(read(u64::MAX, u64::MAX), b"");
    assert_eq!(HostFiles::stat(&mut ctx, same(&files), String::new()).unwrap().kind, FileKind::Directory);
}

#[test]
fn one_read_gives_no_more_than_its_limit() {
    let mut ctx = ctx();
    let session = open(&mut ctx);
    let most = usize::try_from(MAX_READ_BYTES).unwrap();
    for (length, given) in [(most - 1, most - 1), (most, most), (most + 1, most)] {
        let bytes = vec![1; length];
        let blob = HostBlob::new(&mut ctx).unwrap();
        HostBlob::append(&mut ctx, same(&blob), bytes).unwrap();
        assert_eq!(HostBlob::read(&mut ctx, same(&blob), 0, u64::MAX).unwrap().len(), given);
        assert_eq!(HostBlob::read(&mut ctx, same(&blob), length as u64 - 1, 9).unwrap(), [1]);
        let write = HostSession::write_file_from;
        write(&mut ctx, same(&session), "large".into(), same(&blob), IfExists::Replace).unwrap();
        HostBlob::drop(&mut ctx, blob).unwrap();
        let files = HostSession::files(&mut ctx, same(&session)).unwrap();
        let read = HostFiles::read(&mut ctx, same(&files), "large".into(), 0, u64::MAX).unwrap();
        assert_eq!(read.len(), given);
        HostFiles::drop(&mut ctx, files).unwrap();
    }
}

#[test]
fn what_is_refused_says_why() {
    let mut ctx = ctx();
    let session = open(&mut ctx);
    write(&mut ctx, &session, "dir/file", b"1").unwrap();
    for path in ["", "/etc/passwd", "../x", "a/../../x", "a\0"] {
        assert_eq!(kind(write(&mut ctx, &session, path, b"")), FileError::InvalidPath, "{path:?}");
    }
    assert_eq!(kind(write(&mut ctx, &session, "dir/file", b"2")), FileError::Exists);
    assert_eq!(kind(write(&mut ctx, &session, "dir/file/x", b"2")), FileError::WrongKind);
    let rename = |ctx: &mut SandboxCtx, from: &str, to: &str| {
        HostSession::rename_file(ctx, same(&session), from.into(), to.into(), IfExists::Fail)
    };
    assert_eq!(kind(rename(&mut ctx, "none", "x")), FileError::NotFound);
    assert_eq!(kind(rename(&mut ctx, "dir/file", "dir")), FileError::Exists);
    let delete = |ctx: &mut SandboxCtx, path: &str, recursive| {
        HostSession::delete_file(ctx, same(&session), path.into(), recursive)
    };
    assert_eq!(kind(delete(&mut ctx, "dir", false)), FileError::WrongKind);
    delete(&mut ctx, "dir", true).unwrap();
    assert_eq!(kind(delete(&mut ctx, "dir", true)), FileError::NotFound);
    let long = "x".repeat(1 << 20);
    let SandboxError::File(failure) = told(write(&mut ctx, &session, &long, b"")) else { panic!("it is too long") };
    assert!(failure.path.len() <= 4_096 && failure.message.len() <= 4_096, "no more is repeated");
    let big = vec![0; (64 << 20) + 1];
    assert_eq!(kind(write(&mut ctx, &session, "big", &big)), FileError::NoSpace);
    let files = HostSession::files(&mut ctx, session).unwrap();
    for pattern in ["/x", "..", "[", "{a"] {
        assert_eq!(kind(HostFiles::list(&mut ctx, same(&files), pattern.into())), FileError::InvalidPath, "{pattern}");
    }
    assert_eq!(kind(HostFiles::read(&mut ctx, same(&files), "none".into(), 0, 1)), FileError::NotFound);
    assert_eq!(kind(HostFiles::stat(&mut ctx, files, "none".into())), FileError::NotFound);
}

#[test]
fn a_list_has_at_most_ten_thousand_entries() {
    let mut ctx = host(|policy| policy.limits.workspace_inodes = 20_000, |_| {}).ctx();
    let session = open(&mut ctx);
    let mut listed = |count: u32| {
        said_in(&mut ctx, &session, &format!("for (let i = 0; i < {count}; i++) std.writeFile('' + i, 'x'); 0"));
        let files = HostSession::files(&mut ctx, same(&session)).unwrap();
        let list = HostFiles::list(&mut ctx, same(&files), "*".into());
        HostFiles::drop(&mut ctx, files).unwrap();
        list.map(|list| list.len())
    };
    assert_eq!(listed(9_999).unwrap(), 9_999);
    assert_eq!(listed(10_000).unwrap(), 10_000);
    assert_eq!(kind(listed(10_001)), FileError::Refused);
}
