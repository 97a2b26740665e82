//! Creates an engine and its sandboxes from flags, and shows the progress of downloads and preparation.

use std::{
    io::{IsTerminal, stderr},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use anyhow::Context;
use glovebox::{Engine, EngineConfig, Language, Packages, Policy, Progress, Sandbox, escaped, escaped_text};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{
    args::{GlobalArgs, RuntimeArgs},
    interrupt, session_dir,
    terminal::{HintedError, OrHint as _, note},
};

/// The engine's pool of guest memory. Commands that run one guest use no pool, because reserving a pool takes longer
/// than the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// A pool of the default size.
    #[cfg(feature = "full")]
    Pooled,
    /// A pool for at least this many guests, or of the default size if that is larger.
    #[cfg(feature = "full")]
    Holding(u32),
    Single,
}

/// The source of an interpreter's initial state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    Prepared,
    /// The binary, booted for each script. It supports neither sessions nor validation.
    Plain,
}

/// An engine and its progress display.
pub(crate) struct Host {
    pub(crate) engine: Engine,
    pub(crate) steps: Arc<StepProgress>,
}

impl Host {
    pub(crate) fn open(global: &GlobalArgs, pooling: Pooling) -> anyhow::Result<Self> {
        let steps = Arc::new(StepProgress::default());
        let mut config = EngineConfig::default();
        match pooling {
            Pooling::Single => config.pool = None,
            #[cfg(feature = "full")]
            Pooling::Pooled => {}
            #[cfg(feature = "full")]
            Pooling::Holding(count) => {
                config.pool.iter_mut().for_each(|pool| pool.instance_count = pool.instance_count.max(count));
            }
        }
        if global.no_packages {
            config.packages = Packages::None;
        }
        // If there are no added packages or custom images, their directories do not exist and are not created.
        config.user_packages = user_packages_dir().ok().filter(|dir| dir.is_dir());
        config.custom_images = custom_images_dir().ok().filter(|dir| dir.is_dir());
        config.cache_dir.clone_from(&global.cache_dir);
        config.bundles.clone_from(&global.bundle);
        config.prepared.clone_from(&global.prepared);
        config.default_runtimes.clone_from(&global.default_runtime);
        config.network = Some(Arc::new(glovebox_network::Http));
        // Protect this directory even if the command uses no session or package: scripts must not access data of other
        // commands.
        config.private_dirs.extend(session_dir::state_dir().ok());
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

    /// Runs an operation that may download or prepare a runtime, and then removes its progress from the screen.
    pub(crate) fn with_progress<T>(&self, work: impl FnOnce(&Engine) -> T) -> T {
        let result = work(&self.engine);
        self.steps.clear();
        result
    }

    /// Creates a sandbox from the flags. Downloads and prepares its runtime if needed. The default language is the
    /// selected runtime's language, or Python.
    pub(crate) fn sandbox(
        &self,
        args: &RuntimeArgs,
        language: Option<Language>,
        policy: &Policy,
    ) -> anyhow::Result<Sandbox> {
        self.sandbox_of(args, language, policy, Image::Prepared)
    }

    /// Like [`sandbox`](Self::sandbox), but with `image` as the source of the interpreter's initial state.
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

/// Returns the directory of user packages. It is outside the cache, so that cleaning the cache does not remove them.
pub(crate) fn user_packages_dir() -> anyhow::Result<PathBuf> {
    Ok(session_dir::state_dir()?.join("packages"))
}

/// Returns the directory of custom images, which is outside the cache as well.
pub(crate) fn custom_images_dir() -> anyhow::Result<PathBuf> {
    Ok(session_dir::state_dir()?.join("images"))
}

/// Fails with a hint if the binary is missing. The engine reports all other problems with the binary.
fn check_runtime_path(path: &Path) -> Result<(), HintedError> {
    let found = std::fs::metadata(path).or_hint(
        || format!("cannot read runtime binary `{}`", escaped(path)),
        "set --runtime-path to a WebAssembly file, or remove it to use a runtime from `glovebox runtimes list`",
    );
    found.map(drop)
}

/// Minimum duration of a step that is reported with a line.
const WORTH_A_LINE: Duration = Duration::from_secs(1);
/// The interval between frames of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// A display that shows the progress of steps on standard error, and cancels them on Ctrl-C. It has no cost before the
/// first step.
#[derive(Debug, Default)]
pub(crate) struct StepProgress(Mutex<Display>);

#[derive(Debug, Default)]
enum Display {
    #[default]
    Idle,
    Bar(ProgressBar),
    Lines(Sender<String>),
}

impl StepProgress {
    /// Removes the progress bar from the screen before the guest's output.
    pub(crate) fn clear(&self) {
        let mut display = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Display::Bar(bar) = &*display {
            bar.finish_and_clear();
        }
        *display = Display::Idle;
    }
}

impl Progress for StepProgress {
    fn done(&self) {
        self.clear();
    }

    fn message(&self, text: &str) {
        let text = escaped_text(text).to_string();
        let mut display = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*display, Display::Idle) {
            *display = if stderr().is_terminal() { Display::Bar(bar()) } else { Display::Lines(lines()) };
        }
        match &*display {
            Display::Idle => {}
            Display::Bar(bar) => {
                bar.set_length(0);
                bar.set_style(spinner_style());
                bar.set_message(text);
            }
            // Sending cannot fail, because the receiver lives as long as this value.
            Display::Lines(lines) => drop(lines.send(text)),
        }
    }

    fn bytes(&self, done_bytes: u64, total_bytes: u64) {
        let display = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Display::Bar(bar) = &*display
            && total_bytes > 0
        {
            if bar.length() != Some(total_bytes) {
                bar.set_length(total_bytes);
                bar.set_style(bytes_style());
            }
            bar.set_position(done_bytes.min(total_bytes));
        }
    }

    fn cancelled(&self) -> bool {
        interrupt::is_pressed()
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(spinner_style());
    bar.enable_steady_tick(TICK);
    bar
}

fn spinner_style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg} {elapsed}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn bytes_style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg} {bar:30} {binary_bytes}/{binary_total_bytes}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Starts a thread that writes a step's line once the step has lasted `WORTH_A_LINE`. A step ends when the next step
/// begins, or when the sender is dropped.
fn lines() -> Sender<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || write_lines(&receiver));
    sender
}

fn write_lines(receiver: &Receiver<String>) {
    let mut next = receiver.recv().ok();
    while let Some(text) = next {
        next = match receiver.recv_timeout(WORTH_A_LINE) {
            Ok(later) => Some(later),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                note(&text);
                receiver.recv().ok()
            }
        };
    }
}
