//! Restores a guest's WASI state and files from arbitrary bytes.

use std::{collections::BTreeSet, sync::Arc};

use glovebox_vfs::{
    Access, CommitStep, FileIdentity, FileKind, MountSource, OpenOptions, RestoreError as VfsRestoreError, SourceEntry,
    SourceError, SourceStat, Vfs, VfsLimits,
    encoding::{DecodeError, Encoder},
};
use glovebox_wasi::{Entropy, Mount, RestoreError, Wasi, WasiConfig, WasiLimits};

const QUOTA_BYTES: u64 = 1 << 20;
const MEMORY_BYTES: u64 = 4 << 20;

/// Restores arbitrary bytes. The result must be an error that leaves the state unchanged, or a state within the limits.
/// Saving, restoring, committing and listing that state must succeed.
pub fn saved_state(data: &[u8]) {
    let mut wasi = fresh();
    let before = wasi.save();
    if wasi.restore(data).is_err() {
        assert_eq!(wasi.save(), before, "a failed restore must not change the state");
        return;
    }
    assert!(wasi.host_bytes() <= MEMORY_BYTES, "the memory limit was exceeded");
    assert!(wasi.vfs().inodes_used() <= 100 && wasi.open_files() <= 16, "a limit was exceeded");
    let saved = wasi.save();
    let mut again = fresh();
    again.restore(&saved).expect("a restored state can be saved and restored again");
    assert_eq!(again.save(), saved, "saving a restored state must give the same bytes");

    for mount in wasi.mounts().to_vec() {
        let plan = wasi.vfs().commit_plan(mount.root);
        for step in &plan {
            let (CommitStep::DeleteFile { path, .. }
            | CommitStep::RemoveDir { path }
            | CommitStep::CreateDir { path }
            | CommitStep::WriteFile { path, .. }
            | CommitStep::Symlink { path, .. }) = step
            else {
                panic!("an unknown step: {step:?}")
            };
            assert!(path.split('/').all(|name| !matches!(name, "" | "." | "..")), "{path:?} leaves the mount");
        }
        let mut left = vec![String::new()];
        while let Some(dir) = left.pop() {
            // The source may lack entries that the fuzzed bytes describe.
            for entry in wasi.vfs_mut().list(mount.root, &dir).unwrap_or_default() {
                let path = format!("{dir}/{}", entry.name);
                match entry.kind {
                    FileKind::Directory => left.push(path),
                    _ => drop(wasi.vfs_mut().read_file(mount.root, &path, QUOTA_BYTES)),
                }
            }
        }
    }
    wasi.begin_execution();
    let workspace = wasi.unbind();
    wasi.rebind(workspace);
    assert_eq!(wasi.open_files(), 0, "files of the guest are still open");
}

/// Creates the state that the bytes are restored into, as an embedder does.
fn fresh() -> Wasi {
    let mut vfs = Vfs::new(VfsLimits { bytes: QUOTA_BYTES, inodes: 100, ..VfsLimits::default() });
    let app = vfs.add_root(Access::ReadWrite);
    let host = vfs.add_mount(Arc::new(ToySource), Access::ReadWrite).expect("the source is a directory");
    let mut config = WasiConfig::new(vfs);
    config.mounts = vec![Mount::new("/app", app), Mount::new("/host", host)];
    config.root_preopen = true;
    config.entropy = Entropy::seeded(1);
    config.limits = WasiLimits { open_files: 16, memory_bytes: MEMORY_BYTES, ..WasiLimits::default() };
    Wasi::new(config).expect("the configuration is sound")
}

/// A source of unlimited depth: each directory contains a directory `d` and a file `f`.
struct ToySource;

fn stat(kind: FileKind) -> SourceStat {
    SourceStat { kind, size_bytes: 5, modified_ns: 7, changed_ns: 8, identity: FileIdentity::default() }
}

impl MountSource for ToySource {
    fn list(&self, dir: &str, _: usize) -> Result<Vec<SourceEntry>, SourceError> {
        let entry = |name: &str, kind| SourceEntry { name: name.to_owned(), stat: stat(kind) };
        let mut entries = vec![entry("f", FileKind::File)];
        if dir.len() < 4 {
            entries.push(entry("d", FileKind::Directory));
        }
        Ok(entries)
    }

    fn stat(&self, path: &str) -> Result<Option<SourceStat>, SourceError> {
        Ok(Some(stat(if path.ends_with('f') { FileKind::File } else { FileKind::Directory })))
    }

    fn read(&self, _: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        let rest = b"hello".get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn read_link(&self, path: &str) -> Result<String, SourceError> {
        Err(SourceError::new(format!("`{path}` is not a link")))
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut wasi = fresh();
    let mut all = vec![wasi.save()];
    let (app, host) = (wasi.mounts()[0].root, wasi.mounts()[1].root);
    let vfs = wasi.vfs_mut();
    let top = vfs.root_dir(host).expect("a root has a directory");
    vfs.write_file(app, "a/b", b"content").expect("the quota has room");
    vfs.write_file(host, "d/f", b"changed").expect("the quota has room");
    vfs.rename(top, b"d/d", top, b"moved").expect("the entry exists");
    vfs.open(top, b"moved/f", OpenOptions::default()).expect("the entry exists");
    vfs.remove(host, "f").expect("the entry exists");
    wasi.set_stdin(b"input".to_vec());
    all.push(wasi.save());
    assert!(all.iter().all(|saved| fresh().restore(saved).is_ok()), "a seed cannot be restored");
    all.push(endless_mounts());
    all.push(endless_journal());
    all
}

/// Returns a few bytes that claim a huge number of mounts. They contain only the eight mounts that the error lists, so
/// reading a ninth would fail at the end of the input.
fn endless_mounts() -> Vec<u8> {
    let mut to = Encoder::new();
    to.byte(1);
    to.number(u64::MAX);
    for _ in 0..8 {
        to.text("/app");
        to.number(0);
    }
    let saved = to.finish();
    let error = fresh().restore(&saved).expect_err("other mounts");
    assert!(matches!(error, RestoreError::OtherMounts { .. }), "a ninth mount must not be read: {error}");
    saved
}

/// Returns a few bytes that claim a huge number of created names. They contain only one name more than the quota
/// allows, so reading another would fail at the end of the input.
fn endless_journal() -> Vec<u8> {
    /// Each name is charged 256 bytes plus its length.
    const MAX: u64 = QUOTA_BYTES / 260;
    let journal = |count: u64| {
        let wasi = fresh();
        let mut saved = wasi.save();
        saved.truncate(saved.len() - wasi.vfs().save(&BTreeSet::new()).len());
        let app = wasi.vfs().root_dir(wasi.mounts()[0].root).expect("a root has a directory").get();
        let mut to = Encoder::new();
        to.raw(&saved);
        to.byte(2);
        to.fixed(0);
        to.number(50);
        to.number(2);
        to.byte(0);
        to.number(app);
        to.number(1);
        to.number(app);
        to.number(u64::MAX);
        for number in 0..count {
            to.text(&format!("{number:04}"));
            to.byte(0);
        }
        to.finish()
    };
    let refused = |saved: &[u8]| match fresh().restore(saved) {
        Err(RestoreError::FileSystem(error)) => error,
        other => panic!("the file system is refused: {other:?}"),
    };
    let damaged = VfsRestoreError::Damaged(DecodeError("it is truncated"));
    assert_eq!(refused(&journal(MAX)), damaged, "all names within the quota must be read");
    let saved = journal(MAX + 1);
    assert_eq!(refused(&saved), VfsRestoreError::Limit("bytes"), "reading must stop at the first name over the quota");
    saved
}
