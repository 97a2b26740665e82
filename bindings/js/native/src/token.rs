//! A cancellation token, for JavaScript.

use glovebox::CancelToken;
use napi_derive::napi;

/// Cancels the executions that were given it.
#[napi]
pub struct NativeToken(CancelToken);

impl NativeToken {
    /// The engine's.
    pub(crate) fn token(&self) -> CancelToken {
        self.0.clone()
    }
}

#[napi]
impl NativeToken {
    /// One that is not cancelled.
    #[napi(constructor)]
    pub fn new() -> Self {
        Self(CancelToken::new())
    }

    /// Cancels.
    #[napi]
    pub fn cancel(&self) {
        self.0.cancel();
    }
}
