//! One execution, in a fresh guest or a kept one.

use glovebox_interpreters::{Machine, Script};

use crate::{
    CancelToken, ExecuteError, Execution, Files, Language, Request, SourceKind, events,
    execution::{Metadata, Output},
    guest::Guest,
    request::OnOutput,
    sandbox::Sandbox,
    state::Run,
    workspace::Roots,
};

/// The most bytes a script's name may have, as for any path.
const NAME_BYTES_MOST: usize = 4096;

/// Where a plain command finds its script.
pub(crate) const SCRIPT_MOUNT: &str = "/script";

/// A request that fits its limits, with what the policy adds to it.
pub(crate) struct Setting<'a> {
    source: &'a str,
    name: &'a str,
    kind: SourceKind,
    pub(crate) stdin: &'a [u8],
    session_id: Option<&'a str>,
    cancel: CancelToken,
    on_output: Option<OnOutput>,
    sandbox: &'a Sandbox,
}

impl<'a> Setting<'a> {
    /// Checks a request against the limits. Nothing has run yet when this fails.
    pub(crate) fn new(sandbox: &'a Sandbox, request: Request<'a>) -> Result<Self, ExecuteError> {
        let limits = &sandbox.0.policy.limits;
        let (source, stdin) = (request.source.len() as u64, request.stdin.len() as u64);
        if source > limits.source_bytes {
            return Err(ExecuteError::SourceTooLarge { bytes: source, most: limits.source_bytes });
        }
        if stdin > limits.stdin_bytes {
            return Err(ExecuteError::StdinTooLarge { bytes: stdin, most: limits.stdin_bytes });
        }
        if request.name.len() > NAME_BYTES_MOST || request.name.contains('\0') {
            return Err(ExecuteError::Name(request.name.chars().take(100).collect()));
        }
        Ok(Self {
            source: request.source,
            name: request.name,
            kind: request.kind,
            stdin: request.stdin,
            session_id: request.session_id,
            cancel: request.cancel.cloned().unwrap_or_default(),
            on_output: request.on_output,
            sandbox,
        })
    }

    /// Starts the clock of the execution.
    pub(crate) fn start(&mut self) -> Run {
        Run::new(self.sandbox.0.policy.limits.timeout(), self.cancel.clone(), self.on_output.take())
    }

    /// What the driver is given. `last`: the guest is dropped afterwards.
    pub(crate) fn script(&self, last: bool) -> Script<'_> {
        let inner = &self.sandbox.0;
        Script {
            source: self.source,
            name: self.name,
            kind: self.kind,
            args: &inner.policy.args,
            env: &inner.env,
            has_stdin: !self.stdin.is_empty(),
            last,
            wants_value: false,
        }
    }

    /// The name of a plain command's script file: the last part of the script's name, if it is a file's.
    pub(crate) fn file_name(&self) -> &str {
        let plain = |name: &&str| !name.is_empty() && !matches!(*name, "." | "..") && !name.starts_with('<');
        self.name.rsplit('/').next().filter(plain).unwrap_or(match self.sandbox.language() {
            Language::Python => "script.py",
            Language::JavaScript => "script.js",
        })
    }

    /// A plain command's arguments: the program, its flags, the script's path, the policy's arguments.
    pub(crate) fn command_args(&self, flags: &[&str]) -> Vec<String> {
        let mut args = vec![self.sandbox.language().name().to_owned()];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        args.push(format!("{SCRIPT_MOUNT}/{}", self.file_name()));
        args.extend(self.sandbox.0.policy.args.iter().cloned());
        args
    }

    pub(crate) fn source(&self) -> &str {
        self.source
    }

    /// Runs the script in `guest` and collects what it did. The guest may be entered again if the answer's flag says so.
    pub(crate) fn execute(
        &self,
        guest: &mut Guest,
        roots: &Roots,
        last: bool,
    ) -> Result<(Execution, bool), ExecuteError> {
        let inner = &self.sandbox.0;
        let (runtime, limits) = (&*inner.runtime, &inner.policy.limits);
        events::start(runtime, self.session_id, limits);
        let ran = guest.run(runtime, limits, &self.script(last))?;
        let duration = guest.machine.store.data().run.begun.elapsed();
        let wasi = guest.machine.wasi();
        events::security(self.session_id, &ran, &wasi.take_events());
        let output = wasi.take_output();
        let changes = roots.workspace().map(|root| wasi.vfs().changes(root)).unwrap_or_default();
        let committed = inner.workspace.commit(wasi.vfs_mut(), &roots.roots, ran.outcome.is_success());
        let execution = Execution {
            outcome: ran.outcome,
            metadata: Metadata {
                runtime: runtime.language,
                runtime_name: runtime.name.clone(),
                version: runtime.version.clone(),
                prepared: runtime.image().is_some(),
                image_sha256: runtime.image().map(|image| image.identity.clone()),
                stdout_total_bytes: output.stdout.total_bytes,
                stderr_total_bytes: output.stderr.total_bytes,
            },
            stdout: Output { bytes: output.stdout.bytes, total_bytes: output.stdout.total_bytes },
            stderr: Output { bytes: output.stderr.bytes, total_bytes: output.stderr.total_bytes },
            fuel_consumed: ran.fuel_consumed,
            memory_used_bytes: ran.memory_used_bytes,
            duration,
            files_created: changes.created,
            files_modified: changes.modified,
            files_deleted: changes.deleted,
            workspace_path: inner.workspace.path.clone(),
            session_id: self.session_id.map(str::to_owned),
            files: Files { vfs: wasi.vfs().clone(), root: roots.workspace() },
        };
        events::complete(&execution);
        match committed {
            Ok(()) => Ok((execution, ran.alive)),
            Err((host, source)) => Err(ExecuteError::Commit { host, execution: Box::new(execution), source }),
        }
    }
}
