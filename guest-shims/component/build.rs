//! Packs the files that guests see at `/data_js`.

use std::{env, fs, io, path::Path};

/// The module is included as a file. A build dependency on its crate would enable more features of serde, so Cargo
/// would compile Wasmtime's macros a second time.
#[path = "../interpreters/src/javascript/library.rs"]
#[allow(unreachable_pub, reason = "the module is public in its own crate")]
mod library;

/// The highest compression level that needs no special window size. Packing runs once per build.
const LEVEL: i32 = 19;

fn main() -> io::Result<()> {
    let mut all = Vec::new();
    for (path, text) in library::library() {
        assert!(!text.contains(&0), "{path} contains a zero byte, which separates the files");
        for piece in [path.as_bytes(), &[0], &text, &[0]] {
            all.extend(piece);
        }
    }
    let out = env::var_os("OUT_DIR")
        .ok_or_else(|| io::Error::other("`OUT_DIR` is not set; run this build script with Cargo"))?;
    fs::write(Path::new(&out).join("library.zst"), zstd::bulk::compress(&all, LEVEL)?)?;
    for path in ["build.rs", "../interpreters/src/javascript", "../../vendor_js"] {
        println!("cargo::rerun-if-changed={path}");
    }
    Ok(())
}
