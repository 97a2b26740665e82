//! Tests that images in a prepared bundle are not compiled again, and that damaged bundles are ignored.

use std::{fs, io::Read, path::Path};

use glovebox_runtimes::{ArtefactKey, CacheKind, KeyParts, NoProgress, RuntimeError};

use crate::support::{World, artefact, key, parts};

/// Writes a prepared bundle with an image and code to `name`.
fn write_prepared(from: &World, without: Option<&Path>, name: &str) {
    let runtimes = from.runtimes();
    let new = |byte| artefact(vec![byte; 100_000]);
    let image = runtimes.prepared().store(&key(), &new(1)).unwrap();
    let code = runtimes.code().store(&key(), &new(2)).unwrap();
    let again = runtimes.code().open(&key()).unwrap().unwrap();
    let artefacts =
        vec![(CacheKind::Images, key(), image), (CacheKind::Code, key(), code), (CacheKind::Code, key(), again)];
    runtimes.write_prepared(artefacts, without, &from.path(name)).unwrap();
}

/// Opens the image in a new cache with these prepared bundles. Returns its first byte, which is 0 if the image was
/// built.
fn first_byte(bundles: &[&Path], kind: CacheKind, key: &ArtefactKey) -> u8 {
    let world = World::new("");
    let runtimes = world.runtimes().with_prepared(bundles.iter().map(|path| path.to_path_buf()));
    let build = || Ok::<_, RuntimeError>(artefact(vec![0; 100_000]));
    let mut opened = runtimes.compiled(kind).open_or_build(key, &NoProgress, build).unwrap();
    assert!(opened.is_new);
    let mut first = [9];
    opened.aot.read_exact(&mut first).unwrap();
    // The image from the bundle is now in the cache.
    let again = world.runtimes().compiled(kind).open(key).unwrap().unwrap();
    world.runtimes().compiled(kind).verify(&again).unwrap();
    first[0]
}

#[test]
fn prepared_bundle_replaces_the_compiler() {
    let from = World::new("");
    write_prepared(&from, None, "all.zip");
    let (all, images) = (from.path("all.zip"), CacheKind::Images);
    assert!(fs::metadata(&all).unwrap().len() < 10_000, "the bundle is compressed");
    assert_eq!(first_byte(&[&all], images, &key()), 1);
    assert_eq!(first_byte(&[&all], CacheKind::Code, &key()), 2);
    assert_eq!(first_byte(&[], images, &key()), 0);
    assert_eq!(first_byte(&[&from.path("missing.zip"), &all], images, &key()), 1, "the first bundle is unreadable");
    let other = ArtefactKey::new(KeyParts { settings: "other".to_owned(), ..parts() });
    assert_eq!(first_byte(&[&all], images, &other), 0, "code for other settings is not used");

    write_prepared(&from, Some(&all), "rest.zip");
    assert_eq!(first_byte(&[&from.path("rest.zip")], images, &key()), 0, "the other bundle contains the image");

    // If any byte of the bundle is damaged, the image is either unchanged or built again.
    let whole = fs::read(&all).unwrap();
    let damaged = from.path("damaged.zip");
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        fs::write(&damaged, bytes).unwrap();
        assert!(first_byte(&[&damaged], images, &key()) < 2, "{at}");
    }
}

#[test]
fn image_is_unpacked_without_waiting_for_another_process() {
    let from = World::new("");
    write_prepared(&from, None, "all.zip");
    let other = ArtefactKey::new(KeyParts { settings: "other".to_owned(), ..parts() });
    let world = World::new("");
    let runtimes = world.runtimes().with_prepared([from.path("all.zip")]);
    assert!(runtimes.prepared().open_or_unpack(&other).unwrap().is_none(), "no bundle contains the image");
    for is_new in [true, false] {
        let mut image = runtimes.prepared().open_or_unpack(&key()).unwrap().unwrap();
        let mut first = [9];
        image.aot.read_exact(&mut first).unwrap();
        assert_eq!((first, image.is_new), ([1], is_new));
    }
    runtimes.prepared().clear().unwrap();
    let build = || {
        assert!(runtimes.prepared().open_or_unpack(&key()).unwrap().is_none(), "another caller is building the image");
        Ok::<_, RuntimeError>(artefact(vec![0]))
    };
    assert!(world.runtimes().prepared().open_or_build(&key(), &NoProgress, build).unwrap().is_new);
    assert!(!runtimes.prepared().open_or_unpack(&key()).unwrap().unwrap().is_new);
}
