//! Runs steps that share sessions.

use std::{collections::BTreeMap, error::Error};

use glovebox_guest::{Blob, IfExists, Sandbox, Session, SessionOptions};

use crate::{
    case::{Action, Case, Step},
    fresh::must_be_stepped,
    hex::Hex,
    observed::{StepResult, look},
    tools::{finish, tools},
};

/// A case's sessions, keyed by the names that its steps use.
pub struct Sessions<'a> {
    sandbox: &'a Sandbox,
    case: &'a Case,
    sessions: BTreeMap<&'a str, Session>,
    checkpoints: BTreeMap<&'a str, u64>,
    hibernated: BTreeMap<&'a str, Blob>,
}

impl<'a> Sessions<'a> {
    /// Opens the session that the first step uses.
    pub fn open(sandbox: &'a Sandbox, case: &'a Case) -> Result<Self, glovebox_guest::Error> {
        let mut options = options(case);
        options.context.clone_from(&case.context);
        let session = sandbox.open_session(&options)?;
        let first = case.steps.first().map_or("", |step| &step.session);
        let sessions = BTreeMap::from([(first, session)]);
        Ok(Self { sandbox, case, sessions, checkpoints: BTreeMap::new(), hibernated: BTreeMap::new() })
    }

    pub fn step(&mut self, step: &'a Step) -> StepResult {
        self.act(step).unwrap_or_else(|error| StepResult::Refused(error.to_string()))
    }

    fn act(&mut self, step: &'a Step) -> Result<StepResult, Box<dyn Error>> {
        if let Action::Resume { label } = &step.action {
            let state = self.hibernated.get(label.as_str());
            let state = state.ok_or_else(|| format!("unknown label `{label}`; hibernate a session under it first"))?;
            let session = self.sandbox.resume(state, &options(self.case))?;
            self.sessions.insert(&step.session, session);
            return self.done(step);
        }
        let session = self.sessions.get(step.session.as_str());
        let session =
            session.ok_or_else(|| format!("unknown session `{}`; open it in an earlier step", step.session))?;
        match &step.action {
            Action::Run(script) => {
                let execution = if must_be_stepped(self.case) {
                    finish(&session.start(script.request())?, &self.case.tools)?
                } else {
                    session.execute(script.request())?
                };
                return Ok(StepResult::ran(&execution, files(session, &step.look)));
            }
            Action::Get { name } => return Ok(StepResult::variable(session.get_variable(name)?.as_ref())),
            Action::Set { values } => {
                for (name, json) in values {
                    session.set_variable(name, json)?;
                }
            }
            Action::Fork { to } => {
                let fork = session.fork()?;
                self.sessions.insert(to, fork);
            }
            Action::Checkpoint { label } => {
                self.checkpoints.insert(label, session.checkpoint()?);
            }
            Action::Undo { to: None } => {
                session.undo()?;
            }
            Action::Undo { to: Some(label) } => {
                let id = self.checkpoints.get(label.as_str());
                let id = id.ok_or_else(|| format!("unknown checkpoint `{label}`; take it in an earlier step"))?;
                session.undo_to(*id)?;
            }
            Action::Hibernate { label } => {
                self.hibernated.insert(label, session.hibernate()?);
                self.sessions.remove(step.session.as_str());
                return Ok(StepResult::Done { files: BTreeMap::new() });
            }
            Action::Write { files } => {
                for (path, text) in files {
                    session.write_file(path, text, IfExists::Replace)?;
                }
            }
            Action::Delete { path } => session.delete_all(path)?,
            Action::List { pattern } => {
                let found = session.files()?.list(pattern)?;
                return Ok(StepResult::Listed(found.into_iter().map(|entry| entry.path).collect()));
            }
            Action::Validate(_) | Action::Resume { .. } => return Err("this step is not supported in a session".into()),
        }
        self.done(step)
    }

    fn done(&self, step: &Step) -> Result<StepResult, Box<dyn Error>> {
        let session = self.sessions.get(step.session.as_str());
        Ok(StepResult::Done { files: session.map(|session| files(session, &step.look)).unwrap_or_default() })
    }
}

fn options(case: &Case) -> SessionOptions {
    tools(case).into_iter().fold(SessionOptions::default(), SessionOptions::tool)
}

/// Returns the contents of the named files, or nothing if the session has ended.
fn files(session: &Session, names: &[String]) -> BTreeMap<String, Hex> {
    match session.files() {
        Ok(files) if !names.is_empty() => look(&files, names),
        _ => BTreeMap::new(),
    }
}
