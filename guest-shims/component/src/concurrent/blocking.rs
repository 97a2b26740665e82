//! Waits for asynchronous operations on the stack of the running task.
//!
//! Unlike `wit_bindgen::block_on`, a wait ends as soon as its future is ready, although other operations that the future
//! has begun are still open. They remain in one set of waitables, which all waits of the instance share, until a later
//! wait continues them or they are dropped. Only one execution runs at a time, so there is at most one wait.

#![allow(unsafe_code, reason = "the component model's intrinsics, and the interface of executors in `wit-bindgen`")]

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    ffi::c_void,
    pin::Pin,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use wit_bindgen::{RawStreamReader, RawStreamWriter, StreamOps as _, UnitStreamOps};

/// The component model's intrinsics, and the function that exchanges the current executor.
mod intrinsics {
    use super::Executor;

    #[link(wasm_import_module = "$root")]
    unsafe extern "C" {
        #[link_name = "[waitable-set-new]"]
        pub(super) safe fn new_set() -> u32;
        #[link_name = "[waitable-join]"]
        pub(super) safe fn join(waitable: u32, set: u32);
        #[link_name = "[waitable-set-wait]"]
        pub(super) fn wait(set: u32, event: *mut [u32; 2]) -> u32;
        #[link_name = "[waitable-set-poll]"]
        pub(super) fn poll(set: u32, event: *mut [u32; 2]) -> u32;
    }

    unsafe extern "C" {
        pub(super) fn wasip3_task_set(task: *mut Executor) -> *mut Executor;
    }
}

/// A completion callback of an operation.
#[derive(Clone, Copy)]
struct Completion {
    callback: unsafe extern "C" fn(*mut c_void, u32),
    argument: *mut c_void,
}

/// An executor, as `wit-bindgen` defines it for all its versions.
#[repr(C)]
struct Executor {
    version: u32,
    /// Passed to all functions. This executor has no data.
    data: *mut c_void,
    register: Register,
    unregister: Unregister,
    functions: &'static Functions,
}

/// The version of the interface that has [`Functions`].
const VERSION: u32 = 2;

type Register =
    unsafe extern "C" fn(*mut c_void, u32, unsafe extern "C" fn(*mut c_void, u32), *mut c_void) -> *mut c_void;
type Unregister = unsafe extern "C" fn(*mut c_void, u32) -> *mut c_void;

#[repr(C)]
struct Functions {
    register: Register,
    unregister: Unregister,
    clone: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    drop: unsafe extern "C" fn(*mut c_void),
}

static FUNCTIONS: Functions = Functions { register, unregister, clone, drop };

unsafe extern "C" fn register(
    _data: *mut c_void,
    waitable: u32,
    callback: unsafe extern "C" fn(*mut c_void, u32),
    argument: *mut c_void,
) -> *mut c_void {
    intrinsics::join(waitable, SET.with(|set| *set));
    let before = OPERATIONS.with_borrow_mut(|all| all.insert(waitable, Completion { callback, argument }));
    before.map_or(ptr::null_mut(), |before| before.argument)
}

unsafe extern "C" fn unregister(_data: *mut c_void, waitable: u32) -> *mut c_void {
    intrinsics::join(waitable, 0);
    OPERATIONS.with_borrow_mut(|all| all.remove(&waitable)).map_or(ptr::null_mut(), |before| before.argument)
}

unsafe extern "C" fn clone(data: *mut c_void) -> *mut c_void {
    data
}

unsafe extern "C" fn drop(_data: *mut c_void) {}

/// A non-null address that identifies this executor.
static IDENTITY: u8 = 0;

thread_local! {
    static SET: u32 = intrinsics::new_set();
    static OPERATIONS: RefCell<BTreeMap<u32, Completion>> = const { RefCell::new(BTreeMap::new()) };
    static WAKE_UP: RefCell<Option<WakeUp>> = const { RefCell::new(None) };
    /// The stream through which a synchronous call of the contract wakes the wait; `None` unless the wait sleeps.
    static SLEEPING: Cell<Option<u32>> = const { Cell::new(None) };
    /// `true` from a write to this stream until the read has completed. Another write would have no reader.
    static IS_SIGNALLED: Cell<bool> = const { Cell::new(false) };
}

/// A stream within the component. A write ends the wait.
struct WakeUp {
    writer: RawStreamWriter<UnitStreamOps>,
    /// Reads the stream for ever.
    reads: Pin<Box<dyn Future<Output = ()>>>,
}

impl WakeUp {
    fn new() -> Self {
        let (writer, reader) = UnitStreamOps::new();
        Self { writer, reads: Box::pin(read_all(reader)) }
    }
}

async fn read_all(mut reader: RawStreamReader<UnitStreamOps>) {
    while reader.next().await.is_some() {
        IS_SIGNALLED.set(false);
    }
}

/// The waker of a wait.
struct WaitWaker {
    is_woken: AtomicBool,
}

impl Wake for WaitWaker {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
        if let Some(stream) = SLEEPING.get()
            && !IS_SIGNALLED.replace(true)
        {
            // SAFETY: the stream's handle is valid, and a unit has no bytes. A read is pending while the wait sleeps
            // without a signal, so the write completes immediately.
            unsafe { UnitStreamOps.start_write(stream, ptr::null(), 1) };
        }
    }
}

/// Waits until `poll` is ready.
#[cfg(feature = "clock")]
pub(super) fn block_on(poll: impl FnMut(&mut Context<'_>) -> Poll<()>) {
    run(poll, true);
}

/// Returns `true` if an operation of the instance is open.
pub(super) fn has_operations() -> bool {
    OPERATIONS.with_borrow(|all| !all.is_empty())
}

/// Continues `poll` and all operations whose completion has arrived, without waiting.
pub(super) fn poll_once(poll: impl FnMut(&mut Context<'_>)) {
    let mut poll = poll;
    run(
        |context| {
            poll(context);
            Poll::Pending
        },
        false,
    );
}

fn run(mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>, waits: bool) {
    let wait_waker = Arc::new(WaitWaker { is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&wait_waker));
    let mut context = Context::from_waker(&waker);
    let mut wake_up = WAKE_UP.take().unwrap_or_else(WakeUp::new);
    loop {
        wait_waker.is_woken.store(false, Ordering::Relaxed);
        let is_done = as_executor(|| {
            let _ = wake_up.reads.as_mut().poll(&mut context);
            poll(&mut context).is_ready()
        });
        if is_done {
            break;
        }
        if wait_waker.is_woken.load(Ordering::Relaxed) {
            continue;
        }
        if !deliver(waits.then(|| wake_up.writer.handle())) {
            break;
        }
    }
    WAKE_UP.set(Some(wake_up));
}

/// Calls `work` with this executor as the current one.
pub(super) fn as_executor<R>(work: impl FnOnce() -> R) -> R {
    let mut executor = Executor {
        version: VERSION,
        data: ptr::from_ref(&IDENTITY).cast_mut().cast(),
        register,
        unregister,
        functions: &FUNCTIONS,
    };
    // SAFETY: the executor is valid until the previous one is restored. Product code does not unwind.
    let previous = unsafe { intrinsics::wasip3_task_set(&raw mut executor) };
    let result = work();
    // SAFETY: the previous executor belongs to the task on whose stack this function runs, so it is still valid.
    unsafe { intrinsics::wasip3_task_set(previous) };
    result
}

/// Delivers the completion of an operation. Waits for it if `wake_up` is the stream that ends the wait. Returns `false`
/// if none has arrived.
fn deliver(wake_up: Option<u32>) -> bool {
    let (set, mut event) = (SET.with(|set| *set), [0; 2]);
    SLEEPING.set(wake_up);
    // SAFETY: both functions write the waitable and its code.
    let kind = unsafe {
        match wake_up {
            Some(_) => intrinsics::wait(set, &raw mut event),
            None => intrinsics::poll(set, &raw mut event),
        }
    };
    SLEEPING.set(None);
    if kind == 0 {
        return false;
    }
    let [waitable, code] = event;
    intrinsics::join(waitable, 0);
    if let Some(Completion { callback, argument }) = OPERATIONS.with_borrow_mut(|all| all.remove(&waitable)) {
        // SAFETY: the operation has registered the callback with this argument, and unregisters it when it is dropped.
        unsafe { callback(argument, code) };
    }
    true
}
