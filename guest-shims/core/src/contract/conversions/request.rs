//! Requests.

/// What [`contract_conversions!`](crate::contract_conversions) has for requests.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_request {
    () => {
        impl types::Request {
            /// The request as `validate` reads it: the source, its name and its kind.
            pub(crate) fn for_validation(self) -> Self {
                Self { stdin: None, context: None, files: None, deadline_ms: None, ..self }
            }

            /// Refuses what only an execution outside a session can have.
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
