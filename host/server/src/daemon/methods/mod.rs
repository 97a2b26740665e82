//! Methods of the daemon.
//!
//! * [`Method`]: the methods that operate on a session. [`call`](Method::call) runs one while it holds the session's
//!   turn.
//! * [`execute`], [`files`], [`session`]: their implementations.

mod context;
mod execute;
mod files;
mod session;

use serde_json::value::RawValue;

use super::{rpc::Answer, slot::Turn};

pub(super) use context::Context;

/// A method that operates on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Execute,
    Validate,
    GetVariable,
    SetVariable,
    ListFiles,
    ReadFile,
    WriteFile,
    DeleteFile,
    Checkpoint,
    Checkpoints,
    Undo,
    Hibernate,
    Info,
    Destroy,
}

impl Method {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "execute" => Self::Execute,
            "validate" => Self::Validate,
            "getVariable" => Self::GetVariable,
            "setVariable" => Self::SetVariable,
            "listFiles" => Self::ListFiles,
            "readFile" => Self::ReadFile,
            "writeFile" => Self::WriteFile,
            "deleteFile" => Self::DeleteFile,
            "checkpoint" => Self::Checkpoint,
            "checkpoints" => Self::Checkpoints,
            "undo" => Self::Undo,
            "hibernate" => Self::Hibernate,
            "info" => Self::Info,
            "destroy" => Self::Destroy,
            _ => return None,
        })
    }

    /// Calls the method. It gives the turn back once it does not need the session any more.
    pub(super) async fn call(self, turn: Turn, params: Option<Box<RawValue>>, context: Context) -> Answer {
        let params = params.as_deref();
        match self {
            Self::Execute => execute::execute(turn, params, context).await,
            Self::Validate => execute::validate(turn, params).await,
            Self::GetVariable => session::get_variable(turn, params).await,
            Self::SetVariable => session::set_variable(turn, params).await,
            Self::ListFiles => files::list(turn, params).await,
            Self::ReadFile => files::read(turn, params).await,
            Self::WriteFile => files::write(turn, params).await,
            Self::DeleteFile => files::delete(turn, params).await,
            Self::Checkpoint => session::checkpoint(turn, params).await,
            Self::Checkpoints => session::checkpoints(turn, params).await,
            Self::Undo => session::undo(turn, params).await,
            Self::Hibernate => session::hibernate(turn, params).await,
            Self::Info => session::info(turn, params).await,
            Self::Destroy => session::destroy(turn, params).await,
        }
    }
}
