//! Components that provide tools for scripts.

use std::{fmt, path::Path, sync::Arc, time::Instant};

use glovebox::{Resource, Tool, ToolCall, ToolError, ToolErrorKind, json_weight};
use wasmtime::component::{InstancePre, Val};

use crate::{
    AppConfig, AppOutcome, Applications, Export, LoadError, RunError,
    applications::{WasiComponent, read},
    run::{Call, Job, run},
    store::StoreState,
};

/// The prefix of the interface that a tools component exports. Any patch version matches.
const INTERFACE: &str = "glovebox:sandbox/tools@0.2.";

/// The prefix of the asynchronous interface, whose calls have a third argument. A component that exports both is called
/// through this one.
const CONCURRENT_INTERFACE: &str = "glovebox:sandbox/tools@0.3.";

/// Maximum number of tools in a component, as documented in `wit/tools.wit`.
const MAX_TOOLS: usize = 1_024;

/// Maximum total size of a component's schemas as parsed values, in bytes. The same limit applies to tools that a
/// caller defines.
const MAX_SCHEMAS_WEIGHT: u64 = 32 << 20;

/// A component of the `tool-provider` world, of version 0.2.0 or of the draft of version 0.3.0. Scripts can call the
/// tools that it exports.
///
/// Each call runs in a new instance, with the limits of `config` and the deadline of the call. Calls can therefore run
/// concurrently, and scripts cannot see each other's data. A trap ends only its own call: the script receives a
/// `ToolError`. A component that has to store data between calls needs a granted directory or the network.
///
/// The component cannot import the sandbox.
#[derive(Clone)]
pub struct ToolsComponent {
    provider: Arc<Provider>,
    tools: Vec<Tool>,
}

impl fmt::Debug for ToolsComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsComponent").field("name", &self.provider.name).field("tools", &self.tools).finish()
    }
}

struct Provider {
    name: String,
    instance: InstancePre<StoreState<()>>,
    instance_bytes: u64,
    call: Export,
    /// `true` if the interface has version 0.3.
    takes_info: bool,
    config: AppConfig,
}

impl ToolsComponent {
    /// Loads a component from a file and calls it to list its tools.
    ///
    /// [`AppLimits::for_tools`](crate::AppLimits::for_tools) returns suitable limits for `config`. If standard input
    /// is [`Input::Bytes`](crate::Input::Bytes), each call reads the bytes from the beginning.
    ///
    /// # Errors
    /// Fails like [`Applications::load`], and with [`LoadError::NoTools`] if the component does not export the
    /// interface `tools`. Also fails if the list of its tools cannot be read or is invalid.
    pub fn load(applications: &Applications, path: impl AsRef<Path>, config: AppConfig) -> Result<Self, LoadError> {
        let (name, bytes) = read(path.as_ref())?;
        Self::load_bytes(applications, name, &bytes, config)
    }

    /// Like [`load`](Self::load), but for a component that is already in memory.
    ///
    /// # Errors
    /// Fails like [`load`](Self::load).
    pub fn load_bytes(
        applications: &Applications,
        name: impl Into<String>,
        bytes: &[u8],
        config: AppConfig,
    ) -> Result<Self, LoadError> {
        let name = name.into();
        let loaded = applications.load_wasi_component(&name, bytes)?;
        let functions = |interface: &str| {
            let function = |function: &str| {
                let mut exports = loaded.exports.iter();
                exports.find(|export| export.name.starts_with(interface) && export.function == function).cloned()
            };
            Some((function("list-tools")?, function("call")?))
        };
        let concurrent = functions(CONCURRENT_INTERFACE);
        let takes_info = concurrent.is_some();
        let Some((list, call)) = concurrent.or_else(|| functions(INTERFACE)) else {
            return Err(LoadError::NoTools { name });
        };
        let WasiComponent { instance, instance_bytes, .. } = loaded;
        let provider = Arc::new(Provider { name, instance, instance_bytes, call, takes_info, config });
        let wrong = |reason: String| LoadError::ToolList { name: provider.name.clone(), reason };
        let listed = provider.enter(&list, Vec::new(), None).map_err(|error| wrong(error.to_string()))?;
        let listed = listed.map_err(|outcome| wrong(outcome.describe()))?;
        let tools = match listed {
            Some(Val::List(tools)) if tools.len() <= MAX_TOOLS => tools,
            Some(Val::List(tools)) => {
                return Err(wrong(format!("it lists {} tools; the maximum is {MAX_TOOLS}", tools.len())));
            }
            _ => return Err(wrong("its `list-tools` has an unexpected type".into())),
        };
        let schemas = tools.iter().filter_map(schema);
        let weight = schemas.fold(0u64, |sum, text| sum.saturating_add(json_weight(text.as_bytes())));
        if weight > MAX_SCHEMAS_WEIGHT {
            return Err(wrong(format!(
                "its schemas need up to {weight} bytes of memory when parsed; the maximum is {MAX_SCHEMAS_WEIGHT}; offer \
                 fewer tools or simpler schemas"
            )));
        }
        let tools = tools.into_iter().map(|tool| tool_of(&provider, tool).map_err(wrong)).collect::<Result<_, _>>()?;
        Ok(Self { provider, tools })
    }

    /// Returns the tools to register in a [`SandboxHostBuilder`](glovebox_component_host::SandboxHostBuilder::tool) or a
    /// [`SandboxBuilder`](glovebox::SandboxBuilder::tool).
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        self.tools.clone()
    }
}

impl Provider {
    /// Calls an export. Returns its result, or the outcome that ended the call.
    fn enter(
        &self,
        function: &Export,
        arguments: Vec<Val>,
        call: Option<&ToolCall>,
    ) -> Result<Result<Option<Val>, AppOutcome>, RunError> {
        let config = &self.config;
        let done = run(Job {
            instance: self.instance.clone(),
            instance_bytes: self.instance_bytes,
            state: StoreState::new(config, ())?,
            call: Call { function: function.index, arguments, result_count: function.result_count },
            limits: config.limits.clone(),
            deadline: call.map(|call| call.deadline),
            cancel: call.map_or_else(|| config.cancel.clone(), |call| call.cancel.clone()),
            scripts: None,
        })?;
        Ok(done.result.map(|values| values.into_iter().next()))
    }
}

/// Returns the schema text from a component's description of a tool.
fn schema(described: &Val) -> Option<&String> {
    let Val::Record(fields) = described else { return None };
    fields.iter().find_map(|(field, value)| match (field.as_str(), value) {
        ("arguments-schema", Val::Option(Some(text))) => match &**text {
            Val::String(text) => Some(text),
            _ => None,
        },
        _ => None,
    })
}

/// Converts a component's description of a tool to a tool that calls the component.
fn tool_of(provider: &Arc<Provider>, described: Val) -> Result<Tool, String> {
    let Val::Record(fields) = described else { return Err("one of its tools is not a record".into()) };
    let (mut name, mut description, mut schema) = (None, None, None);
    for (field, value) in fields {
        match (field.as_str(), value) {
            ("name", Val::String(text)) => name = Some(text),
            ("description", Val::String(text)) => description = Some(text),
            ("arguments-schema", Val::Option(Some(text))) => schema = Some(text),
            _ => {}
        }
    }
    let (Some(name), Some(description)) = (name, description) else {
        return Err("one of its tools has no name or description".into());
    };
    let mut tool = Tool::new(&name, description);
    if let Some(Val::String(text)) = schema.as_deref() {
        let wrong = |error| format!("the schema of its tool `{name}` is not JSON: {error}");
        tool = tool.schema(serde_json::from_str(text).map_err(wrong)?);
    }
    let provider = Arc::clone(provider);
    Ok(tool.text_handler(move |call, arguments| provider.answer(call, arguments)))
}

impl Provider {
    /// Calls the component for one tool call and returns its result, which should be JSON.
    fn answer(&self, call: &ToolCall, arguments: String) -> Result<String, ToolError> {
        let mut given = vec![Val::String(call.name.clone()), Val::String(arguments)];
        if self.takes_info {
            given.push(info(call));
        }
        let returned = match self.enter(&self.call, given, Some(call)) {
            Ok(Ok(returned)) => returned,
            // The script receives no details, because a trap message can contain the component's internals.
            Ok(Err(outcome)) => {
                tracing::warn!(tool = call.name, component = self.name, "{}", outcome.describe());
                return Err(ended_early(&outcome));
            }
            Err(error) => {
                tracing::warn!(tool = call.name, component = self.name, "{error}");
                return Err(format!("tool `{}` cannot be called; see the host's log", call.name).into());
            }
        };
        match returned {
            Some(Val::Result(Ok(Some(value)))) => match *value {
                Val::String(text) => Ok(text),
                _ => Err(format!("the answer from tool `{}` is not text", call.name).into()),
            },
            Some(Val::Result(Err(Some(failure)))) => Err(failed(*failure)),
            _ => Err(format!("the answer from tool `{}` has an unexpected type", call.name).into()),
        }
    }
}

/// Returns the WIT `call-info` record of a call.
fn info(call: &ToolCall) -> Val {
    let some = |value| Val::Option(Some(Box::new(value)));
    let left = call.deadline.saturating_duration_since(Instant::now());
    let fields = [
        ("id", Val::U64(u64::try_from(call.index).unwrap_or(u64::MAX))),
        ("session-id", call.session_id.clone().map_or(Val::Option(None), |id| some(Val::String(id)))),
        ("timeout-ms", some(Val::U64(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)))),
    ];
    Val::Record(fields.map(|(name, value)| (name.to_owned(), value)).into())
}

/// Returns the error that the script receives for a call that did not return.
fn ended_early(outcome: &AppOutcome) -> ToolError {
    let (kind, message) = match outcome {
        AppOutcome::Exhausted { resource: Resource::Fuel, .. } => (ToolErrorKind::Limit, "the tool ran out of fuel"),
        AppOutcome::Exhausted { resource: Resource::Time, .. } => (ToolErrorKind::Timeout, "the tool ran out of time"),
        AppOutcome::Exhausted { .. } => (ToolErrorKind::Limit, "the tool ran out of memory"),
        AppOutcome::Cancelled => (ToolErrorKind::Failed, "the call was cancelled"),
        _ => (ToolErrorKind::Failed, "the tool trapped"),
    };
    ToolError::of(kind, message)
}

/// Converts a WIT `call-failure` record to an error for the script.
fn failed(failure: Val) -> ToolError {
    let Val::Record(fields) = failure else { return "the tool's failure has an unexpected type".into() };
    let (mut kind, mut message) = (ToolErrorKind::Failed, String::new());
    for (field, value) in fields {
        match (field.as_str(), value) {
            ("message", Val::String(text)) => message = text,
            ("kind", Val::Enum(name)) => {
                kind = match name.as_str() {
                    "limit" => ToolErrorKind::Limit,
                    "timeout" => ToolErrorKind::Timeout,
                    "unknown" => ToolErrorKind::Unknown,
                    "invalid-arguments" => ToolErrorKind::InvalidArguments,
                    "denied" => ToolErrorKind::Denied,
                    _ => ToolErrorKind::Failed,
                }
            }
            _ => {}
        }
    }
    ToolError::of(kind, message)
}
