//! Requests.

/// The part of [`contract_conversions!`](crate::contract_conversions) for requests.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_request {
    () => {
        impl types::Request {
            /// Reduces the request to the fields that `validate` reads: the source, its name and its kind.
            pub(crate) fn for_validation(self) -> Self {
                Self { stdin: None, context: None, files: None, deadline_ms: None, ..self }
            }

            /// Rejects fields that only an execution outside a session may have.
            pub(crate) fn check_in_session(&self) -> Result<(), contract::InvalidArgument> {
                let wrong = |text: &str| Err(contract::InvalidArgument(text.to_owned()));
                if self.context.is_some() {
                    return wrong("`context`: in a session, use `session-options.context` or `session.set-variable`");
                }
                if self.files.is_some() {
                    return wrong("`files`: in a session, use `session.write-file`");
                }
                Ok(())
            }
        }
    };
}
