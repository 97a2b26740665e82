//! A cancellation token, for JavaScript.

use glovebox::CancelToken;
use napi_derive::napi;

/// Cancels the executions that use it.
#[napi]
pub struct NativeToken(CancelToken);

impl NativeToken {
    pub(crate) fn token(&self) -> CancelToken {
        self.0.clone()
    }
}

#[napi]
impl NativeToken {
    /// Creates a token that is not cancelled.
    #[napi(constructor)]
    pub fn new() -> Self {
        Self(CancelToken::new())
    }

    /// Cancels all executions of the token.
    #[napi]
    pub fn cancel(&self) {
        self.0.cancel();
    }
}
