//! The sandbox in an embedder's own Wasmtime.

mod awaited;

use std::{
    path::Path,
    pin::pin,
    task::{Context, Poll, Waker},
};

use glovebox_component_host::{LIFT_BYTES, SandboxCtx, SandboxHost, SandboxView, add_to_linker};
use glovebox_tests::engine;
use wasmtime::{
    Engine, Store,
    component::{Component, Instance, Linker},
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// A component with two functions. One executes JavaScript source and returns `true` if it completed. The other appends
/// bytes to a blob and returns the blob's length.
const APP: &str = r#"(module
    (import "glovebox:sandbox/sandbox@0.2.0" "execute" (func $execute (param i32 i32)))
    (import "glovebox:sandbox/sandbox@0.2.0" "[constructor]blob" (func $blob (result i32)))
    (import "glovebox:sandbox/sandbox@0.2.0" "[method]blob.append" (func $append (param i32 i32 i32 i32)))
    (import "glovebox:sandbox/sandbox@0.2.0" "[method]blob.size" (func $size (param i32) (result i64)))
    (import "glovebox:sandbox/sandbox@0.2.0" "[resource-drop]blob" (func $drop (param i32)))
    ;; 40 MiB: more than a call may lift.
    (memory (export "memory") 640)
    (global $free (mut i32) (i32.const 65536))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
        (local $at i32)
        (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
        (global.set $free (i32.add (local.get $at) (local.get 3)))
        (local.get $at))
    ;; 64: the arguments of `execute`, whose runtime is `javascript` and whose options are all none; 1024: its result
    (func (export "completes") (param $source i32) (param $len i32) (result i32)
        (i32.store8 (i32.const 64) (i32.const 1))
        (i32.store (i32.const 80) (local.get $source))
        (i32.store (i32.const 84) (local.get $len))
        (call $execute (i32.const 64) (i32.const 1024))
        (i32.and
            (i32.eqz (i32.load8_u (i32.const 1024)))
            (i32.eqz (i32.load8_u (i32.const 1032)))))
    (func (export "append") (param $len i32) (result i64)
        (local $blob i32)
        (local $size i64)
        (local.set $blob (call $blob))
        (call $append (local.get $blob) (i32.const 65536) (local.get $len) (i32.const 1024))
        (local.set $size (call $size (local.get $blob)))
        (call $drop (local.get $blob))
        (local.get $size)))"#;

const WORLD: &str = "
    package glovebox:app;
    world app {
        import glovebox:sandbox/sandbox@0.2.0;
        export completes: func(source: string) -> bool;
        export append: func(len: u32) -> u64;
    }";

fn app() -> Vec<u8> {
    let mut module = wat::parse_str(APP).unwrap();
    let mut resolve = Resolve::default();
    resolve.push_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit")).unwrap();
    let package = resolve.push_str("app.wit", WORLD).unwrap();
    let world = resolve.select_world(&[package], Some("app")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}

/// The data in an embedder's stores.
struct State {
    sandbox: SandboxCtx,
}

impl SandboxView for State {
    fn sandbox(&mut self) -> &mut SandboxCtx {
        &mut self.sandbox
    }
}

struct Embedder {
    wasmtime: Engine,
    linker: Linker<State>,
    app: Component,
    host: SandboxHost,
}

impl Embedder {
    fn new() -> Self {
        Self::with(add_to_linker, SandboxHost::builder(engine()).build().unwrap())
    }

    fn with(add: fn(&mut Linker<State>) -> wasmtime::Result<()>, host: SandboxHost) -> Self {
        let wasmtime = Engine::default();
        let mut linker = Linker::new(&wasmtime);
        add(&mut linker).unwrap();
        let app = Component::new(&wasmtime, app()).unwrap();
        Self { wasmtime, linker, app, host }
    }

    fn store(&self) -> Store<State> {
        let mut store = Store::new(&self.wasmtime, State { sandbox: self.host.ctx() });
        store.set_hostcall_fuel(LIFT_BYTES);
        store
    }

    fn instance(&self, store: &mut Store<State>) -> Instance {
        self.linker.instantiate(store, &self.app).unwrap()
    }
}

/// Polls a future until it is ready. The future must not wait for another thread.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}

#[test]
fn components_execute_scripts_in_sync_and_async_stores() {
    let embedder = Embedder::new();
    let mut store = embedder.store();
    let instance = embedder.instance(&mut store);
    let completes = instance.get_typed_func::<(&str,), (bool,)>(&mut store, "completes").unwrap();
    assert!(completes.call(&mut store, ("let x = 6 * 7",)).unwrap().0);
    assert!(!completes.call(&mut store, ("throw 1",)).unwrap().0);
    assert_eq!(store.data().sandbox.usage().executions, 2);

    let mut store = embedder.store();
    let instance = now(embedder.linker.instantiate_async(&mut store, &embedder.app)).unwrap();
    let completes = instance.get_typed_func::<(&str,), (bool,)>(&mut store, "completes").unwrap();
    assert!(now(completes.call_async(&mut store, ("let x = 6 * 7",))).unwrap().0);
    assert_eq!(store.data().sandbox.usage().executions, 1, "each store has a separate sandbox");
}

#[test]
fn trapped_component_resources_are_freed_with_the_store() {
    let embedder = Embedder::new();
    let mut store = embedder.store();
    let token = store.data().sandbox.cancel_token();
    let instance = embedder.instance(&mut store);
    let append = instance.get_typed_func::<(u32,), (u64,)>(&mut store, "append").unwrap();
    append.call(&mut store, (u32::MAX,)).unwrap_err();
    assert_eq!(store.data().sandbox.usage().handles, 1, "its blob was not dropped");
    drop(store);
    assert!(token.is_cancelled(), "other executions of the store are cancelled");
}
