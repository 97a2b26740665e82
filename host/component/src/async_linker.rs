//! Adds the interfaces to linkers of stores that are called asynchronously. A call that runs a script or a tool, or may
//! wait for a script, runs on another thread and does not block the store's thread. All other calls run on the store's
//! thread.

use std::{panic, sync::Arc};

use wasmtime::{
    StoreContextMut,
    component::{ComponentNamedList, ComponentType, Lift, Linker, LinkerInstance, Lower, Resource, ResourceType},
};

use super::{
    SandboxCtx, SandboxView,
    convert::SandboxFailure,
    sandbox::{Bytes, Snapshot},
    session::SessionResource,
    started::StartedResource,
    thread_call::ThreadCall,
    wit::{
        sandbox::{Host, HostBlob, HostFiles, HostSession, HostStarted},
        tools,
        types::SandboxError,
    },
};
const SANDBOX: &str = "glovebox:sandbox/sandbox@0.2.0";
const TOOLS: &str = "glovebox:sandbox/tools@0.2.0";

/// The linker instance to which one interface's functions and resources are added.
struct Interface<'a, T: 'static>(LinkerInstance<'a, T>);

/// Separates errors for the component from traps.
fn into_wit<R>(result: Result<R, SandboxFailure>) -> wasmtime::Result<Result<R, SandboxError>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(SandboxFailure::Error(error)) => Ok(Err(error)),
        Err(SandboxFailure::Trap(trap)) => Err(trap),
    }
}

impl<T: SandboxView + 'static> Interface<'_, T> {
    /// Adds a fallible function whose calls run on separate threads.
    fn add_awaited<P, R>(
        &mut self,
        name: &str,
        work: impl Fn(&mut SandboxCtx, P) -> Result<R, SandboxFailure> + Copy + Send + Sync + 'static,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + Send + 'static,
        R: ComponentType + Lower + Send + 'static,
    {
        self.0.func_wrap_async(name, move |mut store: StoreContextMut<'_, T>, parameters: P| {
            Box::new(async move { Ok((into_wit(on_thread(&mut store, move |ctx| work(ctx, parameters)).await?)?,)) })
        })
    }

    /// Adds a fallible function that runs on the store's thread.
    fn add_blocking<P, R>(
        &mut self,
        name: &str,
        work: impl Fn(&mut SandboxCtx, P) -> Result<R, SandboxFailure> + Send + Sync + 'static,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
        R: ComponentType + Lower + 'static,
    {
        self.define_infallible(name, move |ctx, parameters| into_wit(work(ctx, parameters)))
    }

    /// Adds an infallible function that runs on the store's thread.
    fn define_infallible<P, R>(
        &mut self,
        name: &str,
        work: impl Fn(&mut SandboxCtx, P) -> wasmtime::Result<R> + Send + Sync + 'static,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
        R: ComponentType + Lower + 'static,
    {
        self.0.func_wrap(name, move |mut store: StoreContextMut<'_, T>, parameters: P| {
            Ok((work(store.data_mut().sandbox().check_present()?, parameters)?,))
        })
    }

    /// Adds a resource whose destructor runs on the store's thread.
    fn resource<R: 'static>(
        &mut self,
        name: &str,
        end: impl Fn(&mut SandboxCtx, Resource<R>) -> wasmtime::Result<()> + Send + Sync + 'static,
    ) -> wasmtime::Result<()> {
        self.0.resource(name, ResourceType::host::<R>(), move |mut store, rep| {
            end(store.data_mut().sandbox().check_present()?, Resource::new_own(rep))
        })
    }

    /// Adds a resource whose destructor runs on a separate thread, because it can take a long time.
    fn add_awaited_resource<R: 'static>(
        &mut self,
        name: &str,
        end: impl Fn(&mut SandboxCtx, Resource<R>) -> wasmtime::Result<()> + Copy + Send + Sync + 'static,
    ) -> wasmtime::Result<()> {
        self.0.resource_async(name, ResourceType::host::<R>(), move |mut store, rep| {
            Box::new(async move { on_thread(&mut store, move |ctx| end(ctx, Resource::new_own(rep))).await? })
        })
    }
}

pub(super) fn add_sandbox<T: SandboxView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let mut of = Interface(linker.instance(SANDBOX)?);
    of.define_infallible("info", |ctx, ()| Host::info(ctx))?;
    of.define_infallible("default-policy", |ctx, ()| Host::default_policy(ctx))?;
    of.add_awaited("execute", |ctx, (runtime, request, policy)| Host::execute(ctx, runtime, request, policy))?;
    of.add_awaited("validate", |ctx, (runtime, request, policy)| Host::validate(ctx, runtime, request, policy))?;
    of.add_awaited("start", |ctx, (runtime, request, policy, tools)| {
        Host::start(ctx, runtime, request, policy, tools)
    })?;
    of.add_awaited("start-suspendable", |ctx, (runtime, request, policy, tools)| {
        Host::start_suspendable(ctx, runtime, request, policy, tools)
    })?;
    of.add_awaited("resume-suspended", |ctx, (runtime, suspended, files, policy, tools)| {
        Host::resume_suspended(ctx, runtime, suspended, files, policy, tools)
    })?;
    add_started(&mut of)?;
    add_session(&mut of)?;
    add_session_files(&mut of)?;
    add_files(&mut of)?;
    add_blob(&mut of)
}

fn add_started<T: SandboxView + 'static>(of: &mut Interface<'_, T>) -> wasmtime::Result<()> {
    of.add_awaited_resource::<StartedResource>("started", HostStarted::drop)?;
    of.add_awaited("[method]started.suspend", |ctx, (it,)| HostStarted::suspend(ctx, it))?;
    of.add_awaited("[method]started.continue", |ctx, (it, answers, wait_ms)| {
        HostStarted::continue_(ctx, it, answers, wait_ms)
    })?;
    of.define_infallible("[method]started.read-output", |ctx, (it, stream, offset, len)| {
        HostStarted::read_output(ctx, it, stream, offset, len)
    })?;
    of.add_blocking("[method]started.files", |ctx, (it,)| HostStarted::files(ctx, it))?;
    of.0.func_wrap(
        "[method]started.cancel",
        |mut store: StoreContextMut<'_, T>, (it,): (Resource<StartedResource>,)| {
            HostStarted::cancel(store.data_mut().sandbox().check_present()?, it)
        },
    )
}

fn add_session<T: SandboxView + 'static>(of: &mut Interface<'_, T>) -> wasmtime::Result<()> {
    of.add_awaited_resource::<SessionResource>("session", HostSession::drop)?;
    of.add_awaited("[static]session.open", |ctx, (runtime, policy, options)| {
        HostSession::open(ctx, runtime, policy, options)
    })?;
    of.add_awaited("[static]session.resume", |ctx, (runtime, state, policy, options)| {
        HostSession::resume(ctx, runtime, state, policy, options)
    })?;
    of.define_infallible("[method]session.id", |ctx, (it,)| HostSession::id(ctx, it))?;
    of.define_infallible("[method]session.info", |ctx, (it,)| HostSession::info(ctx, it))?;
    of.add_awaited("[method]session.execute", |ctx, (it, request)| HostSession::execute(ctx, it, request))?;
    of.add_awaited("[method]session.start", |ctx, (it, request)| HostSession::start(ctx, it, request))?;
    of.add_awaited("[method]session.get-variable", |ctx, (it, name)| HostSession::get_variable(ctx, it, name))?;
    of.add_awaited("[method]session.set-variable", |ctx, (it, name, json)| {
        HostSession::set_variable(ctx, it, name, json)
    })?;
    of.add_awaited("[method]session.fork", |ctx, (it,)| HostSession::fork(ctx, it))?;
    of.add_awaited("[method]session.checkpoint", |ctx, (it,)| HostSession::checkpoint(ctx, it))?;
    of.add_awaited("[method]session.checkpoints", |ctx, (it,)| HostSession::checkpoints(ctx, it))?;
    of.add_awaited("[method]session.undo", |ctx, (it,)| HostSession::undo(ctx, it))?;
    of.add_awaited("[method]session.undo-to", |ctx, (it, id)| HostSession::undo_to(ctx, it, id))?;
    of.add_awaited("[method]session.hibernate", |ctx, (it,)| HostSession::hibernate(ctx, it))?;
    of.add_awaited("[method]session.close", |ctx, (it,)| HostSession::close(ctx, it))
}

fn add_session_files<T: SandboxView + 'static>(of: &mut Interface<'_, T>) -> wasmtime::Result<()> {
    of.add_awaited("[method]session.files", |ctx, (it,)| HostSession::files(ctx, it))?;
    of.add_awaited("[method]session.write-file", |ctx, (it, path, bytes, if_exists)| {
        HostSession::write_file(ctx, it, path, bytes, if_exists)
    })?;
    of.add_awaited("[method]session.write-file-from", |ctx, (it, path, contents, if_exists)| {
        HostSession::write_file_from(ctx, it, path, contents, if_exists)
    })?;
    of.add_awaited("[method]session.rename-file", |ctx, (it, from, to, if_exists)| {
        HostSession::rename_file(ctx, it, from, to, if_exists)
    })?;
    of.add_awaited("[method]session.delete-file", |ctx, (it, path, recursive)| {
        HostSession::delete_file(ctx, it, path, recursive)
    })
}

fn add_files<T: SandboxView + 'static>(of: &mut Interface<'_, T>) -> wasmtime::Result<()> {
    of.resource::<Snapshot>("files", HostFiles::drop)?;
    of.add_blocking("[method]files.list", |ctx, (it, pattern)| HostFiles::list(ctx, it, pattern))?;
    of.add_blocking("[method]files.stat", |ctx, (it, path)| HostFiles::stat(ctx, it, path))?;
    of.add_blocking("[method]files.read", |ctx, (it, path, offset, len)| HostFiles::read(ctx, it, path, offset, len))
}

fn add_blob<T: SandboxView + 'static>(of: &mut Interface<'_, T>) -> wasmtime::Result<()> {
    of.resource::<Bytes>("blob", HostBlob::drop)?;
    of.define_infallible("[constructor]blob", |ctx, ()| HostBlob::new(ctx))?;
    of.add_blocking("[method]blob.append", |ctx, (it, bytes)| HostBlob::append(ctx, it, bytes))?;
    of.define_infallible("[method]blob.size", |ctx, (it,)| HostBlob::size(ctx, it))?;
    of.define_infallible("[method]blob.read", |ctx, (it, offset, len)| HostBlob::read(ctx, it, offset, len))
}

pub(super) fn add_tools<T: SandboxView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let mut of = Interface(linker.instance(TOOLS)?);
    of.define_infallible("list-tools", |ctx, ()| tools::Host::list_tools(ctx))?;
    of.0.func_wrap_async("call", |mut store: StoreContextMut<'_, T>, (name, arguments): (String, String)| {
        Box::new(
            async move { Ok((on_thread(&mut store, move |ctx| tools::Host::call(ctx, name, arguments)).await??,)) },
        )
    })
}

/// Lends the store's sandbox to `work` on another thread. If the future is dropped before the work ends, all executions
/// of the sandbox are cancelled and the thread drops the sandbox.
///
/// # Errors
/// Fails if no thread can be started, or if the future of an earlier call was dropped before its work ended.
pub(super) async fn on_thread<T: SandboxView, R: Send + 'static>(
    store: &mut StoreContextMut<'_, T>,
    work: impl FnOnce(&mut SandboxCtx) -> R + Send + 'static,
) -> wasmtime::Result<R> {
    let ctx = store.data_mut().sandbox();
    let (cancel, threads) = (ctx.cancel_token(), Arc::clone(ctx.caller.queue.threads()));
    let call = match ThreadCall::spawn(&threads, ctx.lend()?, cancel, work) {
        Ok(call) => call,
        Err((error, lent)) => {
            if let Some(lent) = lent {
                ctx.take_back(lent);
            }
            return Err(wasmtime::Error::new(error).context("cannot start a thread for a call into the sandbox"));
        }
    };
    let (lent, result) = call.await;
    store.data_mut().sandbox().take_back(lent);
    Ok(result.unwrap_or_else(|payload| panic::resume_unwind(payload)))
}
