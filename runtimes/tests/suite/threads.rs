//! Tests the thread functions of the pinned binary of Python 3.15. The binary has no threads, but its C library
//! contains musl's thread functions. The tests fail for a binary with an unlisted function, so that each function is
//! reviewed before a binary is used.

use std::collections::BTreeMap;

use wasmparser::{ExternalKind, FunctionBody, KnownCustom, Name, Operator, Parser, Payload};

use crate::{smoke::load, support::inspect};

/// Functions that fail with `ENOTSUP`. Python raises "can't start new thread" or an `OSError`.
const FAIL: [&str; 2] = ["__pthread_create", "pthread_getcpuclockid"];

/// Functions that succeed without an effect, because no thread exists that could be detached or joined.
const SUCCEED: [&str; 4] = ["__pthread_detach", "__pthread_join", "pthread_attr_destroy", "pthread_mutexattr_destroy"];

/// Functions that only read or change the state of the calling thread, of a lock or of attributes. They never wait.
const RETURN: [&str; 29] = [
    "__pthread_getspecific",
    "__pthread_key_create",
    "__pthread_key_delete",
    "__pthread_mutex_trylock",
    "__pthread_mutex_trylock_owner",
    "__pthread_mutex_unlock",
    "__pthread_rwlock_tryrdlock",
    "__pthread_rwlock_trywrlock",
    "__pthread_rwlock_unlock",
    "__pthread_self_internal",
    "__pthread_setcancelstate",
    "__pthread_testcancel",
    "__wasilibc_futex_wake",
    "pthread_attr_getguardsize",
    "pthread_attr_getstack",
    "pthread_attr_init",
    "pthread_attr_setstacksize",
    "pthread_cond_broadcast",
    "pthread_cond_destroy",
    "pthread_cond_init",
    "pthread_cond_signal",
    "pthread_condattr_init",
    "pthread_condattr_setclock",
    "pthread_getattr_np",
    "pthread_mutex_destroy",
    "pthread_mutex_init",
    "pthread_mutexattr_init",
    "pthread_mutexattr_settype",
    "pthread_setspecific",
];

/// The function that implements all waits for another thread, and traps.
const TRAP: &str = "__wasilibc_futex_wait";

/// Functions that trap instead of waiting for another thread. For Python's locks, queues and joins, `boot/threads.py`
/// raises an error, or sleeps until the timeout, before Python calls one of these functions.
const WAIT: [&str; 8] = [
    "__pthread_cond_timedwait",
    "__pthread_mutex_lock",
    "__pthread_mutex_timedlock",
    "__pthread_rwlock_rdlock",
    "__pthread_rwlock_timedrdlock",
    "__pthread_rwlock_timedwrlock",
    "__pthread_rwlock_wrlock",
    "pthread_cond_wait",
];

/// Python's own functions whose names look like thread functions. These functions call the functions listed above.
const PYTHON: [&str; 1] = ["time_pthread_getcpuclockid"];

/// Returns the functions whose names look like thread functions.
fn thread_functions(module: &[u8]) -> BTreeMap<String, FunctionBody<'_>> {
    let imported = inspect(module).imports.iter().filter(|import| import.kind == ExternalKind::Func).count();
    let (mut bodies, mut found) = (Vec::new(), BTreeMap::new());
    for payload in Parser::new(0).parse_all(module) {
        match payload.unwrap() {
            Payload::CodeSectionEntry(body) => bodies.push(body),
            Payload::CustomSection(custom) => {
                let KnownCustom::Name(names) = custom.as_known() else { continue };
                for part in names {
                    let Name::Function(functions) = part.unwrap() else { continue };
                    for naming in functions {
                        let naming = naming.unwrap();
                        if naming.name.contains("pthread") || naming.name.starts_with("__wasilibc_futex") {
                            let body = bodies[usize::try_from(naming.index).unwrap() - imported].clone();
                            assert!(found.insert(naming.name.to_owned(), body).is_none(), "{}", naming.name);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn treatment_of_every_thread_function_is_known() {
    let Some(binary) = load("python-3.15") else { return };
    for import in inspect(&binary.bytes).imports {
        assert!(!import.name.contains("thread"), "the host has no threads, but the binary imports {import:?}");
    }
    let functions = thread_functions(&binary.bytes);
    let groups: [&[&str]; 6] = [&FAIL, &SUCCEED, &RETURN, &WAIT, &[TRAP], &PYTHON];
    let mut known: Vec<&str> = groups.concat();
    known.sort_unstable();
    assert_eq!(functions.keys().map(String::as_str).collect::<Vec<_>>(), known);

    // Each body consists of a constant: `ENOTSUP` (58) or 0.
    for (names, result) in [(&FAIL[..], 58), (&SUCCEED[..], 0)] {
        for name in names {
            assert_eq!(functions[*name].as_bytes(), [0, 0x41, result, 0x0b], "{name}");
        }
    }
    let traps = |name: &str| {
        let operators = functions[name].get_operators_reader().unwrap();
        operators.into_iter().any(|operator| matches!(operator.unwrap(), Operator::Unreachable))
    };
    assert!(traps(TRAP));
}
