//! Runs one call to an export, in a new instance and on a new thread. Lists the exported functions of a component, and
//! parses calls in WAVE.

use std::{
    fmt::{self, Write as _},
    future::{Future as _, poll_fn},
    io,
    panic::resume_unwind,
    pin::pin,
    sync::Arc,
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use glovebox::CancelToken;
use wasmtime::{
    Engine, Store, UpdateDeadline,
    component::{
        Component, ComponentExportIndex, InstancePre, Type, Val,
        types::{ComponentFunc, ComponentItem},
        wasm_wave::{untyped::UntypedFuncCall, wasm::DisplayType},
    },
};

use crate::{
    AppLimits, AppOutcome, InvokeError, RunError,
    outcome::{classify, outcome_of_stop},
    store::StoreState,
    watch::{MonitorOutcome, RunningThread, StopReason, Watch},
};

/// Maximum time for a stopped run to end, in addition to the soft-limit reserve of its scripts. A run needs this time
/// only if its thread blocks in a write to a pipe that no process reads.
const GRACE: Duration = Duration::from_secs(2);

/// Maximum number of threads for blocking file operations. An application waits for one or two operations at a time.
const BLOCKING_THREADS: usize = 4;

/// The number of epoch ticks until the next deadline. The epoch advances only to stop a run.
const NEXT_EPOCH: u64 = 1;

/// An export and the arguments of its call.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) function: ComponentExportIndex,
    pub(crate) arguments: Vec<Val>,
    pub(crate) result_count: usize,
}

/// A call with its instance, store state and limits.
pub(crate) struct Job<S: Send + 'static> {
    pub(crate) instance: InstancePre<StoreState<S>>,
    /// The host memory of the instance in bytes, without linear memories and table elements.
    pub(crate) instance_bytes: u64,
    pub(crate) state: StoreState<S>,
    pub(crate) call: Call,
    pub(crate) limits: AppLimits,
    /// The deadline of the call, in addition to `limits.timeout_ms`.
    pub(crate) deadline: Option<Instant>,
    /// The caller's token, which stops the run.
    pub(crate) cancel: CancelToken,
    /// The token that cancels the application's scripts, and the time that cancelled scripts have to end.
    pub(crate) scripts: Option<(CancelToken, Duration)>,
}

/// The result and resource usage of a call.
#[derive(Debug)]
pub(crate) struct CallReport<S> {
    /// The values that the call returned, or the outcome that ended the call.
    pub(crate) result: Result<Vec<Val>, AppOutcome>,
    pub(crate) fuel_consumed: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) duration: Duration,
    /// The sandbox data of the store. `None` if the run's thread did not end within the grace period.
    pub(crate) sandbox: Option<S>,
}

/// Runs a call and waits until it ends, or until the grace period of a stopped call has passed.
pub(crate) fn run<S: Send + 'static>(job: Job<S>) -> Result<CallReport<S>, RunError> {
    let begin = Instant::now();
    let Job { limits, cancel, scripts, .. } = &job;
    let (limits, cancel, scripts) = (limits.clone(), cancel.clone(), scripts.clone());
    let deadline = begin.checked_add(Duration::from_millis(limits.timeout_ms));
    // A timeout that overflows `Instant` would never expire in practice.
    let deadline = [deadline, job.deadline].into_iter().flatten().min();
    let deadline = deadline.unwrap_or_else(|| begin + Duration::from_secs(u64::from(u32::MAX)));
    let grace = GRACE + scripts.as_ref().map_or(Duration::ZERO, |(_, reserve)| *reserve);
    let engine = job.instance.engine().clone();

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(RunError::Thread)?;
    let watch = Watch::new();
    let (running, epochs) = (watch.thread_handle(), Arc::clone(&watch));
    let stopping = Arc::clone(&watch);
    let _cancelled = cancel.on_cancel(move || stopping.stop(StopReason::Cancelled));
    let thread = thread::Builder::new()
        .name("glovebox-component-runner".into())
        .spawn(move || {
            carry_out(&runtime, job, begin, running, &epochs);
            // Do not wait for background reads and writes to finish.
            runtime.shutdown_background();
        })
        .map_err(RunError::Thread)?;
    let watched = watch.wait(deadline, grace, || {
        if let Some((scripts, _)) = &scripts {
            scripts.cancel();
        }
        engine.increment_epoch();
    });
    match watched {
        MonitorOutcome::Reported(done) => Ok(done),
        MonitorOutcome::Stuck(why) => {
            let duration = begin.elapsed();
            let result = Err(outcome_of_stop(why, &limits, duration));
            Ok(CallReport { result, fuel_consumed: 0, memory_bytes: 0, duration, sandbox: None })
        }
        // Resume a panic in the caller: it is a fault of the host, not an outcome of the application.
        MonitorOutcome::Lost => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => Err(RunError::Thread(io::Error::other("the thread ended without a result"))),
        },
    }
}

/// The error for instances whose host memory would exceed the memory limit.
#[derive(Debug, thiserror::Error)]
#[error("the component's instances exceed its memory limit")]
struct InstanceMemoryError;

/// The error for a run that was stopped while it waited.
#[derive(Debug, thiserror::Error)]
#[error("the component was stopped")]
struct StoppedError;

/// Runs the call on the current thread and reports the result.
fn carry_out<S: Send + 'static>(
    runtime: &tokio::runtime::Runtime,
    job: Job<S>,
    begin: Instant,
    running: RunningThread<CallReport<S>>,
    watch: &Arc<Watch<CallReport<S>>>,
) {
    let Job { instance, instance_bytes, mut state, call, limits, .. } = job;
    let has_room = state.limiter.reserve(instance_bytes);
    let mut store = Store::new(instance.engine(), state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(limits.lift_bytes);
    store.set_max_component_handles(limits.handles);
    store.set_epoch_deadline(NEXT_EPOCH);
    let epochs = Arc::clone(watch);
    store.epoch_deadline_callback(move |_| match epochs.stop_reason() {
        Some(_) => Ok(UpdateDeadline::Interrupt),
        // The epoch advanced to stop another run of the same engine.
        None => Ok(UpdateDeadline::Continue(NEXT_EPOCH)),
    });
    let result = store.set_fuel(limits.fuel).and_then(|()| {
        if !has_room {
            return Err(InstanceMemoryError.into());
        }
        runtime.block_on(async {
            let mut calling = pin!(enter(&mut store, &instance, &call));
            poll_fn(|context| match running.poll_stop(context) {
                Some(_) => Poll::Ready(Err(StoppedError.into())),
                None => calling.as_mut().poll(context),
            })
            .await
        })
    });
    let stop = watch.stop_reason();
    let fuel_left = store.get_fuel().unwrap_or_default();
    let StoreState { limiter, sandbox, .. } = store.into_data();
    let duration = begin.elapsed();
    running.report(CallReport {
        result: match stop {
            // If the run was stopped, its result is ignored.
            Some(why) => Err(outcome_of_stop(why, &limits, duration)),
            None => result.map_err(|error| classify(&error, &limits, limiter.refused_bytes())),
        },
        fuel_consumed: limits.fuel.saturating_sub(fuel_left),
        memory_bytes: limiter.memory_bytes(),
        duration,
        sandbox: Some(sandbox),
    });
}

async fn enter<S: Send + 'static>(
    store: &mut Store<StoreState<S>>,
    instance: &InstancePre<StoreState<S>>,
    call: &Call,
) -> wasmtime::Result<Vec<Val>> {
    let instance = instance.instantiate_async(&mut *store).await?;
    let function = instance
        .get_func(&mut *store, call.function)
        .ok_or_else(|| wasmtime::Error::msg("the exported function is missing from the component"))?;
    let mut results = vec![Val::Bool(false); call.result_count];
    function.call_async(store, &call.arguments, &mut results).await?;
    Ok(results)
}

/// Maximum length of a displayed signature in bytes. The types in a small component can take megabytes as text.
const SIGNATURE_BYTES: usize = 400;

/// A function that a component exports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Export {
    /// The full name: `add`, or `ns:pkg/iface@0.1.0.add` for a function in an interface.
    pub name: String,
    /// The name with parameters and result, in WIT syntax. Signatures longer than 400 bytes are truncated.
    pub signature: String,
    /// `true` if the function can be called in WAVE: its parameters and result have at most 1,000 types, all with a
    /// textual form.
    pub is_invocable: bool,
    pub(crate) function: String,
    pub(crate) interface: Option<String>,
    pub(crate) index: ComponentExportIndex,
    pub(crate) parameters: Vec<Type>,
    pub(crate) result_count: usize,
}

impl Export {
    fn new(interface: Option<&str>, function: &str, index: ComponentExportIndex, ty: &ComponentFunc) -> Self {
        let name = match interface {
            Some(interface) => format!("{interface}.{function}"),
            None => function.to_owned(),
        };
        let mut text = TruncatedText(String::new());
        // An error means that the text was truncated.
        let _ = signature(&mut text, &name, ty);
        let parameters: Vec<Type> = ty.params().map(|(_, ty)| ty).collect();
        let mut left = TYPES_MAX;
        let is_invocable = parameters.iter().cloned().chain(ty.results()).all(|ty| has_text(&ty, &mut left));
        Self {
            signature: text.0,
            is_invocable,
            name,
            function: function.to_owned(),
            interface: interface.map(str::to_owned),
            index,
            parameters,
            result_count: ty.results().len(),
        }
    }

    /// Returns `true` if `name` denotes this function: `add`, `iface.add` or `ns:pkg/iface.add`, with or without the
    /// version.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        let Some(interface) = &self.interface else { return name == self.function };
        let (path, version) =
            interface.split_once('@').map_or((interface.as_str(), ""), |(path, version)| (path, version));
        let short = path.rsplit_once('/').map_or(path, |(_, short)| short);
        let function = &self.function;
        let with_version =
            |name: &str| [format!("{name}@{version}.{function}"), format!("{name}.{function}@{version}")];
        name == function
            || [path, short]
                .iter()
                .any(|part| name == format!("{part}.{function}") || with_version(part).contains(&name.to_owned()))
    }
}

/// Returns the exported functions of a component and of its exported interfaces, sorted by name.
pub(crate) fn exports(engine: &Engine, component: &Component) -> Vec<Export> {
    let mut found = Vec::new();
    for (name, item) in component.component_type().exports(engine) {
        let Some(index) = component.get_export_index(None, name) else { continue };
        match item.ty {
            ComponentItem::ComponentFunc(ty) => found.push(Export::new(None, name, index, &ty)),
            ComponentItem::ComponentInstance(instance) => {
                let functions = instance.exports(engine).filter_map(|(function, item)| {
                    let ComponentItem::ComponentFunc(ty) = item.ty else { return None };
                    let index = component.get_export_index(Some(&index), function)?;
                    Some(Export::new(Some(name), function, index, &ty))
                });
                found.extend(functions);
            }
            _ => {}
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Text that is truncated after [`SIGNATURE_BYTES`] bytes.
struct TruncatedText(String);

impl fmt::Write for TruncatedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = SIGNATURE_BYTES.saturating_sub(self.0.len());
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let (beginning, _) = text.split_at(text.floor_char_boundary(room));
        self.0.push_str(beginning);
        self.0.push('…');
        Err(fmt::Error)
    }
}

fn signature(text: &mut TruncatedText, name: &str, ty: &ComponentFunc) -> fmt::Result {
    let asynchronous = if ty.async_() { "async " } else { "" };
    write!(text, "{name}: {asynchronous}func(")?;
    for (at, (name, ty)) in ty.params().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(text, "{comma}{name}: ")?;
        type_text(text, &ty)?;
    }
    text.write_str(")")?;
    for ty in ty.results() {
        text.write_str(" -> ")?;
        type_text(text, &ty)?;
    }
    Ok(())
}

fn type_text(text: &mut TruncatedText, ty: &Type) -> fmt::Result {
    let mut left = TYPES_MAX;
    // Each type takes at least one byte of text. If `left` is 0, the text is therefore truncated before the unvisited
    // types.
    if has_text(ty, &mut left) || left == 0 {
        write!(text, "{}", DisplayType(ty))
    } else {
        text.write_str("(no textual form)")
    }
}

/// Maximum number of types in the parameters and result of a function that can be called in WAVE. A small file can
/// describe a type that expands to millions of types.
const TYPES_MAX: u32 = 1_000;

/// Returns `true` if values of a type have a textual form. Visits at most `left` types.
fn has_text(ty: &Type, left: &mut u32) -> bool {
    let Some(fewer) = left.checked_sub(1) else { return false };
    *left = fewer;
    match ty {
        Type::Own(_) | Type::Borrow(_) | Type::Stream(_) | Type::Future(_) | Type::ErrorContext | Type::Map(_) => false,
        Type::List(list) => has_text(&list.ty(), left),
        Type::FixedLengthList(list) => has_text(&list.ty(), left),
        Type::Record(record) => record.fields().all(|field| has_text(&field.ty, left)),
        Type::Tuple(tuple) => tuple.types().all(|ty| has_text(&ty, left)),
        Type::Variant(variant) => variant.cases().all(|case| case.ty.is_none_or(|ty| has_text(&ty, left))),
        Type::Option(option) => has_text(&option.ty(), left),
        Type::Result(result) => [result.ok(), result.err()].into_iter().flatten().all(|ty| has_text(&ty, left)),
        _ => true,
    }
}

/// Parses a call in WAVE: finds the function and converts the arguments to the parameter types.
pub(crate) fn parse(component: &str, exports: &[Export], call: &str) -> Result<Call, InvokeError> {
    let no_call = || InvokeError::NoCall { call: call.to_owned() };
    let (function, arguments) = call.split_at(call.find('(').ok_or_else(no_call)?);
    let function = function.trim();
    if function.is_empty() {
        return Err(no_call());
    }
    let export = find(component, exports, function)?;
    if !export.is_invocable {
        return Err(InvokeError::NoTextualForm { function: export.name.clone() });
    }
    let wrong = |error: &dyn fmt::Display| InvokeError::Arguments {
        signature: export.signature.clone(),
        arguments: arguments.to_owned(),
        reason: error.to_string(),
    };
    // WAVE accepts plain names only, so a placeholder replaces the function's name.
    let text = format!("f{arguments}");
    let untyped = UntypedFuncCall::parse(&text).map_err(|error| wrong(&error))?;
    let types: Vec<&Type> = export.parameters.iter().collect();
    let arguments: Vec<Val> = untyped.to_wasm_params(types).map_err(|error| wrong(&error))?;
    Ok(Call { function: export.index, arguments, result_count: export.result_count })
}

fn find<'a>(component: &str, exports: &'a [Export], function: &str) -> Result<&'a Export, InvokeError> {
    if let Some(export) = exports.iter().find(|export| export.name == function) {
        return Ok(export);
    }
    let candidates: Vec<&Export> = exports.iter().filter(|export| export.is_named(function)).collect();
    match candidates.as_slice() {
        [export] => Ok(export),
        [] => Err(InvokeError::NoSuchFunction {
            name: component.to_owned(),
            function: function.to_owned(),
            exports: exports.to_vec(),
        }),
        _ => Err(InvokeError::Ambiguous {
            function: function.to_owned(),
            candidates: candidates.iter().map(|export| export.name.clone()).collect(),
        }),
    }
}
