//! TypeScript: removes a script's types before the interpreter runs it.
//!
//! swc's `swc_ts_fast_strip` overwrites the types with whitespace, so that every line and column stays in place. Its
//! parser recurses as deeply as the source is nested, and its memory use is unbounded. The stripper is therefore not
//! linked into this program, but runs as a WebAssembly module, which is pinned and fetched like the interpreters. Each
//! script is processed in a separate instance under the script's own limits on fuel, time and memory, on a guest stack.
//! The cost is charged to the script.

mod values;

use std::fmt::Display;

use glovebox_core::{GuestState, clipped};
use glovebox_interpreters::Diagnostic;
use glovebox_runtimes::{Artefact, ArtefactKey, CacheKind, Digest, ImageRecord, NewArtefact, ToolEntry};
use glovebox_wasi::Stop;
use glovebox_weave::Counter;
use values::{Glue, InvalidCall, Value};
use wasmtime::{Instance, InstancePre, Linker, Store, UpdateDeadline};

use crate::{
    ExecuteError, Language, Metering, Outcome, Policy, RaisedOutcome, Resource, RuntimeError, SourceKind, TrapKind,
    engine::EngineInner,
    exec::{
        platform::ExecutionCtx,
        request::RequestParts,
        run::{PreparedRequest, Rejection, Translation},
    },
    guest::{
        fuel::{self, Fuel},
        recycled::{EarlyEnd, classify},
    },
    load::{aot, resolve::artefact_key},
};

/// Maximum length of an error message, which can contain names from the script.
const MAX_MESSAGE_CHARS: usize = 1_000;

/// Returns the kind of a TypeScript source, or `None` if `name` does not end in a TypeScript extension. The extension
/// determines the kind only if `kind` is `Detect`.
fn kind_of(name: &str, kind: SourceKind) -> Option<SourceKind> {
    let (_, extension) = name.rsplit_once('.')?;
    let own = match extension.to_ascii_lowercase().as_str() {
        "ts" => SourceKind::Detect,
        "mts" => SourceKind::Module,
        "cts" => SourceKind::Script,
        _ => return None,
    };
    Some(if kind == SourceKind::Detect { own } else { kind })
}

/// An error in a script, with its position.
#[derive(Debug)]
struct ScriptError {
    message: String,
    /// The line, counted from 1. `None` if the error concerns the whole script.
    line: Option<u32>,
    /// The column in code points, counted from 1.
    column: u32,
}

impl ScriptError {
    /// Creates an error about the whole script.
    fn whole(message: &str) -> Self {
        Self { message: message.to_owned(), line: None, column: 1 }
    }

    /// Creates an error at a position. Truncates the message to [`MAX_MESSAGE_CHARS`].
    fn at(message: &str, line: Option<u32>, column: u32) -> Self {
        Self { message: message.chars().take(MAX_MESSAGE_CHARS).collect(), line, column }
    }

    /// Converts the error to a rejection of the script, with the outcome and the diagnostic that the interpreter
    /// reports for a syntax error.
    fn rejection(self, name: &str, fuel: u64) -> Rejection {
        let Self { message, line, column } = self;
        let place = line.map_or_else(String::new, |line| format!("\n    at {name}:{line}:{column}"));
        let raised = RaisedOutcome {
            type_name: "SyntaxError".into(),
            traceback: format!("SyntaxError: {message}{place}"),
            message,
            line,
        };
        let message = format!("SyntaxError: {}", raised.message);
        Rejection {
            diagnostic: Diagnostic { line: line.unwrap_or(1), column, message },
            outcome: Outcome::Raised(raised),
            after: GuestState::Alive,
            charge: fuel,
        }
    }
}

/// Translates a request for its interpreter: removes the types if the sandbox runs JavaScript and the script's name has
/// a TypeScript extension. The cost is charged to the script's limits, except for fetching and compiling the stripper.
pub(crate) fn translate(request: PreparedRequest<'_>) -> Result<PreparedRequest<'_>, ExecuteError> {
    let is_javascript = request.sandbox.language() == Language::JavaScript;
    match kind_of(&request.parts.name, request.parts.kind).filter(|_| is_javascript) {
        Some(kind) => {
            let translation = strip(&request, kind)?;
            Ok(request.translated(translation))
        }
        None => Ok(request),
    }
}

fn strip(request: &PreparedRequest<'_>, kind: SourceKind) -> Result<Translation, ExecuteError> {
    let engine = &request.sandbox.0.engine.0;
    let stripper = engine.stripper().map_err(|source| ExecuteError::TypeScript {
        name: clipped(&request.parts.name).to_owned(),
        source: Box::new(source),
    })?;
    let ctx = request.ctx();
    let begun = *ctx.watch();
    let (source, fuel) = engine
        .on_stack(|| stripper.strip(request, kind, ctx))?
        .map_err(|reason| ExecuteError::Instantiate { reason })?;
    Ok(Translation { source, kind, fuel, begun })
}

/// Returns the rejection of a script whose types could not be removed because the stripper was stopped. After a
/// cancellation or timeout, the fuel used is only a lower bound, so the whole budget is charged.
fn rejection_of_stop(outcome: Outcome, fuel: u64) -> Rejection {
    let is_known = !matches!(outcome, Outcome::Cancelled | Outcome::Exhausted { resource: Resource::Time, .. });
    let message = format!("the parser was stopped: {}", outcome.describe());
    Rejection {
        outcome,
        diagnostic: Diagnostic { line: 1, column: 1, message },
        after: GuestState::Untouched,
        charge: if is_known { fuel } else { u64::MAX },
    }
}

// The stripper is a WebAssembly module that is fetched, compiled and cached like interpreters. Each call uses a new
// instance.

/// The module that removes types from TypeScript, linked with its imports and ready to instantiate.
pub(crate) struct Stripper(InstancePre<Glue>);

impl Stripper {
    /// Removes the types from a request's source. Returns the fuel used, and either JavaScript with unchanged lines and
    /// columns or the script's rejection. Must be called on a guest stack.
    fn strip(
        &self,
        request: &PreparedRequest<'_>,
        kind: SourceKind,
        ctx: ExecutionCtx,
    ) -> Result<(Result<String, Rejection>, u64), String> {
        let RequestParts { source, name, .. } = &request.parts;
        let Policy { limits, metering, .. } = &request.sandbox.0.policy;
        let fuel = match metering {
            Metering::Fuel => request.options.budget.fuel_within_budget(limits.fuel),
            Metering::None => 0,
        };
        let glue = Glue::new(source.len(), limits.memory_bytes, Fuel::new(*metering, fuel), ctx);
        let mut store = Store::new(self.0.module().engine(), glue);
        store.limiter(|glue| &mut glue.limiter);
        if *metering == Metering::None {
            store.set_epoch_deadline(1);
            store.epoch_deadline_callback(|context| {
                context.data().check()?;
                Ok(UpdateDeadline::Continue(1))
            });
        }
        let result = self.0.instantiate(&mut store).and_then(|instance| {
            fuel::attach(&mut store, &instance);
            store.data().check()?;
            transform(&mut store, &instance, source, name, kind)
        });
        let used = fuel.saturating_sub(fuel::left(&mut store));
        let glue = store.data();
        let error = match result {
            Ok(value) => {
                let stripped = interpret_result(&value, source);
                return Ok((stripped.map_err(|error| error.rejection(name, used)), used));
            }
            Err(error) => error,
        };
        let words = format!("{error:#}");
        let wrong = |message| ScriptError::whole(message).rejection(name, used);
        let exhausted = |resource, limit, used| Outcome::Exhausted { resource, limit, used };
        let rejection = match (classify(error), glue.limiter.memory.refused_bytes()) {
            // The module traps when it runs out of memory.
            (EarlyEnd::Trapped(_), Some(wanted)) => {
                rejection_of_stop(exhausted(Resource::Memory, limits.memory_bytes, wanted), used)
            }
            (EarlyEnd::Trapped(TrapKind::StackOverflow | TrapKind::OutOfBounds), None) => {
                wrong("cannot remove the types: the script is nested too deeply")
            }
            (EarlyEnd::Trapped(TrapKind::Unreachable), None) => {
                wrong("cannot remove the types: the TypeScript parser crashed")
            }
            // Instantiation failed, or the module trapped in an unexpected way.
            (EarlyEnd::Trapped(_), None) => return Err(words),
            (EarlyEnd::Stopped(Stop::Deadline), _) => {
                let ms = u64::try_from(glue.ctx.elapsed().as_millis()).unwrap_or(u64::MAX);
                rejection_of_stop(exhausted(Resource::Time, limits.timeout_ms, ms), used)
            }
            (EarlyEnd::Stopped(Stop::Cancelled), _) => rejection_of_stop(Outcome::Cancelled, used),
            (EarlyEnd::Stopped(_), _) => rejection_of_stop(exhausted(Resource::Fuel, fuel, fuel), used),
        };
        Ok((Err(rejection), used))
    }
}

/// Calls `transformSync(source, { mode: "strip-only", … })` like the JavaScript code of the npm package. Returns the
/// result or the thrown error.
fn transform(
    store: &mut Store<Glue>,
    instance: &Instance,
    source: &str,
    name: &str,
    kind: SourceKind,
) -> wasmtime::Result<Value> {
    // `undefined` requests detection of the kind.
    let module = match kind {
        SourceKind::Detect => Value::Undefined,
        SourceKind::Script => Value::Bool(false),
        SourceKind::Module => Value::Bool(true),
    };
    let options = [
        ("mode", Value::Text("strip-only".into())),
        ("filename", Value::Text(name.to_owned())),
        ("module", module),
        ("sourceMap", Value::Bool(false)),
    ];
    let options = options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let values = &mut store.data_mut().values;
    let source = values.add(Value::Text(source.to_owned()))?;
    let options = values.add(Value::Object(options))?;
    let stack = instance.get_typed_func::<i32, u32>(&mut *store, "__wbindgen_add_to_stack_pointer")?;
    let transform = instance.get_typed_func::<(u32, u32, u32), ()>(&mut *store, "transformSync")?;
    let memory = instance.get_memory(&mut *store, "memory").ok_or(InvalidCall::Memory)?;
    let ret = stack.call(&mut *store, -16)?;
    transform.call(&mut *store, (ret, source, options))?;
    let mut words = [0; 12];
    memory.read(&*store, ret as usize, &mut words)?;
    let [given, thrown, is_thrown] = [0, 4, 8].map(|at| {
        let word = words.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        u32::from_le_bytes(word)
    });
    Ok(store.data_mut().values.take(if is_thrown == 0 { given } else { thrown })?)
}

/// Interprets the value that the stripper returned or threw.
fn interpret_result(value: &Value, source: &str) -> Result<String, ScriptError> {
    match value.property("code") {
        // An error also has a `code`, such as `InvalidSyntax`, but always has a `message` too.
        Value::Text(code) if value.property("message") == Value::Undefined => {
            if lines(&code) == lines(source) {
                return Ok(code);
            }
            Err(ScriptError::whole("cannot remove the types without moving lines"))
        }
        _ => {
            let message = value.property("message");
            let message = message.text().or(value.text()).unwrap_or("cannot remove the types");
            let line = value.property("startLine").count().filter(|line| *line > 0);
            // The stripper counts columns from 0.
            let column = value.property("startColumn").count().unwrap_or(0).saturating_add(1);
            Err(ScriptError::at(message, line, column))
        }
    }
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// The name of the stripper in the manifest.
const TOOL: &str = "typescript";

impl EngineInner {
    /// Returns the stripper. Fetches, compiles and loads it first if necessary.
    pub(crate) fn stripper(&self) -> Result<&Stripper, RuntimeError> {
        if let Some(stripper) = self.stripper.get() {
            return Ok(stripper);
        }
        let missing = || RuntimeError::Load { name: TOOL.into(), reason: "the manifest has no such tool".into() };
        let tool = self.runtimes.manifest().tool(TOOL).ok_or_else(missing)?;
        let artefact = self.tool_artefact(tool)?;
        let module = aot::load(&self.wasmtime, artefact.aot).map_err(|error| wrong(tool, &error))?;
        let mut linker = Linker::new(&self.wasmtime);
        let defined = fuel::define_refuel(&mut linker).and_then(|()| values::define_glue(&mut linker, &module));
        defined.map_err(|error| wrong(tool, &error))?;
        let pre = linker.instantiate_pre(&module).map_err(|error| wrong(tool, &error))?;
        // If two threads load the stripper concurrently, the first result is used.
        Ok(self.stripper.get_or_init(|| Stripper(pre)))
    }

    /// Returns a tool's compiled code. Fetches and compiles the tool first if its code is not in the cache.
    pub(crate) fn tool_artefact(&self, tool: &ToolEntry) -> Result<Artefact, RuntimeError> {
        self.open_or_prepare(&tool.name, CacheKind::Images, &self.tool_key(tool), || self.build_tool(tool))
    }

    /// Returns `true` if a tool's compiled code is in the cache.
    pub(crate) fn is_tool_prepared(&self, tool: &ToolEntry) -> Result<bool, RuntimeError> {
        Ok(self.runtimes.prepared().open(&self.tool_key(tool))?.is_some())
    }

    /// Returns the cache key of a tool's compiled code.
    pub(crate) fn tool_key(&self, tool: &ToolEntry) -> ArtefactKey {
        let recipe = Digest::of(b"a tool that counts its fuel");
        artefact_key(&self.wasmtime, tool.label(), tool.sha256, recipe)
    }

    fn build_tool(&self, tool: &ToolEntry) -> Result<NewArtefact, RuntimeError> {
        let module = self.runtimes.load_or_fetch_tool(tool, &*self.progress)?;
        self.progress.message(&format!("compiling `{}`", tool.name));
        let module = fuel::add_metering(self.metering, module, Counter::Own).map_err(|error| wrong(tool, &error))?;
        // Compiling recurses deeply, and the caller's thread may have a small stack.
        let aot = self.stacks.run(|| aot::compile(&self.wasmtime, &module)).map_err(RuntimeError::Stack)?;
        let aot = aot.map_err(|error| wrong(tool, &error))?;
        Ok(NewArtefact { aot, record: ImageRecord::of_code(tool.sha256) })
    }
}

fn wrong(tool: &ToolEntry, error: &dyn Display) -> RuntimeError {
    RuntimeError::Load { name: tool.name.clone(), reason: format!("{error:#}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_extension_selects_the_typescript_kind() {
        use SourceKind::{Detect, Module, Script};
        let table = [
            ("x.ts", Detect, Some(Detect)),
            ("x.ts", Module, Some(Module)),
            ("a.b/x.mts", Detect, Some(Module)),
            ("x.CTS", Detect, Some(Script)),
            ("x.mts", Script, Some(Script)),
            ("x.tsx", Detect, None),
            ("x.js", Detect, None),
            ("ts", Detect, None),
            ("<sandbox>", Detect, None),
            ("x.ts/y", Detect, None),
        ];
        for (name, kind, expected) in table {
            assert_eq!(kind_of(name, kind), expected, "{name}");
        }
    }

    #[test]
    fn typescript_errors_use_the_interpreters_format() {
        let raised = |rejection: &Rejection| rejection.outcome.raised().cloned().unwrap();
        let at_a_place = ScriptError::at("no", Some(3), 7).rejection("x.ts", 5);
        let exception = raised(&at_a_place);
        assert_eq!(exception.traceback, "SyntaxError: no\n    at x.ts:3:7");
        assert_eq!((exception.type_name.as_str(), exception.line), ("SyntaxError", Some(3)));
        let diagnostic = Diagnostic { line: 3, column: 7, message: "SyntaxError: no".into() };
        assert_eq!((at_a_place.diagnostic, at_a_place.charge), (diagnostic, 5));
        assert_eq!(raised(&ScriptError::whole("no").rejection("x.ts", 5)).traceback, "SyntaxError: no");
    }

    #[test]
    fn long_message_is_truncated() {
        for (chars, held) in [(999, 999), (1000, 1000), (1001, 1000)] {
            assert_eq!(ScriptError::at(&"é".repeat(chars), None, 1).message.chars().count(), held);
        }
    }
}
