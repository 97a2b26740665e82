//! The pinned binaries, from the cache at `GLOVEBOX_CACHE_DIR` or the default one. A missing binary is skipped, or
//! downloaded if `CI` is set.

use std::path::PathBuf;

use glovebox_runtimes::{Binary, CacheDir, Manifest, Quiet, Runtimes};

pub(crate) fn load(name: &str) -> Option<Binary> {
    let path = match std::env::var_os("GLOVEBOX_CACHE_DIR") {
        Some(path) => PathBuf::from(path),
        None => CacheDir::default_path().unwrap(),
    };
    let runtimes = Runtimes::new(Manifest::builtin().unwrap(), CacheDir::open(path).unwrap());
    let entry = runtimes.manifest().find(name).unwrap();
    if std::env::var_os("CI").is_some() {
        runtimes.fetch(entry, &Quiet).unwrap();
    }
    if !runtimes.present(entry).unwrap() {
        eprintln!("skipped: `{name}` is not in the cache; type `glovebox runtimes fetch {name}`");
        return None;
    }
    Some(runtimes.load(entry).unwrap())
}
