//! State that all requests share.

use std::sync::Arc;

use super::{Answered, BodyBudget, Tenants, names::Names};
use crate::Service;

/// State that all requests share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared(pub(super) Arc<State>);

pub(crate) struct State {
    pub(crate) service: Service,
    pub(crate) tenants: Tenants,
    pub(crate) bodies: BodyBudget,
    pub(crate) answered: Answered,
    pub(crate) names: Names,
}

impl std::ops::Deref for Shared {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}
