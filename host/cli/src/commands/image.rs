//! `glovebox image`: custom interpreter images, saved after a setup has run.

use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::{Args, Subcommand};
use glovebox::{BuiltImage, ImageBuilder, ImageFile, ImageInfo, escaped};
use glovebox_runtimes::{MAX_IMAGE_CODE_BYTES, MAX_IMAGE_FILE_BYTES, MAX_USER_PACKAGES_BYTES, MAX_WHEEL_BYTES};
use serde::Serialize;

use crate::{
    args::{self, GlobalArgs},
    engine::{Host, Pooling, custom_images_dir},
    interrupt, session_dir,
    source::read_file,
    terminal::{
        Column::{Left, Right},
        HintedError, bytes, format_count, note, out, out_json, out_report, printable, table,
    },
};

const AFTER_HELP: &str = "\
Examples:
  glovebox image build sales --from python-3.15-data --file sales.csv --setup load.py
  glovebox run --runtime sales -e 'print(table.describe())'
  glovebox image build tools --from python --wheel tool-1.0-py3-none-any.whl --preload tool
  glovebox image build rules --from javascript --file rules.json --setup rules.js
  glovebox image list
  glovebox image export sales sales.tar      on another machine: glovebox image import sales.tar

The setup is a script that runs once, in the sandbox, when the image is built. Its imports, data and results are in the \
memory of every later execution and session, at no further cost. Only the setup can read the --file files in /app. The same \
inputs produce the same image, byte for byte: the setup has a fixed clock and fixed random numbers.

Select an image by name with --runtime, like a runtime. A session can be resumed only with the image that it was opened with, \
unchanged. An image that is missing from the cache is rebuilt from its description. Images are code, so use and import only \
images that you trust.";

/// Build and manage interpreters with modules and data already loaded
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Run a setup in an interpreter and save its memory as an image
    Build(Box<BuildArgs>),
    /// List the images
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the definition of an image
    Show {
        /// Name of the image
        #[arg(value_name = "NAME")]
        name: String,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove images
    Remove {
        /// Names, as `glovebox image list` prints them
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
    /// Write an image's definition and files to a file
    Export {
        /// Name of the image
        #[arg(value_name = "NAME")]
        name: String,

        /// File to write, which must not exist
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Build an image from an exported file
    Import(ImportArgs),
}

#[derive(Args, Debug)]
struct BuildArgs {
    /// Name of the image: letters, digits, `.`, `-`, `_`, `+` and `!`
    #[arg(value_name = "NAME")]
    name: String,

    /// Runtime or image to start from
    #[arg(long, value_name = "RUNTIME")]
    from: String,

    /// Script to run, in the runtime's language; its global variables exist in every execution
    #[arg(long, value_name = "FILE")]
    setup: Option<PathBuf>,

    /// Modules to import first, so that scripts import them at almost no cost
    #[arg(long, value_name = "MODULE", value_delimiter = ',')]
    preload: Vec<String>,

    /// Pure Python wheel that setup and scripts can import; repeatable
    #[arg(long = "wheel", value_name = "FILE")]
    wheels: Vec<PathBuf>,

    /// File for the setup, placed in /app under its own name or, with FILE:NAME, under NAME; repeatable
    #[arg(long = "file", value_name = "FILE[:NAME]")]
    files: Vec<String>,

    /// Memory for interpreter and setup, at least 128 MiB [default: 1073741824]
    #[arg(long, value_name = "N", value_parser = args::bytes)]
    memory_bytes: Option<u64>,

    /// Milliseconds for the setup, at most an hour [default: 120000]
    #[arg(long, value_name = "N", value_parser = args::count)]
    timeout_ms: Option<u64>,

    /// Replace an image of this name; its sessions can no longer be resumed
    #[arg(long)]
    replace: bool,

    /// Print the image as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct ImportArgs {
    /// File written by `glovebox image export`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// New name for the image
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Replace an image of this name
    #[arg(long)]
    replace: bool,

    /// Print the image as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(global: &GlobalArgs, args: &ImageArgs) -> anyhow::Result<i32> {
    interrupt::install()?;
    session_dir::create_state_dir()?;
    // The engine searches for custom images only if the directory exists.
    let dir = custom_images_dir()?;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.with_context(|| format!("cannot store images in `{}`", escaped(&dir)))?;
    let host = Host::open(global, Pooling::Single)?;
    match &args.command {
        ImageCommand::Build(args) => build(&host, args),
        ImageCommand::List { json } => list(&host, *json),
        ImageCommand::Show { name, json } => show(&host, name, *json),
        ImageCommand::Remove { names } => remove(&host, names),
        ImageCommand::Export { name, file } => {
            let exported = host.engine.export_image(name, file);
            exported.with_context(|| format!("cannot export image `{}`", escaped(name)))
        }
        ImageCommand::Import(args) => import(&host, args),
    }?;
    Ok(0)
}

fn read(path: &Path, max_bytes: u64) -> anyhow::Result<Vec<u8>> {
    read_file(path, &format!("file `{}`", escaped(path)), max_bytes, "use a readable file within the limit")
}

fn build(host: &Host, args: &BuildArgs) -> anyhow::Result<()> {
    if args.setup.is_none() && args.preload.is_empty() && args.wheels.is_empty() {
        let hint = "add a script (--setup), modules to import (--preload) or packages (--wheel)";
        return Err(HintedError::new("the image would be identical to its base", hint).into());
    }
    let mut builder = ImageBuilder::new(&args.name, &args.from).replace(args.replace);
    if let Some(path) = &args.setup {
        let code = String::from_utf8(read(path, MAX_IMAGE_CODE_BYTES as u64)?);
        builder = builder.setup(code.with_context(|| format!("`{}` is not UTF-8; save it as UTF-8", escaped(path)))?);
    }
    for module in &args.preload {
        builder = builder.preload(module);
    }
    let mut wheels_left = MAX_USER_PACKAGES_BYTES;
    for path in &args.wheels {
        let wheel = read(path, wheels_left.min(MAX_WHEEL_BYTES))?;
        wheels_left = wheels_left.saturating_sub(wheel.len() as u64);
        builder = builder.wheel(name_of(path)?, wheel);
    }
    let mut files_left = MAX_IMAGE_FILE_BYTES;
    for given in &args.files {
        // `FILE:NAME` is split only if no file has the whole text as its name, because file names can contain colons.
        let (path, name) = match given.rsplit_once(':') {
            Some((path, name)) if !Path::new(given).exists() => (Path::new(path), name.to_owned()),
            _ => (Path::new(given.as_str()), name_of(Path::new(given))?),
        };
        let content = read(path, files_left)?;
        files_left = files_left.saturating_sub(content.len() as u64);
        builder = builder.file(name, content);
    }
    if let Some(bytes) = args.memory_bytes {
        builder = builder.memory_bytes(bytes);
    }
    if let Some(timeout_ms) = args.timeout_ms {
        builder = builder.timeout(Duration::from_millis(timeout_ms));
    }
    let built = host.with_progress(|engine| builder.build(engine));
    print_built(&built.with_context(|| format!("cannot build image `{}`", escaped(&args.name)))?, args.json)
}

fn name_of(path: &Path) -> anyhow::Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    Ok(name.with_context(|| format!("`{}` has no file name", escaped(path)))?.to_owned())
}

fn print_built(built: &BuiltImage, json: bool) -> anyhow::Result<()> {
    if json {
        return out_json(built);
    }
    let BuiltImage { image, prepared, .. } = built;
    if let Some(wrote) = image.setup_output.as_ref().filter(|wrote| !wrote.is_empty()) {
        for line in wrote.lines() {
            note(&format!("setup: {}", printable(line)));
        }
    }
    let text = format!(
        "{}: built in {:.1} s, {} of memory, image {}\n",
        image.name,
        prepared.took.as_secs_f64(),
        bytes(prepared.memory_bytes),
        prepared.image_sha256
    );
    Ok(out(&text)?)
}

/// An image in the listing. A damaged image has only a name and an error.
#[derive(Serialize)]
#[serde(untagged)]
enum ImageJson {
    Sound(Box<ImageInfo>),
    Damaged { name: String, error: String },
}

fn list(host: &Host, json: bool) -> anyhow::Result<()> {
    let images = host.engine.images()?.into_iter().map(|(name, found)| match found {
        Ok(info) => ImageJson::Sound(Box::new(info)),
        Err(error) => ImageJson::Damaged { name, error: error.to_string() },
    });
    let images: Vec<ImageJson> = images.collect();
    let rows = images.iter().map(|image| match image {
        ImageJson::Sound(image) => {
            let state = if image.prepared { "prepared" } else { "not cached" };
            let memory = image.memory_bytes.map(bytes).unwrap_or_default();
            let digest = image.digest.chars().take(16).collect();
            [image.name.clone(), image.runtime.clone(), state.into(), memory, bytes(image.size_bytes), digest]
        }
        ImageJson::Damaged { name, error } => {
            [name.clone(), "-".into(), printable(error), String::new(), String::new(), String::new()]
        }
    });
    let columns = [Left("NAME"), Left("BASE"), Left("STATE"), Right("MEMORY"), Right("SIZE"), Left("SHA256")];
    out_report(json, &images, || table(columns, rows))
}

fn show(host: &Host, name: &str, json: bool) -> anyhow::Result<()> {
    let image = host.engine.image(name)?;
    if json {
        return out_json(&image);
    }
    let files = |files: &[ImageFile]| {
        files.iter().map(|file| format!("{} ({})", escaped(&file.path), bytes(file.size_bytes))).collect::<Vec<_>>()
    };
    let state = match (image.memory_bytes, &image.image_sha256) {
        (Some(memory), Some(sha256)) => format!("prepared, {} of memory, image {sha256}", bytes(memory)),
        _ => "not in the cache; built at its next use".to_owned(),
    };
    let mut text = format!("{}: an image of {} {}\n", image.name, image.runtime, image.version);
    text.push_str(&format!("inputs       {} ({})\n", image.digest, bytes(image.size_bytes)));
    text.push_str(&format!("state        {state}\n"));
    text.push_str(&format!("limits       {} of memory, {} ms\n", bytes(image.memory_limit_bytes), image.timeout_ms));
    for (label, lines) in [("wheel", files(&image.wheels)), ("file", files(&image.files))] {
        for line in lines {
            text.push_str(&format!("{label:<12} {line}\n"));
        }
    }
    for setup in &image.setups {
        if !setup.preload.is_empty() {
            text.push_str(&format!("preload      {}\n", setup.preload.join(", ")));
        }
        if !setup.code.trim().is_empty() {
            text.push_str(&format!("setup        {}\n", format_count(setup.code.lines().count() as u64, "line")));
            text.extend(setup.code.lines().map(|line| format!("    {}\n", printable(line))));
        }
    }
    if let Some(wrote) = image.setup_output.filter(|wrote| !wrote.is_empty()) {
        text.push_str("output of the setups\n");
        text.extend(wrote.lines().map(|line| format!("    {}\n", printable(line))));
    }
    Ok(out(&text)?)
}

fn remove(host: &Host, names: &[String]) -> anyhow::Result<()> {
    for name in names {
        let freed =
            host.engine.remove_image(name).with_context(|| format!("cannot remove image `{}`", escaped(name)))?;
        out(&format!("{name}: removed, {} freed\n", bytes(freed)))?;
    }
    Ok(())
}

fn import(host: &Host, args: &ImportArgs) -> anyhow::Result<()> {
    let built = host.with_progress(|engine| engine.import_image(&args.file, args.name.as_deref(), args.replace));
    print_built(&built.with_context(|| format!("cannot import `{}`", escaped(&args.file)))?, args.json)
}
