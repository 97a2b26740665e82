//! Placeholder for builds without the feature `packages`.

use std::{convert::Infallible, path::Path, sync::Arc};

use glovebox_runtimes::{Digest, OwnImage, PackageError, Runtimes};
use glovebox_vfs::MountSource;

use crate::{EngineError, Packages};

/// An empty type: no value exists.
#[derive(Clone)]
pub(crate) struct SharedPackages(Infallible);

/// Fails if the configuration asks for packages.
pub(crate) fn open(
    runtimes: Runtimes,
    packages: Packages,
    own: Option<&Path>,
) -> Result<(Arc<Runtimes>, Option<SharedPackages>), EngineError> {
    match (packages, own) {
        (Packages::None, None) => Ok((Arc::new(runtimes), None)),
        _ => Err(EngineError::NotBuilt { feature: "packages" }),
    }
}

impl SharedPackages {
    pub(crate) fn source(&self) -> Arc<dyn MountSource> {
        match self.0 {}
    }

    pub(crate) fn source_with(&self, _: Vec<(String, Vec<u8>)>) -> Result<Arc<dyn MountSource>, PackageError> {
        match self.0 {}
    }

    pub(crate) fn source_of(&self, _: &Arc<OwnImage>) -> Arc<dyn MountSource> {
        match self.0 {}
    }

    pub(crate) fn digest(&self) -> Digest {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use crate::{Engine, EngineConfig, Packages};

    #[test]
    fn whoever_asks_for_packages_is_told_of_the_feature() {
        let dir = tempfile::tempdir().unwrap();
        let config = || EngineConfig { cache_dir: Some(dir.path().into()), pool: None, ..EngineConfig::default() };
        Engine::new(config()).unwrap();
        let bundled = EngineConfig { packages: Packages::Bundled, ..config() };
        let own = EngineConfig { own_packages: Some(dir.path().join("own")), ..config() };
        for config in [bundled, own] {
            let error = Engine::new(config).unwrap_err().to_string();
            assert!(error.contains("its feature `packages`"), "{error}");
        }
    }
}
