//! Tests that every sandbox refuses to mount Glovebox's own directories.

use std::{fs, path::Path};

use glovebox::{
    BuildError, ExecuteError, Language, Mount, Policy, Sandbox,
    mount::{GuardedDirectory, MountError, Relation},
};
use glovebox_sessions::DirectoryStore;
use glovebox_tests::{engine, engine_config, sandbox, sandbox_on, short};
use tempfile::TempDir;

fn refused(edit: impl FnOnce(&mut Policy)) -> MountError {
    let mut policy = Policy::default();
    edit(&mut policy);
    match Sandbox::builder(engine()).language(Language::JavaScript).policy(policy).build() {
        Err(BuildError::Mount(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn workspace_overlapping_the_cache_is_rejected() {
    let cache = engine().cache_dir().to_path_buf();
    let above = cache.parent().unwrap().to_path_buf();
    for (host, expected) in [
        (cache.clone(), Relation::Is),
        (above, Relation::Contains),
        (cache.join("prepared"), Relation::Inside),
        (Path::new("/").into(), Relation::Contains),
    ] {
        let mount = |read_only| Mount { guest: "/data".into(), host: host.clone(), read_only };
        let errors = [
            refused(|policy| policy.workspace = Some(host.clone())),
            refused(|policy| policy.mounts = vec![mount(true)]),
            refused(|policy| policy.mounts = vec![mount(false)]),
        ];
        for error in errors {
            let MountError::Guarded { relation, .. } = &error else { panic!("{error}") };
            assert_eq!(*relation, expected, "{error}");
            assert!(error.to_string().contains(&*host.to_string_lossy()), "{error}");
        }
    }
}

#[test]
fn store_opened_later_blocks_overlapping_mounts() {
    let dir = TempDir::new().unwrap();
    let sandbox = sandbox(Language::JavaScript, |policy| policy.workspace = Some(dir.path().to_path_buf()));
    assert_eq!(short(&sandbox.execute("1").unwrap().outcome), "completed");
    let store = DirectoryStore::open(dir.path().join("sessions")).unwrap();
    for _ in 0..2 {
        let error = sandbox.execute("1").unwrap_err();
        let guarded =
            matches!(error, ExecuteError::Mount(MountError::Guarded { guarded: GuardedDirectory::Sessions, .. }));
        assert!(guarded, "{error}");
    }
    drop(store);
    assert_eq!(short(&sandbox.execute("1").unwrap().outcome), "completed");
}

#[test]
fn private_directories_are_guarded_while_their_engine_lives() {
    let dir = TempDir::new().unwrap();
    let mut config = engine_config();
    config.pool = None;
    config.private_dirs = vec![dir.path().join("state/not/yet")];
    let lone = glovebox::Engine::new(config).unwrap();
    let workspace = |path: &Path| {
        let mut policy = Policy::default();
        policy.workspace = Some(path.to_path_buf());
        Sandbox::builder(engine()).language(Language::JavaScript).policy(policy).build()
    };
    fs::create_dir(dir.path().join("beside")).unwrap();
    let error = workspace(dir.path()).unwrap_err();
    assert!(
        matches!(error, BuildError::Mount(MountError::Guarded { guarded: GuardedDirectory::Private, .. })),
        "{error}"
    );
    assert!(workspace(&dir.path().join("beside")).is_ok());
    assert!(sandbox_on(&lone, Language::JavaScript, |_| {}).execute("1").is_ok());
    drop(lone);
    assert!(workspace(dir.path()).is_ok());
}
