//! Tests of the confinement: forbidden and permitted operations.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    os::unix::net::UnixListener,
    path::Path,
    process::Command,
    thread,
};

use rustix::process::{getppid, test_kill_process};

use super::{Measure, Reach, confine};

const DIR: &str = "GLOVEBOX_TEST_CONFINED";

#[test]
fn a_confined_process_reaches_what_it_was_left_and_nothing_else() {
    let Some(dir) = env::var_os(DIR) else {
        let dir = tempfile::tempdir().unwrap();
        for name in ["read", "write"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("read/file"), "text").unwrap();
        // In a process of its own, because confinement cannot be undone.
        let output = Command::new(env::current_exe().unwrap())
            .args(["--exact", "workers::confined::a_confined_process_reaches_what_it_was_left_and_nothing_else"])
            .args(["--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("confined: it holds"), "{said}");
        return;
    };
    let dir = Path::new(&dir);
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let reach = Reach {
        read: vec![dir.join("read"), "/proc/self".into()],
        write: vec![dir.join("write")],
        memory_bytes: 1 << 30,
        open_files: 64,
    };
    let confinement = confine(&reach);
    println!("{confinement:?}");
    assert_eq!((&confinement.resource_limits, confinement.gaps().count() > 2), (&Measure::On, false));

    // Permitted operations.
    assert_eq!(fs::read_to_string(dir.join("read/file")).unwrap(), "text");
    fs::write(dir.join("write/new"), "x").unwrap();
    fs::rename(dir.join("write/new"), dir.join("write/renamed")).unwrap();
    assert_eq!(thread::spawn(|| 7).join().unwrap(), 7);
    assert!(fs::read("/proc/self/status").is_ok());

    // Memory and files beyond the limits.
    assert!(Vec::<u8>::new().try_reserve_exact(2 << 30).is_err());
    let files: Vec<_> = (0..64).map_while(|_| fs::File::open(dir.join("read/file")).ok()).collect();
    assert!(files.len() < 64, "{}", files.len());
    drop(files);

    if confinement.landlock == Measure::On {
        for path in ["/etc/passwd", "/proc/1/status", "/"] {
            assert!(fs::read(path).is_err() && fs::read_dir(path).is_err(), "{path}");
        }
        assert!(fs::write(dir.join("read/new"), "x").is_err());
        assert!(fs::remove_file(dir.join("read/file")).is_err());
        assert!(fs::rename(dir.join("write/renamed"), dir.join("renamed")).is_err());
    }
    if confinement.seccomp == Measure::On {
        assert!(TcpStream::connect(listener.local_addr().unwrap()).is_err());
        assert!(UnixListener::bind(dir.join("write/socket")).is_err());
        assert!(Command::new("/bin/true").spawn().is_err());
        assert!(std::os::unix::fs::symlink("/etc", dir.join("write/link")).is_err());
        assert!(test_kill_process(getppid().unwrap()).is_err());
    }
    println!("confined: it holds");
}
