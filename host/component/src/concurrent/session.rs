//! Implements `resource session`. Both versions of the contract share the methods of `Caller`.

use glovebox::{CheckpointId, Files, HibernateOptions, ResumeOptions, Session, Suspended};
use glovebox_core::contract::{check_json, check_variable_name};
use wasmtime::component::{Accessor, HasSelf, Resource, StreamReader};

use super::{
    call::{Call, runtime_bytes, tool_bytes},
    session_call::{SessionCall, UsedSession, create},
    started::{ConcurrentExecution, contents, stream},
    streams::{SizeLimit, UploadStream},
    wit_session::{Host, HostSession, HostSessionWithStore, SessionOptions},
};
use crate::{
    SandboxCtx,
    convert::{self, SandboxFailure, refused, weight},
    quotas::{QuotaShare, QuotaUse},
    sandbox::{Bytes, list_files},
    session::SessionResource,
    started::{SessionStartRequest, request_bytes, result_share},
    suspended::SuspendableRequest,
    wit::{
        sandbox,
        types::{
            CheckpointInfo, Execution, FileEntry, FileError, GuestValue, IfExists, Policy, Request, Runtime,
            SandboxError, SessionInfo, Tool,
        },
    },
};

impl Host for SandboxCtx {}

impl HostSession for SandboxCtx {
    fn id(&mut self, session: Resource<SessionResource>) -> wasmtime::Result<String> {
        Ok(self.check_present()?.get(&session)?.session().id().to_owned())
    }

    fn info(&mut self, session: Resource<SessionResource>) -> wasmtime::Result<SessionInfo> {
        Ok(self.check_present()?.get(&session)?.session().info().into())
    }

    fn drop(&mut self, session: Resource<SessionResource>) -> wasmtime::Result<()> {
        let session = self.check_present()?.take(session)?.into_session();
        // Dropping a session can take a long time.
        self.caller.queue.threads().drop_later(session);
        Ok(())
    }
}

impl<T: Send + 'static> HostSessionWithStore<T> for HasSelf<SandboxCtx> {
    async fn open(
        accessor: &Accessor<T, Self>,
        runtime: Runtime,
        policy: Policy,
        options: SessionOptions,
    ) -> Result<Resource<SessionResource>, SandboxFailure> {
        let (call, handle) = accessor.with(|mut access| begin_creation(access.get(), &runtime, &policy, &options))?;
        create(accessor, call, handle, move |call, cancel| {
            call.caller.make_with(runtime, policy, options.into(), |sandbox, keeper| {
                keeper.call.set(cancel);
                Ok(sandbox.open_session(glovebox::SessionOptions::default().scope(keeper))?)
            })
        })
        .await
    }

    async fn resume(
        accessor: &Accessor<T, Self>,
        runtime: Runtime,
        state: StreamReader<u8>,
        policy: Policy,
        options: SessionOptions,
    ) -> Result<Resource<SessionResource>, SandboxFailure> {
        let begun = accessor.with(|access| {
            UploadStream::begin(access, state, |ctx| Ok((begin_creation(ctx, &runtime, &policy, &options)?, None)))
        });
        let ((call, handle), incoming) = begun?;
        let state = incoming.all().await?;
        create(accessor, call, handle, move |call, cancel| {
            call.caller.make_with(runtime, policy, options.into(), |sandbox, keeper| {
                keeper.call.set(cancel);
                Ok(sandbox.resume(state.as_slice(), ResumeOptions::default().scope(keeper))?)
            })
        })
        .await
    }

    async fn resume_suspended(
        accessor: &Accessor<T, Self>,
        runtime: Runtime,
        suspended: StreamReader<u8>,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<(Resource<SessionResource>, Resource<ConcurrentExecution>), SandboxFailure> {
        let begun = accessor.with(|access| {
            UploadStream::begin(access, suspended, |ctx| {
                Ok((begin_resumption(ctx, &runtime, &policy, &tools)?, Some(suspended_limit())))
            })
        });
        let ((call, [for_session, for_execution]), incoming) = begun?;
        let suspended = incoming.all().await?;
        // If this future is dropped, the thread drops the session and the execution, which cancels the execution.
        let resumed =
            call.run_now(move |call, cancel| call.resume_in_session(runtime, suspended, policy, &tools, cancel));
        let (session, execution) = resumed.await?;
        accessor.with(|mut access| {
            let ctx = access.get().check_present()?;
            Ok::<_, SandboxFailure>((ctx.put(for_session, session)?, ctx.put(for_execution, execution)?))
        })
    }

    async fn execute(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
        mut request: Request,
    ) -> Result<Execution, SandboxFailure> {
        request.check_in_session()?;
        let call = begin(accessor, &session, request_bytes(&request))?.with_deadline(&request)?;
        call.run(move |call, session, cancel| {
            call.begin_request(&mut request);
            // Charges the output to the byte quota, because a component can make several calls at the same time.
            let share = call.caller.output_share(session.resource.session().sandbox())?;
            let execution = call.caller.enter(&session.resource, |session, keeper| {
                session.run(convert::request(&request).cancel(cancel).budget(&keeper.budget))
            })?;
            call.bytes.push(result_share(share, &execution)?);
            Ok(execution.into())
        })
        .await
    }

    async fn start(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
        request: Request,
    ) -> Result<Resource<ConcurrentExecution>, SandboxFailure> {
        start(accessor, &session, request, false).await
    }

    async fn start_suspendable(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
        request: Request,
    ) -> Result<Resource<ConcurrentExecution>, SandboxFailure> {
        start(accessor, &session, request, true).await
    }

    async fn get_variable(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
        name: String,
    ) -> Result<Option<GuestValue>, SandboxFailure> {
        let call = begin(accessor, &session, name.len())?;
        call.run(move |call, session, _| {
            let value = call.caller.enter(&session.resource, |session, _| session.get_variable(&name))?;
            Ok(value.map(GuestValue::from))
        })
        .await
    }

    async fn set_variable(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
        name: String,
        json: String,
    ) -> Result<(), SandboxFailure> {
        let call = begin(accessor, &session, name.len().saturating_add(json.len()))?;
        call.run(move |call, session, _| {
            check_variable_name(&name)?;
            check_json("json", &json)?;
            call.caller.enter(&session.resource, |session, _| session.set_variable_json(&name, &json))
        })
        .await
    }

    async fn read_file(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
        path: String,
    ) -> Result<StreamReader<u8>, SandboxFailure> {
        let (call, handle) = begin(accessor, &session, path.len())?.with_handle()?;
        let contents = call.run(move |call, session, _| {
            let files = snapshot(call, session)?;
            contents(call, &files, &path)
        });
        stream(accessor, contents.await?, handle)
    }

    async fn write_file(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
        path: String,
        contents: StreamReader<u8>,
        if_exists: IfExists,
    ) -> Result<(), SandboxFailure> {
        let begun =
            accessor.with(|access| UploadStream::begin(access, contents, |ctx| begin_upload(ctx, &session, &path)));
        let ((call, session), incoming) = begun?;
        let contents = incoming.all().await?;
        let call = SessionCall::admit(call, session)?;
        call.run(move |call, session, _| {
            call.caller.call_without_fuel(&session.resource, |session| {
                session.files().write(&path, contents.as_slice(), if_exists.into()).map_err(refused(&path))
            })
        })
        .await
    }

    async fn list_files(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
        pattern: String,
    ) -> Result<Vec<FileEntry>, SandboxFailure> {
        let call = begin(accessor, &session, pattern.len())?;
        call.run(move |call, session, _| list_files(&snapshot(call, session)?, &pattern)).await
    }

    async fn rename_file(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
        from: String,
        to: String,
        if_exists: IfExists,
    ) -> Result<(), SandboxFailure> {
        let call = begin(accessor, &session, from.len().saturating_add(to.len()))?;
        call.run(move |call, session, _| {
            call.caller.call_without_fuel(&session.resource, |session| {
                session.files().rename(&from, &to, if_exists.into()).map_err(refused(&from))
            })
        })
        .await
    }

    async fn delete_file(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
        path: String,
        recursive: bool,
    ) -> Result<(), SandboxFailure> {
        let call = begin(accessor, &session, path.len())?;
        call.run(move |call, session, _| {
            call.caller.call_without_fuel(&session.resource, |session| {
                let files = session.files();
                let deleted = if recursive { files.delete_all(&path) } else { files.delete(&path) };
                deleted.map_err(refused(&path))
            })
        })
        .await
    }

    async fn fork(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
    ) -> Result<Resource<SessionResource>, SandboxFailure> {
        let (call, handle) = begin(accessor, &session, 0)?.with_handle()?;
        let fork = call.run(|call, session, _| {
            call.caller.make(session.resource.session().sandbox(), |keeper| {
                let options = glovebox::SessionOptions::default().scope(keeper);
                call.caller.call_without_fuel(&session.resource, |session| session.fork_with(options))
            })
        });
        let fork = fork.await?;
        accessor.with(|mut access| access.get().check_present()?.put(handle, fork))
    }

    async fn checkpoint(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
    ) -> Result<u64, SandboxFailure> {
        let call = begin(accessor, &session, 0)?;
        call.run(|call, session, _| Ok(call.caller.call_without_fuel(&session.resource, Session::checkpoint)?.0)).await
    }

    async fn checkpoints(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
    ) -> Result<Vec<CheckpointInfo>, SandboxFailure> {
        let call = begin(accessor, &session, 0)?;
        call.run(|call, session, _| call.caller.call_without_fuel(&session.resource, convert::checkpoints)).await
    }

    async fn undo(accessor: &Accessor<T, Self>, session: Resource<SessionResource>) -> Result<u64, SandboxFailure> {
        let call = begin(accessor, &session, 0)?;
        call.run(|call, session, _| Ok(call.caller.enter(&session.resource, |session, _| session.undo())?.0)).await
    }

    async fn undo_to(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
        id: u64,
    ) -> Result<(), SandboxFailure> {
        let call = begin(accessor, &session, 0)?;
        call.run(move |call, session, _| {
            call.caller.enter(&session.resource, |session, _| session.undo_to(CheckpointId(id)))
        })
        .await
    }

    async fn hibernate(
        accessor: &Accessor<T, Self>,
        session: Resource<SessionResource>,
    ) -> Result<StreamReader<u8>, SandboxFailure> {
        let (call, handle) = begin(accessor, &session, 0)?.with_handle()?;
        let saved = call.run(|call, session, _| {
            let mut bytes = Bytes::new(&call.caller.meter)?;
            call.caller.call_without_fuel(&session.resource, |session| {
                session.hibernate_to(&HibernateOptions::default(), &mut bytes)
            })?;
            Ok(bytes)
        });
        stream(accessor, saved.await?, handle)
    }

    async fn close(accessor: &Accessor<T, Self>, session: Resource<SessionResource>) -> Result<(), SandboxFailure> {
        let call = begin(accessor, &session, 0)?;
        // Closing must work even if no fuel remains.
        call.run(|call, session, _| call.caller.call_without_fuel(&session.resource, Session::close)).await
    }
}

/// Begins a call into a session, with `bytes` bytes of arguments.
fn begin<T: 'static>(
    accessor: &Accessor<T, HasSelf<SandboxCtx>>,
    session: &Resource<SessionResource>,
    bytes: usize,
) -> Result<SessionCall, SandboxFailure> {
    accessor.with(|mut access| SessionCall::begin(access.get(), session, bytes))
}

/// Takes the shares of a call that creates a session, and of the session's handle.
fn begin_creation(
    ctx: &mut SandboxCtx,
    runtime: &Runtime,
    policy: &Policy,
    SessionOptions { context, tools }: &SessionOptions,
) -> Result<(Call, QuotaShare), SandboxFailure> {
    let context_bytes = context.as_ref().map_or(0, String::len) as u64;
    let tool_bytes = tool_bytes(tools.as_deref().unwrap_or_default());
    let bytes = [context_bytes, tool_bytes, runtime_bytes(runtime), weight(policy)];
    let call = Call::holding(ctx, bytes.into_iter().fold(0, u64::saturating_add))?;
    let handle = call.caller.meter.take(QuotaUse::Handle)?;
    Ok((call, handle))
}

/// Takes the shares of a call that resumes an execution in a session, and of the handles of both.
fn begin_resumption(
    ctx: &mut SandboxCtx,
    runtime: &Runtime,
    policy: &Policy,
    tools: &[Tool],
) -> Result<(Call, [QuotaShare; 2]), SandboxFailure> {
    let bytes = [tool_bytes(tools), runtime_bytes(runtime), weight(policy)];
    let call = Call::holding(ctx, bytes.into_iter().fold(0, u64::saturating_add))?;
    let handles = [call.caller.meter.take(QuotaUse::Handle)?, call.caller.meter.take(QuotaUse::Handle)?];
    Ok((call, handles))
}

/// Returns the size limit of the bytes of a suspended execution.
fn suspended_limit() -> SizeLimit {
    let text = format!("the bytes exceed {}, the maximum of a suspended execution", Suspended::MAX_BYTES);
    SizeLimit { bytes: Suspended::MAX_BYTES as u64, error: SandboxError::NotResumable(text) }
}

/// Starts an execution in a session.
async fn start<T: Send + 'static>(
    accessor: &Accessor<T, HasSelf<SandboxCtx>>,
    session: &Resource<SessionResource>,
    request: Request,
    is_suspendable: bool,
) -> Result<Resource<ConcurrentExecution>, SandboxFailure> {
    request.check_in_session()?;
    let (call, handle) = begin(accessor, session, request_bytes(&request))?.with_handle()?;
    let until_end = call.second_guard();
    // If this future is dropped, the thread drops the execution, which cancels it.
    let started = call.run_now(move |call, UsedSession { resource, running }, _| {
        let suspendable = is_suspendable.then(|| SuspendableRequest::new(&request));
        let request_share = call.take_request_share(&request)?;
        let request = convert::request(&request).suspendable(is_suspendable);
        let start = SessionStartRequest { request, suspendable };
        call.start_in_session(resource, start, (running, until_end, request_share))
    });
    let (started, stepping) = started.await?;
    let execution = started.with_guard(stepping);
    accessor.with(|mut access| access.get().check_present()?.put(handle, execution))
}

/// Takes the shares of a call that writes a file, and returns the size limit of its contents. Fails if the session is
/// busy. Does not keep the session busy while the contents arrive.
fn begin_upload(
    ctx: &mut SandboxCtx,
    session: &Resource<SessionResource>,
    path: &str,
) -> Result<((Call, SessionResource), Option<SizeLimit>), SandboxFailure> {
    let session = ctx.check_present()?.get(session)?.clone();
    drop(session.begin_call()?);
    let limits = &session.session().sandbox().policy().limits;
    let bytes = limits.workspace_bytes.min(limits.memory_bytes);
    let message =
        format!("the contents exceed {bytes} bytes, the limit of the workspace; write less, or raise the limit");
    let error = SandboxError::from_file(FileError::NoSpace, path, message);
    let call = Call::holding(ctx, path.len() as u64)?;
    Ok(((call, session), Some(SizeLimit { bytes, error })))
}

/// Returns a snapshot of a session's files, and releases the session for other calls.
fn snapshot(call: &Call, session: UsedSession) -> Result<Files, SandboxFailure> {
    call.caller.call_without_fuel(&session.resource, |session| session.files().snapshot().map_err(refused("")))
}

impl From<SessionOptions> for sandbox::SessionOptions {
    fn from(SessionOptions { context, tools }: SessionOptions) -> Self {
        Self { context, tools }
    }
}
