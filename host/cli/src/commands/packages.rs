//! `glovebox packages`: the packages that Python scripts can import in addition to the standard library.

use std::{fs::File, path::Path};

use anyhow::Context;
use clap::{Args, Subcommand};
use glovebox::{PackageList, UserPackage, UserPackages, escaped};
use glovebox_runtimes::{normal_package_name, read_wheel};
use serde::Serialize;

use crate::{
    engine::{StepProgress, user_packages_dir},
    interrupt,
    script_packages::{add_with_requirements, open_user_packages},
    terminal::{Column::Left, HintedError, note, out, out_json, out_report, table},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox packages                                  list what scripts can import
  glovebox packages list --available                 list what can be added by name
  glovebox packages add flask pytz                   packages by name, with their requirements
  glovebox packages add humanize==4.9.0              any version of a package that pip finds
  glovebox packages add tool-1.0-py3-none-any.whl    a local wheel
  glovebox packages remove humanize

The packages are at /app/site-packages, read-only. The bundled packages are imported when the \
interpreter is prepared, so importing them in a script costs almost nothing. Added packages must \
be pure Python: native code cannot run in the sandbox. No part of a package is installed or run on \
this machine. Packages that can be added by name are pinned by checksum. For all others, the \
requirements are listed, but not added. All added packages together are limited to 16,384 files and \
128 MiB unpacked, which are held in memory once a script imports one of them.

--no-inject-setup hides all packages from a script; --no-packages runs Python without them.";

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
    /// List the bundled and the added packages
    List(ListArgs),
    /// Add pure Python wheels, replacing other versions of the same packages
    Add(AddArgs),
    /// Remove packages that you added
    Remove {
        /// Names, as `glovebox packages list` prints them
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

#[derive(Args, Debug)]
struct ListArgs {
    /// List the packages that can be added by name instead
    #[arg(long)]
    available: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct AddArgs {
    /// Names of available packages, other packages that pip downloads (`NAME==VERSION`), or wheel files (`….whl`)
    #[arg(value_name = "NAME|NAME==VERSION|WHEEL", required = true)]
    packages: Vec<String>,

    /// Print the added packages as JSON
    #[arg(long)]
    json: bool,
}

/// A package in the output.
#[derive(Debug, Serialize)]
struct PackageJson {
    name: String,
    version: String,
    licence: String,
    imports: Vec<String>,
    /// The directories with types in a package that the user added, such as `pandas-stubs`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stubs: Vec<String>,
    bundled: bool,
    sha256: String,
    /// The number of files in a package that the user added. These files count towards a limit. `None` for other
    /// packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<usize>,
    /// The unpacked size of a package that the user added, in bytes. `None` for other packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    unpacked_bytes: Option<u64>,
}

impl From<UserPackage> for PackageJson {
    fn from(package: UserPackage) -> Self {
        let UserPackage { name, version, licence, imports, stubs, sha256, file_count, unpacked_bytes, .. } = package;
        let (files, unpacked_bytes) = (Some(file_count), Some(unpacked_bytes));
        let sha256 = sha256.to_string();
        Self { name, version, licence, imports, stubs, bundled: false, sha256, files, unpacked_bytes }
    }
}

pub(crate) fn run(args: &PackagesArgs) -> anyhow::Result<i32> {
    interrupt::install()?;
    match &args.command {
        None => list(&args.list),
        Some(PackagesCommand::List(args)) => list(args),
        Some(PackagesCommand::Add(args)) => add(args),
        Some(PackagesCommand::Remove { names }) => remove(names),
    }?;
    Ok(0)
}

/// Converts a list of packages to its printed form.
fn package_entries(list: &PackageList, bundled: bool) -> Vec<PackageJson> {
    let shown = list.packages().iter().map(|package| PackageJson {
        name: package.name.clone(),
        version: package.version.clone(),
        licence: package.licence.clone(),
        imports: package.imports.clone(),
        stubs: Vec::new(),
        bundled,
        sha256: package.sha256.to_string(),
        files: None,
        unpacked_bytes: None,
    });
    shown.collect()
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let mut packages = match args.available {
        true => package_entries(&PackageList::catalogue()?, false),
        false => package_entries(&PackageList::builtin()?, true),
    };
    let dir = user_packages_dir()?;
    if !args.available && dir.is_dir() {
        packages.extend(open_user_packages()?.list()?.into_iter().map(PackageJson::from));
    }
    let rows = packages.iter().map(|package| {
        let from = match (args.available, package.bundled) {
            (true, _) => "available",
            (false, true) => "bundled",
            (false, false) => "added",
        };
        let imports = [package.imports.as_slice(), &package.stubs].concat().join(" ");
        let texts = [&package.name, &package.version, &imports, from, &package.licence];
        texts.map(str::to_owned)
    });
    out_report(args.json, &packages, || table(["NAME", "VERSION", "IMPORT", "FROM", "LICENCE"].map(Left), rows))
}

fn add(args: &AddArgs) -> anyhow::Result<()> {
    let own = open_user_packages()?;
    let (bundled, catalogue) = (PackageList::builtin()?, PackageList::catalogue()?);
    let mut added: Vec<UserPackage> = Vec::new();
    for wanted in &args.packages {
        let packages = add_one(&own, &catalogue, &bundled, wanted)?;
        if packages.is_empty() {
            note(&format!("`{wanted}` has already been added"));
        }
        if !args.json {
            for UserPackage { name, version, sha256, .. } in &packages {
                out(&format!("added {} {}, sha256 {sha256}\n", escaped(name), escaped(version)))?;
            }
        }
        added.extend(packages);
    }
    let here = own.list()?;
    // All requirements of an available package are available, bundled, or in the standard library of CPython 3.15.
    let foreign =
        added.iter().filter(|package| catalogue.find(&package.name).is_none_or(|known| known.sha256 != package.sha256));
    for package in foreign {
        let missing: Vec<&str> = package
            .requires
            .iter()
            .map(|requirement| requirement.split(|c: char| " <>=!~;[(".contains(c)).next().unwrap_or_default())
            .filter(|name| {
                let is_here = here.iter().any(|other| normal_package_name(&other.name) == normal_package_name(name));
                !is_here && bundled.find(name).is_none()
            })
            .collect();
        if !missing.is_empty() {
            note(&format!("{} also requires {} (missing)", package.name, missing.join(", ")));
        }
    }
    if args.json {
        out_json(&added.into_iter().map(PackageJson::from).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Adds the packages for one argument, and returns them. Downloads a package that is given by name.
fn add_one(
    own: &UserPackages,
    catalogue: &PackageList,
    bundled: &PackageList,
    wanted: &str,
) -> anyhow::Result<Vec<UserPackage>> {
    let failed = || format!("cannot add `{wanted}`");
    if let Some(package) = catalogue.find(wanted) {
        return add_with_requirements(own, catalogue, package).with_context(failed);
    }
    let (file, bytes) = wheel(own, wanted)?;
    Ok(vec![own.add(&file, &bytes, &bundled.modules()).with_context(failed)?])
}

/// Returns the file name and the bytes of a wheel that is given as `NAME==VERSION` or as a file.
fn wheel(own: &UserPackages, wanted: &str) -> anyhow::Result<(String, Vec<u8>)> {
    if let Some((name, version)) = wanted.split_once("==") {
        return Ok(own.download(name, version, &StepProgress::default())?);
    }
    let path = Path::new(wanted);
    let file = path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".whl"));
    let Some(file) = file else {
        return Err(HintedError::new(
            format!("`{wanted}` is neither the name of an available package nor a wheel"),
            "use a name from `glovebox packages list --available`, `NAME==VERSION` for any other package, or a file that ends in \
             `.whl`",
        )
        .into());
    };
    let bytes = File::open(path).and_then(read_wheel).with_context(|| format!("cannot read `{}`", escaped(path)))?;
    Ok((file.to_owned(), bytes))
}

fn remove(names: &[String]) -> anyhow::Result<()> {
    let dir = user_packages_dir()?;
    for name in names {
        if !dir.is_dir() || !open_user_packages()?.remove(name)? {
            let hint = "`glovebox packages list` shows the added packages; --no-packages runs without the bundled ones";
            return Err(HintedError::new(format!("package `{name}` has not been added"), hint).into());
        }
    }
    Ok(())
}
