//! `glovebox packages`: the packages that Python scripts can import in addition to the standard library.

use std::{fs::File, path::Path};

use anyhow::Context;
use clap::{Args, Subcommand};
use glovebox::{OwnPackage, OwnPackages, PackageList, escaped};
use glovebox_runtimes::{normal_package_name, read_wheel};
use serde::Serialize;

use crate::{
    engine::{Steps, own_packages_dir},
    interrupt, stored,
    terminal::{Align, Hinted, note, out, out_json, table},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox packages                                  list what scripts can import
  glovebox packages add tool-1.0-py3-none-any.whl    a local wheel
  glovebox packages add humanize==4.9.0              a package that pip downloads
  glovebox packages remove humanize

Scripts find them at /app/site-packages, read-only. The bundled ones are imported when the
interpreter is prepared, so that scripts import them at almost no cost. Your own packages must be
pure Python: native code cannot run in the sandbox. No part of a package is installed or run on
this machine. The requirements of a package are listed, but not added. All packages together may have
16,384 files and take 128 MiB unpacked, which is held in memory once a script imports one.

--no-inject-setup hides them from a script; --no-packages runs Python without them.";

/// List, add and remove Python packages that scripts can import
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct PackagesArgs {
    #[command(subcommand)]
    command: Option<PackagesCommand>,

    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum PackagesCommand {
    /// List the packages: the bundled ones and your own
    List(ListArgs),
    /// Add pure Python wheels, replacing other versions of the same packages
    Add(AddArgs),
    /// Remove packages of your own
    Remove(RemoveArgs),
}

#[derive(Args, Debug)]
struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct AddArgs {
    /// Wheel files (`….whl`), or packages that pip downloads (`NAME==VERSION`)
    #[arg(value_name = "WHEEL|NAME==VERSION", required = true)]
    packages: Vec<String>,

    /// Print the added packages as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct RemoveArgs {
    /// Names, as `glovebox packages list` prints them
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

/// A package in the output.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    version: String,
    licence: String,
    imports: Vec<String>,
    bundled: bool,
    sha256: String,
    /// Set only for user packages, whose total number of files and total size are limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unpacked_bytes: Option<u64>,
}

impl From<OwnPackage> for Shown {
    fn from(package: OwnPackage) -> Self {
        let OwnPackage { name, version, licence, imports, sha256, file_count, unpacked_bytes, .. } = package;
        let (files, unpacked_bytes) = (Some(file_count), Some(unpacked_bytes));
        Self { name, version, licence, imports, bundled: false, sha256: sha256.to_string(), files, unpacked_bytes }
    }
}

pub(crate) fn run(args: &PackagesArgs) -> anyhow::Result<i32> {
    interrupt::install()?;
    match &args.command {
        None => list(&args.list),
        Some(PackagesCommand::List(args)) => list(args),
        Some(PackagesCommand::Add(args)) => add(args),
        Some(PackagesCommand::Remove(args)) => remove(args),
    }
}

fn bundled() -> anyhow::Result<Vec<Shown>> {
    let list = PackageList::builtin()?;
    let shown = list.packages().iter().map(|package| Shown {
        name: package.name.clone(),
        version: package.version.clone(),
        licence: package.licence.clone(),
        imports: package.imports.clone(),
        bundled: true,
        sha256: package.sha256.to_string(),
        files: None,
        unpacked_bytes: None,
    });
    Ok(shown.collect())
}

fn list(args: &ListArgs) -> anyhow::Result<i32> {
    let mut packages = bundled()?;
    let dir = own_packages_dir()?;
    if dir.is_dir() {
        packages.extend(open(&dir)?.list()?.into_iter().map(Shown::from));
    }
    if args.json {
        out_json(&packages)?;
        return Ok(0);
    }
    let head = ["NAME", "VERSION", "IMPORT", "FROM", "LICENCE"].map(str::to_owned);
    let rows = packages.iter().map(|package| {
        let from = if package.bundled { "bundled" } else { "own" };
        let texts = [&package.name, &package.version, &package.imports.join(" "), from, &package.licence];
        texts.map(str::to_owned)
    });
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
    out(&table([Align::Left; 5], &rows))?;
    Ok(0)
}

fn open(dir: &Path) -> anyhow::Result<OwnPackages> {
    OwnPackages::open(dir).with_context(|| format!("cannot store packages in `{}`", escaped(dir)))
}

fn add(args: &AddArgs) -> anyhow::Result<i32> {
    stored::create_state_dir()?;
    let own = open(&own_packages_dir()?)?;
    let bundled = bundled()?;
    let taken = PackageList::builtin()?.modules();
    let mut added = Vec::new();
    for wanted in &args.packages {
        let (file, bytes) = wheel(&own, wanted)?;
        let package = own.add(&file, &bytes, &taken).with_context(|| format!("cannot add `{wanted}`"))?;
        if !args.json {
            let text =
                format!("added {} {}, sha256 {}\n", escaped(&package.name), escaped(&package.version), package.sha256);
            out(&text)?;
        }
        added.push(package);
    }
    let here = own.list()?;
    for package in &added {
        let missing: Vec<&str> = package
            .requires
            .iter()
            .map(|requirement| requirement.split(|c: char| " <>=!~;[(".contains(c)).next().unwrap_or_default())
            .filter(|name| {
                let same = |other: &str| normal_package_name(other) == normal_package_name(name);
                !bundled.iter().any(|other| same(&other.name)) && !here.iter().any(|other| same(&other.name))
            })
            .collect();
        if !missing.is_empty() {
            note(&format!("{} also requires {} (missing)", package.name, missing.join(", ")));
        }
    }
    if args.json {
        out_json(&added.into_iter().map(Shown::from).collect::<Vec<_>>())?;
    }
    Ok(0)
}

/// Returns a wheel's file name and bytes. Downloads a package that is given as `NAME==VERSION`.
fn wheel(own: &OwnPackages, wanted: &str) -> anyhow::Result<(String, Vec<u8>)> {
    if let Some((name, version)) = wanted.split_once("==") {
        let steps = Steps::default();
        let fetched = own.download(name, version, &steps);
        steps.clear();
        return Ok(fetched?);
    }
    let path = Path::new(wanted);
    let file = path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".whl"));
    let Some(file) = file else {
        return Err(Hinted::new(
            format!("`{wanted}` is neither a wheel nor a package with a version"),
            "use a file that ends in `.whl`, or `NAME==VERSION`",
        )
        .into());
    };
    let bytes = File::open(path).and_then(read_wheel).with_context(|| format!("cannot read `{}`", escaped(path)))?;
    Ok((file.to_owned(), bytes))
}

fn remove(args: &RemoveArgs) -> anyhow::Result<i32> {
    let dir = own_packages_dir()?;
    for name in &args.names {
        if !dir.is_dir() || !open(&dir)?.remove(name)? {
            let hint = "`glovebox packages list` lists yours; bundled packages cannot be removed (`--no-packages` runs without them)";
            return Err(Hinted::new(format!("you have not added a package `{name}`"), hint).into());
        }
    }
    Ok(0)
}
