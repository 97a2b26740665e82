use glovebox_wasi::{Entropy, Errno, Wasi, wasi_preview1_functions};

use crate::support::{APP, CREAT, FakeHost, Guest, OUT, STAT, call};

#[test]
fn fork_shares_only_past_state() {
    let mut parent = Guest::new();
    parent.wasi.set_stdin(b"abcdef".to_vec());
    parent.wasi.set_entropy(Entropy::seeded(1));
    let fd = parent.open("file", CREAT).unwrap();
    parent.write(fd, b"shared").unwrap();
    let len = parent.path("file");
    call!(parent, path_unlink_file(APP, crate::support::PATH, len)).unwrap();
    parent.read(0, 2).unwrap();
    parent.write(1, b"before").unwrap();

    let mut child = Guest { wasi: parent.wasi.clone(), ..Guest::new() };
    child.write(fd, b"-child").unwrap();
    parent.write(fd, b"-parent").unwrap();
    for (guest, expected) in [(&mut parent, &b"shared-parent"[..]), (&mut child, b"shared-child")] {
        call!(*guest, fd_seek(fd, 0, 0, OUT)).unwrap();
        assert_eq!(
            guest.read(fd, 100).unwrap(),
            expected,
            "an open file without a name remains readable in both forks"
        );
        assert_eq!(guest.read(0, 100).unwrap(), b"cdef");
        call!(*guest, fd_close(fd)).unwrap();
        assert_eq!(guest.wasi.take_output().stdout.bytes, b"before");
    }
    child.file("only-here", b"");
    assert_eq!(parent.stat(APP, "only-here"), Err(Errno::NoEnt));
}

#[test]
fn open_files_are_counted_beside_streams_and_preopens() {
    let mut guest = Guest::new();
    assert_eq!(guest.wasi.open_files(), 0);
    let fd = guest.open("file", CREAT).unwrap();
    guest.open("file", 0).unwrap();
    assert_eq!(guest.wasi.open_files(), 2);
    call!(guest, fd_close(fd)).unwrap();
    assert_eq!(guest.wasi.open_files(), 1);
}

#[test]
fn the_state_moves_between_threads() {
    fn send<T: Send + Clone + 'static>(value: T) -> T {
        std::thread::spawn(move || value).join().unwrap()
    }
    let mut guest = Guest::new();
    guest.wasi = send(guest.wasi);
    assert!(guest.open("file", CREAT).is_ok());
}

#[test]
fn wasi_debug_output_contains_no_guest_data() {
    let mut guest = Guest::new();
    guest.wasi.set_stdin(b"secret".to_vec());
    guest.wasi.set_env([("TOKEN".to_owned(), "secret".to_owned())]).unwrap();
    assert!(!format!("{:?}", guest.wasi).contains("secret"));
}

macro_rules! count {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// Compiles the code that an embedder generates for each function.
        fn links(wasi: &mut Wasi, host: &mut FakeHost) {
            $({
                let _import = |wasi: &mut Wasi, host: &mut FakeHost, $($arg: $ty),*| -> Result<$ret, glovebox_wasi::Stop> {
                    wasi.$name(host, $($arg),*).map(<$ret>::from)
                };
            })*
            let _ = (wasi, host);
        }
    };
}
wasi_preview1_functions!(count);

#[test]
fn function_list_has_each_of_the_46_functions_once() {
    let mut names = NAMES.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 46);
    let mut guest = Guest::new();
    links(&mut guest.wasi, &mut guest.host);
    for (prefix, count) in
        [("args_", 2), ("environ_", 2), ("clock_", 2), ("fd_", 21), ("path_", 10), ("sock_", 4), ("proc_", 2)]
    {
        assert_eq!(names.iter().filter(|name| name.starts_with(prefix)).count(), count, "{prefix}");
    }
}

#[test]
fn embedder_operations_cost_no_fuel() {
    let price = |prepare: fn(&mut Guest)| {
        let mut guest = Guest::new();
        guest.file("file", b"abc");
        prepare(&mut guest);
        let before = guest.host.charged;
        assert!(guest.stat(APP, "file").is_ok());
        guest.host.charged - before
    };
    let busy = price(|guest| {
        let app = guest.app;
        for i in 0..100 {
            guest.wasi.vfs_mut().write_file(app, &format!("a/b/c/{i}"), &[0; 10_000]).unwrap();
        }
    });
    assert_eq!(price(|_| ()), busy);
}

#[test]
fn the_same_calls_cost_the_same_every_time() {
    let run = || {
        let mut guest = Guest::new();
        guest.make_dir("dir").unwrap();
        for i in 0..50 {
            guest.file(&format!("dir/{i}"), &vec![7; i * 100]);
        }
        let dir = guest.open_to_read("dir").unwrap();
        guest.names(dir, 500);
        guest.write(1, b"reply").unwrap();
        call!(guest, fd_filestat_get(dir, STAT)).unwrap();
        guest.host.charged
    };
    let first = run();
    assert_eq!([run(), run()], [first, first]);
}
