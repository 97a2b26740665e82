//! Runs steps that share sessions.

use std::{collections::BTreeMap, error::Error};

use glovebox_guest::{
    IfExists, SessionOptions,
    concurrent::{Sandbox, Session},
};

use crate::{
    case::{Action, Case, Step},
    fresh::must_be_started,
    hex::Hex,
    observed::StepResult,
    tools::{finish, tools},
};

/// A case's sessions, keyed by the names that its steps use.
pub struct Sessions<'a> {
    sandbox: &'a Sandbox,
    case: &'a Case,
    sessions: BTreeMap<&'a str, Session>,
    checkpoints: BTreeMap<&'a str, u64>,
    hibernated: BTreeMap<&'a str, Vec<u8>>,
}

impl<'a> Sessions<'a> {
    /// Opens the session that the first step uses.
    pub async fn open(sandbox: &'a Sandbox, case: &'a Case) -> Result<Self, glovebox_guest::Error> {
        let mut options = options(case);
        options.context.clone_from(&case.context);
        let session = sandbox.session(&options).await?;
        let first = case.steps.first().map_or("", |step| &step.session);
        let sessions = BTreeMap::from([(first, session)]);
        Ok(Self { sandbox, case, sessions, checkpoints: BTreeMap::new(), hibernated: BTreeMap::new() })
    }

    pub async fn step(&mut self, step: &'a Step) -> StepResult {
        self.act(step).await.unwrap_or_else(|error| StepResult::Refused(error.to_string()))
    }

    async fn act(&mut self, step: &'a Step) -> Result<StepResult, Box<dyn Error>> {
        if let Action::Resume { label } = &step.action {
            let state = self.hibernated.get(label.as_str());
            let state = state.ok_or_else(|| format!("unknown label `{label}`; hibernate a session under it first"))?;
            let session = self.sandbox.resume(state.clone(), &options(self.case)).await?;
            self.sessions.insert(&step.session, session);
            return Ok(self.done(step).await);
        }
        let session = self.sessions.get(step.session.as_str());
        let session =
            session.ok_or_else(|| format!("unknown session `{}`; open it in an earlier step", step.session))?;
        match &step.action {
            Action::Run(script) => {
                let execution = if must_be_started(self.case) {
                    finish(&session.start(script.request()).await?, &self.case.tools).await?
                } else {
                    session.execute(script.request()).await?
                };
                return Ok(StepResult::ran(&execution, files(session, &step.look).await));
            }
            Action::Get { name } => return Ok(StepResult::variable(session.get_variable(name).await?.as_ref())),
            Action::Set { values } => {
                for (name, json) in values {
                    session.set_variable(name, json).await?;
                }
            }
            Action::Fork { to } => {
                let fork = session.fork().await?;
                self.sessions.insert(to, fork);
            }
            Action::Checkpoint { label } => {
                let id = session.checkpoint().await?;
                self.checkpoints.insert(label, id);
            }
            Action::Undo { to: None } => {
                session.undo().await?;
            }
            Action::Undo { to: Some(label) } => {
                let id = self.checkpoints.get(label.as_str());
                let id = id.ok_or_else(|| format!("unknown checkpoint `{label}`; take it in an earlier step"))?;
                session.undo_to(*id).await?;
            }
            Action::Hibernate { label } => {
                let state = session.hibernate().await?.collect().await;
                self.hibernated.insert(label, state);
                self.sessions.remove(step.session.as_str());
                return Ok(StepResult::Done { files: BTreeMap::new() });
            }
            Action::Write { files } => {
                for (path, text) in files {
                    session.write_file(path, text.as_str(), IfExists::Replace).await?;
                }
            }
            Action::Delete { path } => session.delete_all(path).await?,
            Action::List { pattern } => {
                let found = session.list_files(pattern).await?;
                return Ok(StepResult::Listed(found.into_iter().map(|entry| entry.path).collect()));
            }
            Action::Validate(_) | Action::Resume { .. } => return Err("this step is not supported in a session".into()),
        }
        Ok(self.done(step).await)
    }

    async fn done(&self, step: &Step) -> StepResult {
        let files = match self.sessions.get(step.session.as_str()) {
            Some(session) => files(session, &step.look).await,
            None => BTreeMap::new(),
        };
        StepResult::Done { files }
    }
}

fn options(case: &Case) -> SessionOptions {
    tools(case).into_iter().fold(SessionOptions::default(), SessionOptions::tool)
}

/// Returns the contents of the named files that exist. Empty if the session has ended.
async fn files(session: &Session, names: &[String]) -> BTreeMap<String, Hex> {
    let mut contents = BTreeMap::new();
    for name in names {
        if let Ok(stream) = session.read_file(name).await {
            contents.insert(name.clone(), Hex(stream.collect().await));
        }
    }
    contents
}
