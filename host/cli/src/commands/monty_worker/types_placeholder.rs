//! A placeholder for type checks in builds without the `full` feature. Sessions that request type checks are rejected.

use super::config::SessionConfig;
use crate::{commands::services::missing, engine::Host};

/// The type checks of a session, which do not exist in this build.
#[derive(Debug)]
pub(super) enum SnippetChecks {}

impl SnippetChecks {
    pub(super) fn of(_: &Host, config: &SessionConfig) -> anyhow::Result<Option<Self>> {
        if config.checks_types { Err(missing("type checks; use `type_check=False`").into()) } else { Ok(None) }
    }

    pub(super) fn check(&mut self, _: &[u8], _: Option<&str>) -> anyhow::Result<Option<(u64, Vec<u8>)>> {
        match *self {}
    }

    pub(super) fn awaits_stubs(&self) -> bool {
        match *self {}
    }

    pub(super) fn take_feed(&mut self) -> Option<Vec<u8>> {
        match *self {}
    }

    pub(super) fn receive_stubs(&mut self, _: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
        match *self {}
    }

    pub(super) fn commit(&mut self) {
        match *self {}
    }

    pub(super) fn dump(&self, _: bool) -> Vec<u8> {
        match *self {}
    }

    pub(super) fn load(&mut self, _: &[u8]) -> anyhow::Result<()> {
        match *self {}
    }
}
