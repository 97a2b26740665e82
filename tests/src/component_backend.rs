//! A backend that uses the sandbox as components do: it runs the `cases` program in the application host.

use std::{env, fs, path::PathBuf, sync::OnceLock};

use glovebox_component_host::SandboxHost;
use glovebox_component_runner::{AppConfig, Application, Applications, Input, Output, OutputBuffer};

use crate::{
    Backend, Case, StepResult,
    case_line::{LineOptions, case_line, results},
    engine, program_path,
};

/// Maximum size of one case's results, in bytes.
const RESULTS_BYTES: usize = 64 << 20;

/// The backend that runs cases through `glovebox:sandbox`, each in a new instance of the `cases` program.
#[derive(Debug)]
pub struct ComponentBackend {
    runtime: String,
    stepped: bool,
}

impl ComponentBackend {
    /// Creates the backend for a runtime in the manifest. With `stepped`, every execution is stepped through, otherwise
    /// only those that require it.
    ///
    /// # Errors
    /// Fails if the program is not built. The error contains the command that builds it.
    pub fn of_runtime(name: &str, stepped: bool) -> Result<Self, String> {
        file()?;
        Ok(Self { runtime: name.to_owned(), stepped })
    }
}

/// Returns the path of the component that runs cases: the `cases` program, or its composition with a provider, named by
/// `CASES_PROGRAM`.
fn file() -> Result<PathBuf, String> {
    env::var_os("CASES_PROGRAM").map_or_else(|| program_path("cases"), |file| Ok(file.into()))
}

/// Returns the program, which is compiled on the first call.
fn program() -> &'static Application {
    static PROGRAM: OnceLock<Application> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let bytes = fs::read(file().expect("the program is built")).expect("the program can be read");
        let applications = Applications::new(engine()).expect("Wasmtime takes the settings");
        applications.load_bytes("cases", &bytes).expect("the program is a component that can be linked")
    })
}

/// Builds a host that grants everything that a case requests.
fn host(case: &Case) -> SandboxHost {
    SandboxHost::builder(engine()).policy(case.policy.clone()).build().expect("a case's policy can be granted")
}

impl Backend for ComponentBackend {
    fn run(&self, case: &Case) -> Vec<StepResult> {
        let options = LineOptions { stepped: self.stepped, ..LineOptions::default() };
        let mut line = serde_json::to_vec(&case_line(case, &self.runtime, options)).expect("a case is JSON");
        line.push(b'\n');
        let stdout = OutputBuffer::new(RESULTS_BYTES);
        let stderr = OutputBuffer::new(64 << 10);
        let mut config = AppConfig::default();
        config.stdin = Input::Bytes(line);
        config.stdout = Output::Buffer(stdout.clone());
        config.stderr = Output::Buffer(stderr.clone());
        let ended = program().run(&host(case), &config).expect("the program can be run");
        assert!(
            ended.outcome.is_success(),
            "{}: {}",
            ended.outcome.describe(),
            String::from_utf8_lossy(&stderr.bytes())
        );
        results(&stdout.bytes()).expect("the program wrote results")
    }
}
