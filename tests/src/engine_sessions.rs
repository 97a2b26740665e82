//! A case's sessions on the Rust engine.

use std::{collections::BTreeMap, error::Error, sync::Arc};

use glovebox::{CheckpointId, HibernateOptions, IfExists, ResumeOptions, Sandbox, Session, SessionOptions};

use crate::{
    Action, Case, Step, StepResult,
    engine_steps::{self, SuspendingRunner},
};

/// A case's sessions, keyed by the names that its steps use.
pub(crate) struct EngineSessions<'a> {
    sandbox: Sandbox,
    /// The case, if executions are suspended and resumed whenever they wait for tools.
    suspends: Option<&'a Case>,
    sessions: BTreeMap<String, Session>,
    checkpoints: BTreeMap<String, CheckpointId>,
    hibernated: BTreeMap<String, Vec<u8>>,
}

impl<'a> EngineSessions<'a> {
    /// Opens the session that the first step uses.
    pub(crate) fn open(sandbox: Sandbox, case: &'a Case, suspends: bool) -> Result<Self, String> {
        let mut options = SessionOptions::default();
        options.context = case.context.clone().map(Into::into);
        let session = sandbox.open_session(options).map_err(|error| error.to_string())?;
        let first = case.steps.first().map_or_else(String::new, |step| step.session.clone());
        let sessions = BTreeMap::from([(first, session)]);
        let suspends = suspends.then_some(case);
        Ok(Self { sandbox, suspends, sessions, checkpoints: BTreeMap::new(), hibernated: BTreeMap::new() })
    }

    pub(crate) fn step(&mut self, step: &Step) -> StepResult {
        match self.act(step) {
            Ok(result) => result,
            Err(error) => StepResult::Refused(error.to_string()),
        }
    }

    fn act(&mut self, step: &Step) -> Result<StepResult, Box<dyn Error>> {
        if let Action::Resume { label } = &step.action {
            let bytes = self.hibernated.get(label);
            let bytes = bytes.ok_or_else(|| format!("unknown label `{label}`; hibernate a session under it first"))?;
            let session = self.sandbox.resume(bytes, ResumeOptions::default())?;
            self.sessions.insert(step.session.clone(), session);
            return self.done(step);
        }
        let session = self.sessions.get_mut(&step.session);
        let session =
            session.ok_or_else(|| format!("unknown session `{}`; open it in an earlier step", step.session))?;
        match &step.action {
            Action::Run { source, request } => {
                let request = engine_steps::request(source, request);
                let execution = match self.suspends {
                    Some(case) => SuspendingRunner::new(&self.sandbox, case).run(Some(session), request)?,
                    None => Arc::new(session.run(request)?),
                };
                return Ok(engine_steps::seen(&execution, step));
            }
            Action::Get { name } => {
                let value = session.get_variable(name)?;
                return Ok(StepResult::Variable(value.map(serde_json::to_value).transpose()?));
            }
            Action::Set { values } => {
                for (name, value) in values {
                    session.set_variable(name, value)?;
                }
            }
            Action::Fork { to } => {
                let fork = session.fork()?;
                self.sessions.insert(to.clone(), fork);
            }
            Action::Checkpoint { label } => {
                self.checkpoints.insert(label.clone(), session.checkpoint()?);
            }
            Action::Undo { to: None } => drop(session.undo()?),
            Action::Undo { to: Some(label) } => {
                let id = self.checkpoints.get(label);
                let id = id.ok_or_else(|| format!("unknown checkpoint `{label}`; take it in an earlier step"))?;
                session.undo_to(*id)?;
            }
            Action::Hibernate { label } => {
                self.hibernated.insert(label.clone(), session.hibernate(&HibernateOptions::default())?);
                self.sessions.remove(&step.session);
                return Ok(StepResult::Done { files: BTreeMap::new() });
            }
            Action::Write { files } => {
                for (path, text) in files {
                    session.files().write(path, text, IfExists::Replace)?;
                }
            }
            Action::Delete { path } => session.files().delete_all(path)?,
            Action::List { pattern } => {
                let found = session.files().list(pattern)?;
                return Ok(StepResult::Listed(found.into_iter().map(|entry| entry.path).collect()));
            }
            Action::Resume { .. } => unreachable!("it was done above"),
        }
        self.done(step)
    }

    fn done(&self, step: &Step) -> Result<StepResult, Box<dyn Error>> {
        let mut files = BTreeMap::new();
        if let Some(session) = self.sessions.get(&step.session) {
            for name in step.expect.files.keys() {
                if let Ok(bytes) = session.files().read(name) {
                    files.insert(name.clone(), bytes);
                }
            }
        }
        Ok(StepResult::Done { files })
    }
}
