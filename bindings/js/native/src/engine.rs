//! The engine of a process, for JavaScript.

use std::sync::Arc;

use glovebox::{Engine, EngineConfig, Packages};
use napi_derive::napi;

use crate::{
    error::Failure,
    job::{Callback, Progress, start},
};

/// The directories and settings of an engine.
#[napi(object, object_to_js = false)]
pub struct NativeEngineOptions {
    /// The cache directory.
    pub cache_dir: Option<String>,
    /// The archive of interpreters in the package.
    pub bundle: Option<String>,
    /// The directory of custom images.
    pub images: Option<String>,
    /// Makes the bundled packages available to Python.
    pub packages: bool,
}

/// The engine that all sandboxes of a process share.
#[napi]
pub struct NativeEngine(Engine);

impl NativeEngine {
    pub(crate) fn engine(&self) -> Engine {
        self.0.clone()
    }
}

#[napi]
impl NativeEngine {
    /// Opens an engine.
    #[napi]
    pub fn open(options: NativeEngineOptions, callback: Callback<'_, NativeEngine>) -> napi::Result<()> {
        start(&callback, move |_| {
            let mut config = EngineConfig::default();
            config.cache_dir = options.cache_dir.map(Into::into);
            config.bundle = options.bundle.map(Into::into);
            config.own_images = options.images.map(Into::into);
            config.progress = Arc::new(Progress);
            if !options.packages {
                config.packages = Packages::None;
            }
            Ok(Self(Engine::new(config).map_err(Failure::from)?))
        })
    }
}
