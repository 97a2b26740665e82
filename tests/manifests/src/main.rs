//! `manifests WADM…`: checks manifests for wadm, and fails if wadm would refuse one or warn about it.

use std::{env, fs};

use anyhow::{Context as _, ensure};
use wadm_types::{Manifest, validation};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let files: Vec<String> = env::args().skip(1).collect();
    ensure!(!files.is_empty(), "usage: manifests WADM…");
    for file in files {
        let text = fs::read(&file).with_context(|| file.clone())?;
        let manifest: Manifest = serde_yaml::from_slice(&text).with_context(|| file.clone())?;
        let failures =
            [validation::validate_raw_yaml(&text)?, validation::validate_manifest(&manifest).await?].concat();
        ensure!(failures.is_empty(), "{file}: {failures:#?}");
        println!("{file}: an application of {} components", manifest.components().count());
    }
    Ok(())
}
