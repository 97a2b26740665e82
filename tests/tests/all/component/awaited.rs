//! The sandbox in an asynchronous embedder with a single thread.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Barrier, Mutex, mpsc},
    task::Poll,
    time::{Duration, Instant},
};

use glovebox::Tool;
use glovebox_component_host::{Quotas, SandboxCtx, SandboxHost, add_to_linker_async};
use glovebox_tests::{engine, puppet};
use serde_json::json;
use wasmtime::component::{Linker, TypedFunc};

use super::{Embedder, State};

/// A timeout that no test reaches, even on a slow machine.
const LONG: Duration = Duration::from_secs(60);

type Completes = TypedFunc<(String,), (bool,)>;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn embedder(host: SandboxHost) -> Embedder {
    Embedder::with(add_to_linker_async, host)
}

async fn instance(embedder: &Embedder, store: &mut wasmtime::Store<State>) -> Completes {
    let instance = embedder.linker.instantiate_async(&mut *store, &embedder.app).await.unwrap();
    instance.get_typed_func(store, "completes").unwrap()
}

#[test]
fn async_linker_has_every_contract_function() {
    let wasmtime = wasmtime::Engine::default();
    let mut linker = Linker::<SandboxCtx>::new(&wasmtime);
    add_to_linker_async(&mut linker).unwrap();
    linker.instantiate_pre(&puppet::component_of_all(&wasmtime)).unwrap();
}

#[test]
fn two_scripts_run_at_once_on_a_runtime_of_one_thread() {
    // Each script waits until the other has started.
    let met = Arc::new(Barrier::new(2));
    let tool = Tool::new("meet", "Waits for the other.").handler(move |_, _| {
        met.wait();
        Ok(json!(null))
    });
    let embedder = embedder(SandboxHost::builder(engine()).tool(tool).build().unwrap());
    let runtime = runtime();
    let embedder = Arc::new(embedder);
    let tasks = [1, 2].map(|_| {
        let embedder = Arc::clone(&embedder);
        runtime.spawn(async move {
            let mut store = embedder.store();
            let completes = instance(&embedder, &mut store).await;
            completes.call_async(&mut store, ("await tools.meet()".into(),)).await.unwrap()
        })
    });
    runtime.block_on(async {
        for task in tasks {
            assert_eq!(tokio::time::timeout(LONG, task).await.unwrap().unwrap(), (true,));
        }
    });
}

#[test]
fn the_thread_is_free_while_a_script_runs() {
    let mut policy = glovebox::Policy::default();
    policy.limits.timeout_ms = 600_000;
    policy.limits.fuel = u64::MAX / 4;
    let embedder = embedder(SandboxHost::builder(engine()).policy(policy).build().unwrap());
    let runtime = runtime();
    let begin = Instant::now();
    let completed = runtime.block_on(async {
        let mut store = embedder.store();
        let token = store.data().sandbox.cancel_token();
        let completes = instance(&embedder, &mut store).await;
        // The script ends only if this task gets the thread while the script runs.
        let ticks = tokio::spawn(async move {
            for _ in 0..40 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            token.cancel();
        });
        let (completed,) = completes.call_async(&mut store, ("for (;;);".into(),)).await.unwrap();
        ticks.await.unwrap();
        completed
    });
    assert!(!completed);
    assert!(begin.elapsed() < Duration::from_secs(300), "{:?}", begin.elapsed());
}

#[test]
fn dropped_call_cancels_its_script_and_sandbox() {
    let (enters, entered) = mpsc::channel();
    let (ends, ended) = mpsc::channel();
    let ends = Mutex::new(ends);
    let tool = Tool::new("wait", "Waits until it is cancelled.").handler(move |call, _| {
        enters.send(()).unwrap();
        let begin = Instant::now();
        while !call.cancel.is_cancelled() && begin.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(1));
        }
        ends.lock().unwrap().send(call.cancel.is_cancelled()).unwrap();
        Ok(json!(null))
    });
    let embedder = embedder(SandboxHost::builder(engine()).tool(tool).build().unwrap());
    runtime().block_on(async {
        let mut store = embedder.store();
        let completes = instance(&embedder, &mut store).await;
        {
            let mut call = pin!(completes.call_async(&mut store, ("await tools.wait()".into(),)));
            poll_fn(|context| {
                assert!(call.as_mut().poll(context).is_pending(), "the call is still waiting");
                context.waker().wake_by_ref();
                if entered.try_recv().is_ok() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        assert!(ended.recv_timeout(LONG).unwrap(), "the tool sees the cancellation");
        assert!(store.data().sandbox.cancel_token().is_cancelled());
        assert_eq!(store.data().sandbox.usage().executions, 1);
        let again = instance(&embedder, &mut store).await;
        let trap = again.call_async(&mut store, ("1".into(),)).await.unwrap_err();
        // Wasmtime rejects a store in which the future of a call was dropped. If it does not, the sandbox rejects the
        // call.
        let is_refused =
            ["cannot enter component instance", "was dropped"].map(|text| format!("{trap:#}").contains(text));
        assert!(is_refused.contains(&true), "{trap:#}");
        // A sandbox in another store continues to work.
        let mut other = embedder.store();
        let completes = instance(&embedder, &mut other).await;
        assert_eq!(completes.call_async(&mut other, ("1".into(),)).await.unwrap(), (true,));
    });
}

#[test]
fn async_errors_and_traps_match_sync() {
    let mut quotas = Quotas::default();
    quotas.executions = 2;
    let embedder = embedder(SandboxHost::builder(engine()).quotas(quotas).build().unwrap());
    runtime().block_on(async {
        let mut store = embedder.store();
        let completes = instance(&embedder, &mut store).await;
        for (source, completed) in [("let x = 6 * 7", true), ("throw 1", false), ("1", false)] {
            assert_eq!(completes.call_async(&mut store, (source.into(),)).await.unwrap(), (completed,), "{source}");
        }
        assert_eq!(store.data().sandbox.usage().executions, 2, "the third was over its quota");
        let instance = embedder.linker.instantiate_async(&mut store, &embedder.app).await.unwrap();
        let append = instance.get_typed_func::<(u32,), (u64,)>(&mut store, "append").unwrap();
        assert_eq!(append.call_async(&mut store, (1_000,)).await.unwrap(), (1_000,));
        let trap = append.call_async(&mut store, (u32::MAX,)).await.unwrap_err();
        assert!(format!("{trap:#}").contains("out of bounds"), "{trap:#}");
    });
}
