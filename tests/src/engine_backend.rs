//! The Rust engine as a backend.

use std::{
    collections::BTreeMap,
    env,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::Duration,
};

use glovebox::{Engine, EngineConfig, FileEntry, Files, Language, Packages, RuntimeInfo, Sandbox, Tool, ToolError};

use crate::{
    Action, Backend, Case, DiagnosticSeen, Operation, Step, StepResult,
    engine_sessions::EngineSessions,
    engine_steps::{SuspendingRunner, request, seen},
    programs::whole_matrix,
};

/// Returns the cache directory of prepared runtimes: `GLOVEBOX_CACHE_DIR`, or `None` for the engine's default.
pub fn shared_cache_dir() -> Option<PathBuf> {
    env::var_os("GLOVEBOX_CACHE_DIR").map(PathBuf::from)
}

/// Returns the configuration of the tests' engines. The default Python is the version in provider components, because
/// tests compare the engine's results with a provider's.
pub fn engine_config() -> EngineConfig {
    let mut config = EngineConfig::default();
    config.cache_dir = shared_cache_dir();
    config.default_runtimes = vec![PORTABLE_PYTHON.into()];
    config.network = Some(Arc::new(glovebox_network::Http));
    config
}

/// The Python version of provider components.
pub const PORTABLE_PYTHON: &str = "python-3.12";

/// Returns the engine that all tests of this program share.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(engine_config()).expect("the engine starts"))
}

/// Returns an engine without packages. Provider components are woven from its images.
pub fn bare_engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut config = engine_config();
        config.packages = Packages::None;
        Engine::new(config).expect("the engine starts")
    })
}

/// Creates a separate engine without a pool. `None` selects the shared cache directory.
pub fn lone_engine(cache_dir: Option<PathBuf>) -> Engine {
    let mut config = engine_config();
    config.pool = None;
    config.cache_dir = cache_dir.or(config.cache_dir);
    Engine::new(config).expect("the engine starts")
}

/// The backend that runs cases through the `glovebox` crate.
#[derive(Debug, Default)]
pub struct EngineBackend {
    runtime: Option<String>,
    is_bare: bool,
    /// `true` if executions are suspended and resumed whenever they wait for tools.
    suspends: bool,
    /// The open sandboxes of cases without workspace files. Reusing them avoids mapping a runtime's code for every
    /// case.
    sandboxes: Mutex<BTreeMap<(Language, String), Sandbox>>,
}

/// The maximum size of a small runtime, in bytes. Larger ones take minutes to download and compile the first time.
const LARGE_BYTES: u64 = 64 << 20;

/// Returns the runtimes to test: the small ones on every push, and the large ones in the full matrix or if they are
/// prepared.
pub fn tested_runtimes() -> Vec<RuntimeInfo> {
    let runtimes = engine().runtimes().expect("the manifest can be read").into_iter();
    runtimes.filter(|runtime| !is_large(runtime) || runtime.prepared || whole_matrix()).collect()
}

/// Returns `true` if a runtime takes minutes to download and compile.
pub fn is_large(runtime: &RuntimeInfo) -> bool {
    runtime.size_bytes > LARGE_BYTES
}

impl EngineBackend {
    /// Uses a runtime in the manifest instead of the language's default.
    pub fn of_runtime(name: &str) -> Self {
        Self { runtime: Some(name.to_owned()), ..Self::default() }
    }

    /// Uses the engine without packages.
    #[must_use]
    pub fn without_packages(self) -> Self {
        Self { is_bare: true, ..self }
    }

    /// Suspends and resumes executions whenever they wait for tools.
    #[must_use]
    pub fn suspending(self) -> Self {
        Self { suspends: true, ..self }
    }

    /// Compares a recycled instance of the case's sandbox with a new instance.
    ///
    /// # Errors
    /// Fails if the instances differ, with a readable list of the differences.
    pub fn compare_recycled(&self, case: &Case) -> Result<(), String> {
        match self.sandbox(case) {
            Ok(sandbox) => sandbox.compare_recycled().map(drop),
            // The case expects that the sandbox cannot be opened.
            Err(_) => Ok(()),
        }
    }

    fn engine(&self) -> &'static Engine {
        if self.is_bare { bare_engine() } else { engine() }
    }

    fn sandbox(&self, case: &Case) -> Result<Sandbox, String> {
        let key = (case.language, case.policy.to_toml().map_err(|error| error.to_string())?);
        let shared = case.files.is_empty() && case.tools.is_empty();
        if shared && let Some(sandbox) = self.sandboxes.lock().expect("the mutex is not poisoned").get(&key) {
            return Ok(sandbox.clone());
        }
        let sandbox = self.build(case)?;
        if shared {
            self.sandboxes.lock().expect("the mutex is not poisoned").insert(key, sandbox.clone());
        }
        Ok(sandbox)
    }

    fn build(&self, case: &Case) -> Result<Sandbox, String> {
        let mut builder = Sandbox::builder(self.engine()).language(case.language).policy(case.policy.clone());
        if let Some(runtime) = &self.runtime {
            builder = builder.runtime(runtime);
        }
        for (name, bytes) in &case.files {
            builder = builder.file(name, bytes.clone());
        }
        for (name, tool) in &case.tools {
            let answers = tool.clone();
            let mut made = Tool::new(name, &tool.description);
            made = if self.suspends {
                made.stepped()
            } else {
                made.text_handler(move |_, arguments| {
                    thread::sleep(Duration::from_millis(answers.delay_ms));
                    answers.answer(arguments).map_err(ToolError::from)
                })
            };
            if let Some(schema) = &tool.schema {
                made = made.schema(serde_json::from_str(schema).map_err(|error| format!("`{name}`: {error}"))?);
            }
            builder = builder.tool(made);
        }
        builder.build().map_err(|error| error.to_string())
    }

    /// Runs a step in a fresh interpreter.
    fn fresh(&self, sandbox: &Sandbox, case: &Case, step: &Step) -> StepResult {
        let Action::Run { source, request: case_request } = &step.action else {
            return StepResult::Refused("only a session can do this".into());
        };
        let request = request(source, case_request);
        if case_request.operation == Operation::Execute && self.suspends {
            return match SuspendingRunner::new(sandbox, case).run(None, request) {
                Ok(execution) => seen(&execution, step),
                Err(error) => StepResult::Refused(error.to_string()),
            };
        }
        if case_request.operation == Operation::Execute {
            return match sandbox.run(request) {
                Ok(execution) => seen(&execution, step),
                Err(error) => StepResult::Refused(error.to_string()),
            };
        }
        match sandbox.validate_request(request) {
            Ok(found) => StepResult::Validated(
                found
                    .into_iter()
                    .map(|each| DiagnosticSeen { line: each.line, column: each.column, message: each.message })
                    .collect(),
            ),
            Err(error) => StepResult::Refused(error.to_string()),
        }
    }

    /// Runs each step in a fresh interpreter that has the files of the previous step.
    fn carried(&self, case: &Case) -> Vec<StepResult> {
        let (mut case, steps) = (case.clone(), case.steps.clone());
        let one = |step: &Step| {
            let sandbox = match self.build(&case) {
                Ok(sandbox) => sandbox,
                Err(error) => return StepResult::Refused(error),
            };
            let Action::Run { source, request: case_request } = &step.action else {
                return StepResult::Refused("only a session can do this".into());
            };
            match sandbox.run(request(source, case_request)) {
                Ok(execution) => {
                    case.files = all_of(execution.files());
                    seen(&execution, step)
                }
                Err(error) => StepResult::Refused(error.to_string()),
            }
        };
        steps.iter().map(one).collect()
    }
}

/// Returns all files in a workspace. Ignores empty directories.
fn all_of(files: &Files) -> BTreeMap<String, Vec<u8>> {
    let listed = files.list("**").expect("a workspace can be listed");
    let bytes = |entry: FileEntry| Some((entry.path.clone(), files.read(&entry.path).ok()?));
    listed.into_iter().filter_map(bytes).collect()
}

impl Backend for EngineBackend {
    fn run(&self, case: &Case) -> Vec<StepResult> {
        let refused = |error: String| case.steps.iter().map(|_| StepResult::Refused(error.clone())).collect();
        let sandbox = match self.sandbox(case) {
            Ok(sandbox) => sandbox,
            Err(error) => return refused(error),
        };
        if case.carry {
            return self.carried(case);
        }
        if !case.in_session {
            return case.steps.iter().map(|step| self.fresh(&sandbox, case, step)).collect();
        }
        let mut sessions = match EngineSessions::open(sandbox.clone(), case, self.suspends) {
            Ok(sessions) => sessions,
            Err(error) => return refused(error),
        };
        let one = |step: &Step| match &step.action {
            Action::Run { request, .. } if request.operation == Operation::Validate => self.fresh(&sandbox, case, step),
            _ => sessions.step(step),
        };
        case.steps.iter().map(one).collect()
    }
}
