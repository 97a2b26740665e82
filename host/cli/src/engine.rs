//! Builds an engine and its sandboxes from flags.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use glovebox::{Engine, EngineConfig, Language, Packages, Policy, Sandbox, escaped};

use crate::{
    args::{GlobalArgs, RuntimeArgs},
    progress::Steps,
    state,
    terminal::Hinted,
};

/// Whether the engine keeps a pool of memory for guests. An engine that runs a single guest must not: reserving the
/// pool costs more than the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// One of the usual size.
    Pooled,
    /// One with room for so many, if that is more than the usual.
    Holding(u32),
    Single,
}

/// How an interpreter is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// From its prepared image.
    Prepared,
    /// From the binary, booted each time: it can run scripts, but has neither sessions nor validation.
    Plain,
}

/// An engine and its progress display.
pub(crate) struct Host {
    pub(crate) engine: Engine,
    pub(crate) steps: Arc<Steps>,
}

impl Host {
    pub(crate) fn open(global: &GlobalArgs, pooling: Pooling) -> anyhow::Result<Self> {
        let steps = Arc::new(Steps::default());
        let mut config = EngineConfig::default();
        match (pooling, &mut config.pool) {
            (Pooling::Single, pool) => *pool = None,
            (Pooling::Holding(count), Some(pool)) => pool.instance_count = pool.instance_count.max(count),
            (Pooling::Holding(_), None) | (Pooling::Pooled, _) => {}
        }
        if global.no_packages {
            config.packages = Packages::None;
        }
        // If no packages were added, or images built, the directory does not exist and is not created.
        config.own_packages = own_packages_dir().ok().filter(|dir| dir.is_dir());
        config.own_images = own_images_dir().ok().filter(|dir| dir.is_dir());
        config.cache_dir.clone_from(&global.cache_dir);
        config.bundle.clone_from(&global.bundle);
        config.default_runtimes.clone_from(&global.default_runtime);
        // Whether or not this command uses a session or packages: a script must not reach those of others.
        config.private_dirs.extend(state::dir().ok());
        if let Some(bytes) = global.cache_bytes {
            (config.cache.image_bytes, config.cache.component_bytes) = (bytes, bytes);
        }
        if let Some(age) = global.cache_age {
            config.cache.max_age = age;
        }
        config.progress = Arc::clone(&steps) as _;
        let engine = Engine::new(config).context("cannot start the engine")?;
        Ok(Self { engine, steps })
    }

    /// Runs an operation that may fetch or prepare, and then removes its progress from the screen.
    pub(crate) fn with_progress<T>(&self, work: impl FnOnce(&Engine) -> T) -> T {
        let result = work(&self.engine);
        self.steps.clear();
        result
    }

    /// A sandbox according to the flags; fetches and prepares its runtime if needed. Without a language it is that of
    /// the named runtime, or Python.
    pub(crate) fn sandbox(
        &self,
        args: &RuntimeArgs,
        language: Option<Language>,
        policy: &Policy,
    ) -> anyhow::Result<Sandbox> {
        self.sandbox_of(args, language, policy, Image::Prepared)
    }

    /// Like [`sandbox`](Self::sandbox), for the prepared image or a plain command.
    pub(crate) fn sandbox_of(
        &self,
        args: &RuntimeArgs,
        language: Option<Language>,
        policy: &Policy,
        image: Image,
    ) -> anyhow::Result<Sandbox> {
        if let Some(path) = &args.runtime_path {
            check_runtime_path(path)?;
        }
        self.with_progress(|engine| {
            let mut builder = Sandbox::builder(engine).policy(policy.clone()).prepared(image == Image::Prepared);
            if let Some(language) = language {
                builder = builder.language(language);
            }
            if let Some(name) = &args.runtime {
                builder = builder.runtime(name);
            }
            if let Some(path) = &args.runtime_path {
                builder = builder.runtime_path(path.clone());
            }
            builder.build().context("cannot set up the sandbox")
        })
    }
}

/// The directory of the user's own packages: beside the sessions, so that cleaning the cache does not remove them.
pub(crate) fn own_packages_dir() -> anyhow::Result<PathBuf> {
    Ok(state::dir()?.join("packages"))
}

/// The directory of the user's own images, for the same reason.
pub(crate) fn own_images_dir() -> anyhow::Result<PathBuf> {
    Ok(state::dir()?.join("images"))
}

/// Reports a missing binary with a hint; the engine reports everything else about it.
fn check_runtime_path(path: &Path) -> Result<(), Hinted> {
    match std::fs::metadata(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(Hinted::new(
            format!("cannot read runtime binary `{}`", escaped(path)),
            "give --runtime-path a WebAssembly file, or leave it out to use a runtime of `glovebox runtimes list`",
        )
        .because(error)),
    }
}
