//! The engine of a process, for JavaScript.

use std::sync::Arc;

use glovebox::{Engine, EngineConfig, Packages};
use napi_derive::napi;

use crate::{
    error::Failure,
    job::{Callback, Progress, start},
};

/// Where an engine finds things.
#[napi(object, object_to_js = false)]
pub struct NativeEngineOptions {
    /// The cache directory.
    pub cache_dir: Option<String>,
    /// The interpreters that the package brings along.
    pub bundle: Option<String>,
    /// The directory of the user's own images.
    pub images: Option<String>,
    /// Whether Python has its packages.
    pub packages: bool,
}

/// What all sandboxes of a process share.
#[napi]
pub struct NativeEngine(Engine);

impl NativeEngine {
    /// The engine.
    pub(crate) fn engine(&self) -> Engine {
        self.0.clone()
    }
}

#[napi]
impl NativeEngine {
    /// Makes one.
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
