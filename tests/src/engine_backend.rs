//! The Rust engine as a backend.

use std::{
    collections::BTreeMap,
    env,
    path::PathBuf,
    sync::{Mutex, OnceLock},
};

use glovebox::{Engine, EngineConfig, ExecuteError, Execution, Language, Request, Sandbox, SourceKind};

use crate::{Backend, Case, DiagnosticSeen, Operation, Step, StepResult};

/// Where prepared runtimes are kept: `GLOVEBOX_CACHE_DIR`, or the engine's own default.
#[must_use]
pub fn shared_cache_dir() -> Option<PathBuf> {
    env::var_os("GLOVEBOX_CACHE_DIR").map(PathBuf::from)
}

/// The one engine of this test program.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut config = EngineConfig::default();
        config.cache_dir = shared_cache_dir();
        Engine::new(config).expect("the engine starts")
    })
}

/// An engine of one's own, without a pool, over the same cache or another one.
#[must_use]
pub fn lone_engine(cache_dir: Option<PathBuf>) -> Engine {
    let mut config = EngineConfig::default();
    config.pool = None;
    config.cache_dir = cache_dir.or_else(shared_cache_dir);
    Engine::new(config).expect("the engine starts")
}

/// Runs cases through the crate `glovebox`.
#[derive(Debug, Default)]
pub struct EngineBackend {
    runtime: Option<String>,
    /// Loading a runtime maps its code: sandboxes without files of their own are shared.
    sandboxes: Mutex<BTreeMap<(Language, String), Sandbox>>,
}

impl EngineBackend {
    /// Another runtime of the manifest than the language's default.
    #[must_use]
    pub fn of_runtime(name: &str) -> Self {
        Self { runtime: Some(name.to_owned()), sandboxes: Mutex::default() }
    }

    fn sandbox(&self, case: &Case) -> Result<Sandbox, String> {
        let key = (case.language, case.policy.to_toml());
        let shared = case.files.is_empty();
        if shared && let Some(sandbox) = self.sandboxes.lock().expect("no panic holds it").get(&key) {
            return Ok(sandbox.clone());
        }
        let sandbox = build(self.runtime.as_deref(), case)?;
        if shared {
            self.sandboxes.lock().expect("no panic holds it").insert(key, sandbox.clone());
        }
        Ok(sandbox)
    }
}

fn build(runtime: Option<&str>, case: &Case) -> Result<Sandbox, String> {
    let mut builder = Sandbox::builder(engine()).language(case.language).policy(case.policy.clone());
    if let Some(runtime) = runtime {
        builder = builder.runtime(runtime);
    }
    for (name, bytes) in &case.files {
        builder = builder.file(name, bytes.clone());
    }
    builder.build().map_err(|error| error.to_string())
}

impl Backend for EngineBackend {
    fn run(&self, case: &Case) -> Vec<StepResult> {
        let sandbox = match self.sandbox(case) {
            Ok(sandbox) => sandbox,
            Err(error) => return case.steps.iter().map(|_| StepResult::Refused(error.clone())).collect(),
        };
        let session = case.kept.then(|| sandbox.session().expect("a session opens"));
        let mut results = Vec::new();
        for step in &case.steps {
            if step.request.operation == Operation::Validate {
                results.push(match sandbox.validate_request(request(step)) {
                    Ok(found) => StepResult::Validated(
                        found
                            .into_iter()
                            .map(|each| DiagnosticSeen { line: each.line, column: each.column, message: each.message })
                            .collect(),
                    ),
                    Err(error) => StepResult::Refused(error.to_string()),
                });
                continue;
            }
            let names: Vec<&String> = step.expect.files.keys().collect();
            results.push(seen(
                match &session {
                    Some(session) => session.run(request(step)),
                    None => sandbox.run(request(step)),
                },
                &names,
            ));
        }
        results
    }
}

fn request(step: &Step) -> Request<'_> {
    let mut request = Request::new(&step.source);
    if let Some(name) = &step.request.name {
        request = request.name(name);
    }
    if let Some(stdin) = &step.request.stdin {
        request = request.stdin(stdin.as_bytes());
    }
    if let Some(kind) = &step.request.kind {
        request = request.kind(match kind.as_str() {
            "detect" => SourceKind::Detect,
            "script" => SourceKind::Script,
            "module" => SourceKind::Module,
            other => panic!("`{other}` is no kind of source"),
        });
    }
    if let Some(id) = &step.request.session_id {
        request = request.session_id(id);
    }
    request
}

fn seen(result: Result<Execution, ExecuteError>, names: &[&String]) -> StepResult {
    match result {
        Ok(execution) => {
            let json = serde_json::to_value(&execution).expect("an execution is JSON");
            let observed = serde_json::from_value(json).expect("it has exactly the names the contract lists");
            let files = execution.files();
            let files = names.iter().filter_map(|name| Some(((*name).clone(), files.read(name).ok()?))).collect();
            StepResult::Ran { observed: Box::new(observed), files }
        }
        Err(error) => StepResult::Refused(error.to_string()),
    }
}
