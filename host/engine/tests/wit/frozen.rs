//! Versions in `wit/history/` are frozen.

use std::{collections::BTreeMap, fs, path::Path};

use crate::{Contract, directory};

/// Reads the `.wit` files of a directory, by name.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let paths =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|of| of == "wit"));
    paths
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn the_frozen_copy_of_this_version_is_this_version() {
    let version = Contract::read().version();
    let (now, frozen) = (files(&directory()), files(&directory().join("history").join(&version)));
    assert_eq!(now.keys().collect::<Vec<_>>(), frozen.keys().collect::<Vec<_>>());
    for (name, text) in &now {
        assert!(
            frozen[name] == *text,
            "wit/{name} is not what wit/history/{version} has: raise the version if {version} is released, else copy the \
             file there (wit/README.md)"
        );
    }
}

#[test]
fn what_is_frozen_has_the_version_that_its_directory_names() {
    let directories = fs::read_dir(directory().join("history")).unwrap();
    for directory in directories.map(|entry| entry.unwrap().path()) {
        let version = directory.file_name().unwrap().to_str().unwrap();
        let line = format!("package glovebox:sandbox@{version};");
        for (name, text) in files(&directory) {
            assert_eq!(text.lines().next(), Some(line.as_str()), "wit/history/{version}/{name}");
        }
    }
}
