//! No module imports, by way of others, itself.

use std::{fs, path::Path};

use glovebox_tests::imports::Modules;

/// The names of the workspace's crates and their first files.
fn crates() -> Vec<(String, std::path::PathBuf)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let table = |path: &Path| fs::read_to_string(path).unwrap().parse::<toml::Table>().unwrap();
    let workspace = table(&top.join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().unwrap().iter().map(|member| {
        let directory = top.join(member.as_str().unwrap());
        let name = table(&directory.join("Cargo.toml"))["package"]["name"].as_str().unwrap().to_owned();
        let files = ["lib.rs", "main.rs"].map(|file| directory.join("src").join(file));
        (name, files.into_iter().find(|file| file.exists()).unwrap())
    });
    members.collect()
}

#[test]
fn the_modules_of_a_crate_form_layers() {
    let wrong: Vec<String> = crates()
        .iter()
        .flat_map(|(name, file)| Modules::read(file).cycles().into_iter().map(move |cycle| format!("{name}: {cycle}")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The cycles of a crate whose files have these names and texts.
fn cycles(files: &[(&str, &str)]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Modules::read(&dir.path().join("lib.rs")).cycles().iter().map(ToString::to_string).collect()
}

#[test]
fn a_cycle_is_found_however_it_is_written() {
    for two in [
        "use crate::one::One; pub struct Two;",
        "use super::one::{self as other, One}; pub struct Two;",
        "use super::*; pub struct Two(One);",
        "pub struct Two; fn f() { crate::one::f() }",
        "pub struct Two; fn f() { use crate::One; }",
        "pub struct Two; impl Two { fn f() -> Vec<crate::One> { vec![] } }",
    ] {
        let lib = "mod one; mod two; pub use one::One;";
        let one = "use crate::two::Two; pub struct One; pub fn f() {}";
        let found = cycles(&[("lib.rs", lib), ("one.rs", one), ("two.rs", two)]);
        assert_eq!(found, ["crate::one -> crate::two -> crate::one (2 modules in all)"], "{two}");
    }
}

#[test]
fn what_passes_on_and_what_only_tests_use_is_no_import() {
    let lib = "mod facade; mod user; pub use facade::Inner;";
    let facade = "mod inner; mod beside; pub use inner::Inner; pub(crate) use beside::Beside;";
    let inner = "use super::Beside; pub struct Inner; #[cfg(test)] mod tests { use crate::user::User; }";
    let files = [
        ("lib.rs", lib),
        ("facade/mod.rs", facade),
        ("facade/inner.rs", inner),
        ("facade/beside.rs", "pub struct Beside;"),
        ("user.rs", "use crate::{Inner, facade::Beside}; pub struct User(Inner, Beside);"),
    ];
    assert_eq!(cycles(&files), [""; 0]);
    // A facade that needs what it passes on imports it.
    let needs = format!("{facade} pub struct Own; fn f(_: Inner) {{}}");
    let back = "use super::Own; pub struct Inner;";
    let found = cycles(&[files[0], ("facade/mod.rs", &needs), ("facade/inner.rs", back), files[3], files[4]]);
    assert_eq!(found, ["crate::facade -> crate::facade::inner -> crate::facade (2 modules in all)"]);
}
