use std::sync::Arc;

use glovebox_vfs::{Access, FileIdentity, FileKind, MountSource, SourceEntry, SourceError, SourceStat, Vfs, VfsLimits};
use glovebox_wasi::{Errno, Mount, SecurityEvent, Wasi, WasiConfig, WasiError};

use crate::support::{ALL_RIGHTS, APP, CREAT, DATA, DIRECTORY, EXCL, Guest, OTHER_PATH, OUT, PATH, READ, STAT, call};

const ROOT: u32 = 4;

/// Returns a guest with `/app` at descriptor 3 and `/` at 4. The mounts at `/data` and `/deep/down` are added after the
/// guest has requested its preopens.
fn guest() -> Guest {
    let mut guest = Guest::with(VfsLimits::default(), |config| config.root_preopen = true);
    for path in ["/data", "/deep/down"] {
        let root = guest.wasi.vfs_mut().add_root(Access::ReadWrite);
        guest.wasi.add_mount(Mount::new(path, root)).unwrap();
        guest.wasi.vfs_mut().write_file(root, "file", path.as_bytes()).unwrap();
    }
    guest
}

#[test]
fn root_mount_is_an_additional_preopen() {
    let mut guest = guest();
    call!(guest, fd_prestat_get(ROOT, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT + 4), 1);
    call!(guest, fd_prestat_dir_name(ROOT, DATA, 1)).unwrap();
    assert_eq!(guest.get(DATA, 1), b"/");
    assert_eq!(call!(guest, fd_prestat_get(5, OUT)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_close(ROOT)), Err(Errno::NotSup));
}

#[test]
fn later_mounts_are_reached_through_the_root() {
    let mut guest = guest();
    for (path, content) in
        [("data/file", "/data"), ("deep/down/file", "/deep/down"), ("./deep/../deep/down/./file", "/deep/down")]
    {
        let fd = guest.open_at(ROOT, path, 0, READ, 0).unwrap();
        assert_eq!(guest.read(fd, 100).unwrap(), content.as_bytes());
    }
    let fd = guest.open_at(ROOT, "app/new", CREAT | EXCL, ALL_RIGHTS, 0).unwrap();
    guest.write(fd, b"abc").unwrap();
    assert_eq!(guest.content("new"), b"abc");
    assert_eq!(guest.stat(ROOT, "data//").unwrap().0, 3);
    assert_eq!(guest.stat(ROOT, "data//file").unwrap().0, 4);
}

#[test]
fn directories_above_the_mounts_are_listed_and_walked() {
    let mut guest = guest();
    assert_eq!(guest.names(ROOT, 4096), [".", "..", "app", "data", "deep"]);
    let deep = guest.open_at(ROOT, "deep", DIRECTORY, READ, 0).unwrap();
    assert_eq!(guest.names(deep, 40), [".", "..", "down"]);
    let down = guest.open_at(deep, "down", DIRECTORY, READ, 0).unwrap();
    assert_eq!(guest.names(down, 4096), [".", "..", "file"]);
    assert_eq!(guest.stat(deep, "../data/file").unwrap().2, 5);
    assert_eq!(guest.stat(ROOT, ".").unwrap(), guest.stat(deep, "..").unwrap());
    call!(guest, fd_filestat_get(deep, STAT)).unwrap();
    assert_eq!((guest.get(STAT + 16, 1), guest.u64_at(STAT)), (vec![3], 0));
    call!(guest, fd_fdstat_get(deep, STAT)).unwrap();
    assert_eq!(guest.get(STAT, 1), [3]);
    call!(guest, fd_close(deep)).unwrap();
    assert_eq!(guest.read(ROOT, 1), Err(Errno::IsDir));
}

#[test]
fn paths_outside_the_mounts_are_denied_and_recorded() {
    let mut guest = guest();
    for path in ["etc/passwd", "..", "../etc/passwd", "app/../etc/passwd", "data/../data/file", "/etc/passwd", "tmp"] {
        assert_eq!(guest.open_at(ROOT, path, CREAT, ALL_RIGHTS, 0), Err(Errno::Acces), "{path}");
    }
    assert_eq!(guest.stat(ROOT, ""), Err(Errno::NoEnt));
    let first_path = "/etc/passwd".to_owned();
    assert_eq!(guest.wasi.take_events(), [SecurityEvent::PathEscape { count: 7, first_path }]);
}

#[test]
fn directories_above_the_mounts_cannot_be_changed() {
    let mut guest = guest();
    assert_eq!(guest.open_at(ROOT, "deep", 0, ALL_RIGHTS, 0), Err(Errno::IsDir));
    assert_eq!(guest.open_at(ROOT, "deep", CREAT | EXCL, READ, 0), Err(Errno::Exist));
    assert_eq!(guest.open_at(ROOT, "deep", CREAT | DIRECTORY, READ, 0), Err(Errno::Inval));
    let (len, file) = (guest.path("deep"), guest.other_path("app/x"));
    assert_eq!(call!(guest, path_create_directory(ROOT, PATH, len)), Err(Errno::Exist));
    assert_eq!(call!(guest, path_remove_directory(ROOT, PATH, len)), Err(Errno::Busy));
    assert_eq!(call!(guest, path_unlink_file(ROOT, PATH, len)), Err(Errno::IsDir));
    assert_eq!(call!(guest, path_rename(ROOT, PATH, len, ROOT, OTHER_PATH, file)), Err(Errno::Busy));
    assert_eq!(call!(guest, path_symlink(OTHER_PATH, file, ROOT, PATH, len)), Err(Errno::Exist));
    assert_eq!(call!(guest, path_link(ROOT, 0, PATH, len, ROOT, OTHER_PATH, file)), Err(Errno::Perm));
    assert_eq!(call!(guest, path_readlink(ROOT, PATH, len, DATA, 10, OUT)), Err(Errno::Inval));
    assert_eq!(call!(guest, path_filestat_set_times(ROOT, 0, PATH, len, 0, 0, 0)), Err(Errno::Rofs));
    assert_eq!(call!(guest, fd_filestat_set_times(ROOT, 0, 0, 0)), Err(Errno::Rofs));
    let len = guest.path("app");
    assert!(call!(guest, path_remove_directory(ROOT, PATH, len)).is_err());
    assert_eq!(guest.stat(ROOT, "app").unwrap().0, 3);
}

#[test]
fn rename_and_link_across_mounts_are_rejected() {
    let mut guest = guest();
    let (from, to) = (guest.path("data/file"), guest.other_path("app/file"));
    assert_eq!(call!(guest, path_rename(ROOT, PATH, from, ROOT, OTHER_PATH, to)), Err(Errno::Xdev));
    assert_eq!(call!(guest, path_link(ROOT, 0, PATH, from, ROOT, OTHER_PATH, to)), Err(Errno::Xdev));
}

#[test]
fn innermost_mount_wins() {
    let mut vfs = Vfs::new(VfsLimits::default());
    let (root, inner) = (vfs.add_root(Access::ReadWrite), vfs.add_root(Access::ReadWrite));
    vfs.write_file(root, "a/file", b"outer").unwrap();
    vfs.write_file(inner, "file", b"inner").unwrap();
    let mut config = WasiConfig::new(vfs);
    config.mounts = vec![Mount::new("/a/b", inner)];
    config.root_preopen = true;
    let mut guest = Guest { wasi: Wasi::new(config).unwrap(), ..Guest::new() };
    guest.wasi.add_mount(Mount::new("/", root)).unwrap();
    for (path, content) in [("a/file", "outer"), ("a/b/file", "inner"), ("./a/../a/file", "outer")] {
        let fd = guest.open_at(ROOT, path, 0, READ, 0).unwrap();
        assert_eq!(guest.read(fd, 100).unwrap(), content.as_bytes(), "{path}");
    }
}

#[test]
fn image_keeps_preopens_over_a_new_file_system() {
    let mut guest = guest();
    let old = guest.open("old", CREAT).unwrap();
    call!(guest, fd_renumber(old, 2)).unwrap();
    let directory = guest.open_at(ROOT, "deep", DIRECTORY, READ, 0).unwrap();
    let mut vfs = Vfs::new(VfsLimits::default());
    let app = vfs.add_root(Access::ReadWrite);
    let data = vfs.add_root(Access::ReadOnly);
    vfs.write_file(app, "file", b"new").unwrap();
    let other = Vfs::new(VfsLimits::default());
    assert_eq!(guest.wasi.set_file_system(other, vec![]), Err(WasiError::PreopenWithoutMount("/app".to_owned())),);
    assert_eq!(guest.stat(APP, "old").unwrap().0, 4, "an error changes nothing");

    guest.wasi.set_file_system(vfs, vec![Mount::new("/data", data), Mount::new("/app", app)]).unwrap();
    guest.wasi.begin_execution();
    assert_eq!(guest.content("file"), b"new");
    assert_eq!(guest.stat(APP, "old"), Err(Errno::NoEnt));
    assert_eq!(guest.names(ROOT, 4096), [".", "..", "app", "data"]);
    assert_eq!(guest.names(directory, 4096), [".", ".."], "no mount is below the directory any more");
    assert_eq!(guest.wasi.mount_root("/data"), Some(data));
    assert_eq!(guest.wasi.mount_root("/none"), None);
    assert_eq!(guest.write(2, b"x"), Ok(1));
}

#[test]
fn invalid_mounts_are_rejected() {
    let mut vfs = Vfs::new(VfsLimits::default());
    let app = vfs.add_root(Access::ReadWrite);
    let foreign = {
        let mut other = Vfs::new(VfsLimits::default());
        other.add_root(Access::ReadWrite);
        other.add_root(Access::ReadWrite)
    };
    let make = |mounts: Vec<Mount>| {
        let mut config = WasiConfig::new(vfs.clone());
        config.mounts = mounts;
        Wasi::new(config).map(|_| ())
    };
    for path in ["", "app", "/app/", "//app", "/a/../b", "/./a", "/a\0b", "/a//b"] {
        assert_eq!(make(vec![Mount::new(path, app)]), Err(WasiError::MountPath(path.to_owned())));
    }
    let twice = make(vec![Mount::new("/app", app), Mount::new("/app", app)]);
    assert_eq!(twice, Err(WasiError::MountTwice("/app".to_owned())));
    assert_eq!(make(vec![Mount::new("/app", foreign)]), Err(WasiError::UnknownRoot("/app".to_owned())));
    let many: Vec<Mount> = (0..300).map(|i| Mount::new(format!("/m{i}"), app)).collect();
    assert_eq!(make(many), Err(WasiError::TooManyMounts("/m253".to_owned())));
    assert_eq!(make(vec![Mount::new("/", app)]), Ok(()));
}

#[test]
fn a_mount_can_be_replaced() {
    let mut guest = guest();
    let root = guest.wasi.vfs_mut().add_root(Access::ReadWrite);
    guest.wasi.vfs_mut().write_file(root, "replaced", b"").unwrap();
    guest.wasi.add_mount(Mount::new("/app", root)).unwrap();
    assert_eq!(guest.stat(APP, "replaced").unwrap().0, 4);
    assert_eq!(guest.stat(ROOT, "app/replaced").unwrap().0, 4);
    assert_eq!(guest.wasi.mounts().len(), 3);
}

/// A host directory with one file of 200,000 bytes. Reads return only a few bytes at a time, and fail at `breaks_at`.
struct SlowSource {
    breaks_at: u64,
}

const SLOW_BYTES: u64 = 200_000;

impl MountSource for SlowSource {
    fn list(&self, _dir: &str, _limit: usize) -> Result<Vec<SourceEntry>, SourceError> {
        Ok(vec![SourceEntry { name: "file".to_owned(), stat: self.stat("file")?.unwrap() }])
    }

    fn stat(&self, path: &str) -> Result<Option<SourceStat>, SourceError> {
        let kind = if path.is_empty() { FileKind::Directory } else { FileKind::File };
        let inode = u64::try_from(path.len()).unwrap();
        let identity = FileIdentity { device: 1, inode };
        Ok(Some(SourceStat { kind, size_bytes: SLOW_BYTES, modified_ns: 0, changed_ns: 0, identity }))
    }

    fn read(&self, _path: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        if offset >= self.breaks_at {
            return Err(SourceError::new("unplugged"));
        }
        let len = into.len().min(1_000).min(usize::try_from(SLOW_BYTES - offset).unwrap());
        for (byte, at) in into[..len].iter_mut().zip(offset..) {
            *byte = u8::try_from(at % 251).unwrap();
        }
        Ok(len)
    }

    fn read_link(&self, _path: &str) -> Result<String, SourceError> {
        Err(SourceError::new("no links"))
    }
}

fn slow(breaks_at: u64) -> (Guest, u32) {
    let mut guest = guest();
    let root = guest.wasi.vfs_mut().add_mount(Arc::new(SlowSource { breaks_at }), Access::ReadOnly).unwrap();
    guest.wasi.add_mount(Mount::new("/slow", root)).unwrap();
    let fd = guest.open_at(ROOT, "slow/file", 0, READ, 0).unwrap();
    (guest, fd)
}

#[test]
fn mounted_file_is_complete_despite_short_reads() {
    let (mut guest, fd) = slow(u64::MAX);
    let expected: Vec<u8> = (0..SLOW_BYTES).map(|at| u8::try_from(at % 251).unwrap()).collect();
    assert_eq!(guest.read(fd, 300_000).unwrap(), expected);
    assert_eq!(guest.read(fd, 10).unwrap(), b"");
    assert!(guest.host.charged >= SLOW_BYTES);
}

#[test]
fn failing_mount_returns_partial_data_then_the_error() {
    let (mut guest, fd) = slow(131_072);
    assert_eq!(guest.read(fd, 300_000).unwrap().len(), 131_072);
    assert_eq!(guest.read(fd, 300_000), Err(Errno::Io));
}

#[test]
fn mount_cache_shrinks_at_the_memory_limit() {
    let (mut guest, fd) = slow(u64::MAX);
    let limit = guest.wasi.limits().memory_bytes;
    guest.wasi.set_linear_memory_bytes(limit - guest.wasi.host_bytes() - 70_000);
    assert_eq!(guest.read(fd, 300_000).map(|bytes| bytes.len()), Ok(200_000));
    let linear = limit - guest.wasi.room_bytes() - guest.wasi.host_bytes();
    assert!(linear + guest.wasi.host_bytes() <= limit);
}

/// Returns a guest with a mount at `/app/lib`, inside `/app`. The mount's only file contains the mount's name.
fn nested() -> Guest {
    let mut guest = guest();
    let lib = guest.wasi.vfs_mut().add_root(Access::ReadWrite);
    guest.wasi.vfs_mut().write_file(lib, "dir/file", b"lib").unwrap();
    guest.wasi.vfs_mut().set_access(lib, Access::ReadOnly);
    guest.wasi.add_mount(Mount::new("/app/lib", lib)).unwrap();
    guest
}

#[test]
fn nested_mount_is_reached_from_both_levels() {
    let mut guest = nested();
    let app = guest.open_at(ROOT, "app", DIRECTORY, READ, 0).unwrap();
    for (at, path) in [
        (APP, "lib/dir/file"),
        (APP, "./lib//dir/./file"),
        (APP, "lib/../lib/dir/file"),
        (app, "lib/dir/file"),
        (ROOT, "app/lib/dir/file"),
        (ROOT, "app/lib/../lib/dir/file"),
    ] {
        let fd = guest.open_at(at, path, 0, READ, 0).unwrap();
        assert_eq!(guest.read(fd, 100).unwrap(), b"lib", "{path}");
    }
    let lib = guest.open_at(APP, "lib/", DIRECTORY, READ, 0).unwrap();
    assert_eq!(guest.names(lib, 4096), [".", "..", "dir"]);
    assert_eq!(guest.names(APP, 4096), [".", ".."], "an inner mount is not listed in the outer mount");
    // The path leads back to the outer mount, in which the file is created.
    let fd = guest.open_at(APP, "lib/../new", CREAT | EXCL, ALL_RIGHTS, 0).unwrap();
    guest.write(fd, b"abc").unwrap();
    assert_eq!(guest.content("new"), b"abc");
    assert!(guest.wasi.take_events().is_empty());
}

#[test]
fn nested_mount_does_not_lead_out() {
    let mut guest = nested();
    for path in ["lib/../../etc/passwd", "lib/dir/../../x", "lib/../..", "/app/lib/dir/file", "../lib/dir/file"] {
        assert_eq!(guest.open_at(APP, path, 0, READ, 0), Err(Errno::Acces), "{path}");
    }
    assert_eq!(guest.open_at(APP, "", 0, READ, 0), Err(Errno::NoEnt));
    assert_eq!(
        guest.open_at(APP, "library", 0, READ, 0),
        Err(Errno::NoEnt),
        "a name with the same prefix is not the mount"
    );
    assert_eq!(guest.open_at(APP, "lib/new", CREAT, ALL_RIGHTS, 0), Err(Errno::Rofs));
    assert_eq!(guest.open_at(APP, "lib", CREAT | EXCL, ALL_RIGHTS, 0), Err(Errno::Exist));
}

#[test]
fn entry_of_the_outer_mount_hides_the_inner_mount() {
    let mut guest = nested();
    let app = guest.wasi.mount_root("/app").unwrap();
    guest.wasi.vfs_mut().write_file(app, "lib/own", b"own").unwrap();
    for (at, path) in [(APP, "lib/own"), (ROOT, "app/lib/own")] {
        let fd = guest.open_at(at, path, 0, READ, 0).unwrap();
        assert_eq!(guest.read(fd, 100).unwrap(), b"own");
        assert_eq!(guest.open_at(at, &path.replace("own", "dir/file"), 0, READ, 0), Err(Errno::NoEnt));
    }
    guest.wasi.vfs_mut().remove(app, "lib").unwrap();
    assert!(guest.open_at(APP, "lib/dir/file", 0, READ, 0).is_ok());
    // The guest can also create its own entry at the path of the inner mount.
    guest.make_dir("lib").unwrap();
    assert_eq!(guest.make_dir("lib"), Err(Errno::Exist));
    assert_eq!(guest.open_at(APP, "lib/dir/file", 0, READ, 0), Err(Errno::NoEnt));
    let fd = guest.open_at(APP, "lib/mine", CREAT | EXCL, ALL_RIGHTS, 0).unwrap();
    guest.write(fd, b"abc").unwrap();
    assert_eq!(guest.content("lib/mine"), b"abc");
}
