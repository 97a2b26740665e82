//! Builds, lists, removes, exports and imports custom images.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use glovebox_runtimes::{
    CustomImage, CustomImageError, CustomImages, ImageDefinition, ImageInputs, InputFile, MAX_IMAGE_MEMORY_BYTES,
    PackageList, SetupStep,
};
use serde::Serialize;

use crate::{
    Engine, Language, Limits, PreparedInfo, RuntimeError,
    engine::EngineInner,
    load::{
        prepare::SETUP_OUTPUT,
        resolve::{FoundRuntime, language},
    },
};

const _: () =
    assert!(MAX_IMAGE_MEMORY_BYTES == Limits::MAX_MEMORY_BYTES, "the memory maximums of images and guests differ");

/// A builder of a custom image: an interpreter in which a setup script has run. Every execution in the image starts
/// with the heap of the setup (imported modules, loaded tables, fitted models), at no extra cost.
///
/// The setup runs once, in the sandbox, under the builder's limits, with a fixed clock and fixed random numbers. The
/// same inputs produce the same image, byte for byte. `random`, `Math.random` and `numpy.random` still differ between
/// executions. A generator that the setup creates itself has the same state at the start of each execution. A setup
/// that leaves a file open fails. Exit handlers of a setup are dropped.
///
/// An image contains code that its builder chose. Users who run scripts in an image must trust the image as they trust
/// the cache.
///
/// ```no_run
/// use glovebox::{Engine, EngineConfig, ImageBuilder, Sandbox};
///
/// let mut config = EngineConfig::default();
/// config.custom_images = Some("images".into());
/// let engine = Engine::new(config)?;
/// ImageBuilder::new("sales", "python-3.15-data")
///     .file("sales.csv", std::fs::read("sales.csv")?)
///     .setup("import pandas as pd\nsales = pd.read_csv('sales.csv')")
///     .build(&engine)?;
/// let sandbox = Sandbox::builder(&engine).runtime("sales").build()?;
/// println!("{}", sandbox.execute("print(sales.describe())")?.stdout.text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageBuilder {
    name: String,
    from: String,
    step: SetupStep,
    inputs: ImageInputs,
    memory_bytes: u64,
    timeout: Duration,
    replace: bool,
}

impl ImageBuilder {
    /// Creates a builder for an image called `name`. `from` is the base: a runtime, an image of a runtime, or a custom
    /// image. The new setup runs after the setups of `from` and sees their results.
    pub fn new(name: impl Into<String>, from: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            from: from.into(),
            step: SetupStep::default(),
            inputs: ImageInputs::default(),
            memory_bytes: 1 << 30,
            timeout: Duration::from_secs(120),
            replace: false,
        }
    }

    /// Sets the setup script, in the runtime's language. The script's global variables exist in every execution.
    /// JavaScript with `import` or `export` is an ES module, whose variables are local: assign them to `globalThis` to
    /// share them with scripts. Default: none.
    #[must_use]
    pub fn setup(mut self, code: impl Into<String>) -> Self {
        self.step.code = code.into();
        self
    }

    /// Adds a module to import before the setup runs, so that importing it again costs scripts almost nothing. The
    /// module is not bound to a name.
    #[must_use]
    pub fn preload(mut self, module: impl Into<String>) -> Self {
        self.step.preload.push(module.into());
        self
    }

    /// Adds a pure Python wheel, by its file name, for the setup and the scripts to import. An image can contain at
    /// most [`MAX_USER_PACKAGES`](glovebox_runtimes::MAX_USER_PACKAGES) wheels, and each wheel is limited like a custom
    /// package.
    #[must_use]
    pub fn wheel(mut self, file: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.inputs.wheels.push((file.into(), bytes.into()));
        self
    }

    /// Adds a file for the setup, at a path below its working directory `/app`. Executions can use objects that the
    /// setup loaded from the file, but do not see the file itself. A setup can have at most 1,024 files, of 256 MiB in
    /// total.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.inputs.files.push((path.into(), bytes.into()));
        self
    }

    /// Sets the memory limit while the image is built, in bytes. The limit applies to the total memory of the
    /// interpreter and the setup code. Default: 1 GiB. Minimum: 128 MiB. Maximum: 4 GiB.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Sets the time limit of the setup, including the preloading of modules. The limit also applies to each setup of
    /// the base image. Default: 120 seconds. Maximum: one hour.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets whether to replace an existing image with this name. Sessions in the old image can then no longer be
    /// resumed. Default: `false`, so that an existing image is an error.
    #[must_use]
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Builds and stores the image. On failure, an existing image with this name is unchanged.
    ///
    /// # Errors
    /// [`RuntimeError::Setup`] if the setup raises, exits, exceeds a limit or leaves a file open.
    /// [`RuntimeError::Image`] if the image is invalid or its name is taken. [`RuntimeError::NoImages`] if the engine
    /// has no directory for custom images. Other errors mean that the base runtime or the cache cannot be used.
    pub fn build(self, engine: &Engine) -> Result<BuiltImage, RuntimeError> {
        let inner = &*engine.0;
        let invalid = |problem: String| CustomImageError::Invalid { name: self.name.clone(), problem };
        let FoundRuntime { entry: base, own } = inner.find(&self.from)?;
        let mut steps = base.image.as_ref().map(|image| image.steps.clone()).unwrap_or_default();
        let mut inputs = own.map(|own| own.inputs()).transpose()?.unwrap_or_default();
        if !self.inputs.wheels.is_empty() && language(base.language) != Language::Python {
            return Err(invalid(format!(
                "wheels are for Python, but `{}` runs {}; remove the wheels or use a Python runtime",
                self.from, base.language
            ))
            .into());
        }
        steps.push(self.step);
        inputs.wheels.extend(self.inputs.wheels);
        for (path, bytes) in self.inputs.files {
            match inputs.files.iter().find(|(other, _)| *other == path) {
                Some((_, same)) if *same == bytes => {}
                Some(_) => {
                    return Err(invalid(format!(
                        "`{}` has a different file at `{path}`; rename one of the files",
                        self.from
                    ))
                    .into());
                }
                None => inputs.files.push((path, bytes)),
            }
        }
        let runtime = base.image.as_ref().map_or(base.name.as_str(), |image| &image.runtime);
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        let limits = (self.memory_bytes, if self.timeout.is_zero() { 0 } else { timeout_ms.max(1) });
        let definition = ImageDefinition::new(&self.name, (runtime, base.sha256), steps, &inputs, limits);
        inner.store_image(CustomImage::new(definition, inputs, &bundled_modules()?)?, self.replace)
    }
}

/// Returns the modules of the bundled packages. Wheels must not contain modules with these names.
fn bundled_modules() -> Result<Vec<(String, String)>, RuntimeError> {
    Ok(PackageList::builtin()?.modules())
}

/// The result of building an image.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct BuiltImage {
    /// The description of the image.
    pub image: ImageInfo,
    /// The state of the image in the cache.
    #[serde(flatten)]
    pub prepared: PreparedInfo,
}

/// The description of a custom image.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ImageInfo {
    /// The name of the image, which can be used as a runtime name.
    pub name: String,
    /// The name of the runtime that provides the interpreter.
    pub runtime: String,
    /// The language of the interpreter.
    pub language: Language,
    /// The version of the interpreter.
    pub version: String,
    /// The digest of the image's inputs. Images with the same digest are equal, whatever their names.
    pub digest: String,
    /// The setups that ran in the image, in order. The setups of the images on which this image is based come first.
    pub setups: Vec<SetupInfo>,
    /// The wheels of the image.
    pub wheels: Vec<ImageFile>,
    /// The files in `/app` during the setups.
    pub files: Vec<ImageFile>,
    /// The memory limit of the setups, in bytes.
    pub memory_limit_bytes: u64,
    /// The time limit of each setup, in milliseconds.
    pub timeout_ms: u64,
    /// The path of the file that defines the image.
    pub path: PathBuf,
    /// The size of the file that defines the image, in bytes.
    pub size_bytes: u64,
    /// `true` if the image is in the cache, for this version of Glovebox and this CPU. Otherwise, the image is built at
    /// its next use.
    pub prepared: bool,
    /// The identity of the image in the cache: the SHA-256 of its module. `None` if the image is not in the cache.
    pub image_sha256: Option<String>,
    /// The size of an instance's linear memory, in bytes. `None` if the image is not in the cache.
    pub memory_bytes: Option<u64>,
    /// The tail of the setups' output. `None` if the image is not in the cache.
    pub setup_output: Option<String>,
}

/// A setup that ran in an image.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SetupInfo {
    /// Modules that were imported before the script ran.
    pub preload: Vec<String>,
    /// The source of the setup script.
    pub code: String,
}

/// An input file of an image.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ImageFile {
    /// The file name of a wheel, or a path below `/app`.
    pub path: String,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

/// The name of a listed image, with its description or the error in its file.
pub type ListedImage = (String, Result<ImageInfo, RuntimeError>);

impl From<&InputFile> for ImageFile {
    fn from(file: &InputFile) -> Self {
        Self { path: file.path.clone(), size_bytes: file.size_bytes, sha256: file.sha256.to_string() }
    }
}

impl Engine {
    /// Returns the custom images, sorted by name. An image whose file is damaged is listed with its error.
    ///
    /// # Errors
    /// Fails if the image directory cannot be read.
    pub fn images(&self) -> Result<Vec<ListedImage>, RuntimeError> {
        let Some(own) = &self.0.custom_images else { return Ok(Vec::new()) };
        let names = own.names().map_err(CustomImageError::from)?;
        Ok(names.into_iter().map(|name| (name.clone(), self.image(&name))).collect())
    }

    /// Returns a custom image's description.
    ///
    /// # Errors
    /// Fails if there is no image with this name, if its file is damaged, or if this version of Glovebox does not have
    /// its interpreter.
    pub fn image(&self, name: &str) -> Result<ImageInfo, RuntimeError> {
        self.0.image_info(&self.0.custom_runtime(Arc::new(self.0.custom_image(name)?))?)
    }

    /// Returns the files of a custom image's wheels, sorted by path below `site-packages`. Returns none for runtimes
    /// that are not custom images.
    ///
    /// # Errors
    /// Fails if the image's file cannot be read or is damaged, or if a wheel cannot be unpacked.
    pub fn image_packages(&self, name: &str) -> Result<Vec<(String, Vec<u8>)>, RuntimeError> {
        let Some(own) = &self.0.custom_images else { return Ok(Vec::new()) };
        let image = own.find(name)?;
        Ok(image.map(|image| image.packages()).transpose()?.unwrap_or_default())
    }

    /// Removes a custom image and its prepared images in the cache. Returns the number of bytes freed. Sessions in the
    /// custom image cannot be resumed until the image is built again.
    ///
    /// # Errors
    /// Fails if there is no image with this name, or if a file cannot be removed.
    pub fn remove_image(&self, name: &str) -> Result<u64, RuntimeError> {
        let own = self.0.custom_images()?;
        // If the file is damaged, the prepared images of the custom image cannot be identified and remain in the cache.
        let image = own.find(name).ok().flatten();
        let entry = image.and_then(|image| image.entry(self.0.runtimes.manifest()).ok());
        let freed = own.remove(name)?.ok_or_else(|| CustomImageError::Missing(name.to_owned()))?;
        let prepared = entry.map_or(Ok(0), |entry| self.0.runtimes.prepared().remove_labelled(&entry.label()))?;
        Ok(freed.saturating_add(prepared))
    }

    /// Writes the inputs of a custom image to a file, from which [`import_image`](Self::import_image) builds the same
    /// image on any machine. The file contains no compiled code.
    ///
    /// # Errors
    /// Fails if there is no image with this name, if the file exists, or if the file cannot be written.
    pub fn export_image(&self, name: &str, path: &Path) -> Result<(), RuntimeError> {
        let image = self.0.custom_image(name)?;
        let wrong = |source| CustomImageError::File { action: "write", path: path.to_owned(), source };
        let mut file = File::create_new(path).map_err(wrong)?;
        let written = image.export(path, &mut file);
        if written.is_err() {
            // An incomplete file is useless.
            let _ = std::fs::remove_file(path);
        }
        Ok(written?)
    }

    /// Builds and stores an image from an exported file, under `name` or else under the name in the file. The setup
    /// runs as in [`ImageBuilder::build`], in the sandbox and under the limits in the file.
    ///
    /// # Errors
    /// Fails like [`ImageBuilder::build`], or if the file is not a valid image.
    pub fn import_image(&self, path: &Path, name: Option<&str>, replace: bool) -> Result<BuiltImage, RuntimeError> {
        let image = CustomImage::import(path, &bundled_modules()?)?;
        let image = match name {
            Some(name) => image.named(name)?,
            None => image,
        };
        self.0.store_image(image, replace)
    }
}

impl EngineInner {
    fn custom_images(&self) -> Result<&CustomImages, RuntimeError> {
        let none = || RuntimeError::NoImages;
        self.custom_images.as_ref().ok_or_else(none)
    }

    fn custom_image(&self, name: &str) -> Result<CustomImage, RuntimeError> {
        Ok(self.custom_images()?.find(name)?.ok_or_else(|| CustomImageError::Missing(name.to_owned()))?)
    }

    /// Builds an image, then stores its inputs.
    fn store_image(&self, image: CustomImage, replace: bool) -> Result<BuiltImage, RuntimeError> {
        let (own, name) = (self.custom_images()?, image.definition().name.clone());
        let manifest = self.runtimes.manifest();
        if manifest.find(&name).is_ok() || manifest.tool(&name).is_some() {
            return Err(CustomImageError::Runtime(name).into());
        }
        // A damaged image still occupies its name.
        if !replace && own.find(&name).map_or(true, |found| found.is_some()) {
            return Err(CustomImageError::Taken(name).into());
        }
        let image = Arc::new(image);
        let found = self.custom_runtime(Arc::clone(&image))?;
        let prepared = self.prepare(&found)?;
        own.store(&image)?;
        Ok(BuiltImage { image: self.image_info(&found)?, prepared })
    }

    fn image_info(&self, found: &FoundRuntime<'_>) -> Result<ImageInfo, RuntimeError> {
        let (own, entry) = (self.custom_images()?, &found.entry);
        let definition = found.own.as_ref().map(|own| own.definition());
        let definition = definition.ok_or_else(|| CustomImageError::Missing(entry.name.clone()))?;
        let record = self.runtimes.prepared().open(&self.image_key(found)).ok().flatten().map(|found| found.record);
        let setups = definition.steps.iter();
        Ok(ImageInfo {
            name: entry.name.clone(),
            runtime: definition.runtime.clone(),
            language: language(entry.language),
            version: entry.version.clone(),
            digest: definition.digest().to_string(),
            setups: setups.map(|step| SetupInfo { preload: step.preload.clone(), code: step.code.clone() }).collect(),
            wheels: definition.wheels.iter().map(Into::into).collect(),
            files: definition.files.iter().map(Into::into).collect(),
            memory_limit_bytes: definition.memory_bytes,
            timeout_ms: definition.timeout_ms,
            path: own.path_of(&entry.name),
            size_bytes: own.size_bytes(&entry.name),
            prepared: record.is_some(),
            image_sha256: record.as_ref().map(|record| record.sha256.to_string()),
            memory_bytes: record.as_ref().map(|record| record.memory_bytes),
            setup_output: record.and_then(|mut record| record.notes.remove(SETUP_OUTPUT)),
        })
    }
}
