//! Untrusted text in answers.

use glovebox::Untrusted;
use serde::Serializer;

/// Serializes a text in its displayed form: escaped and shortened.
pub(crate) fn shown<S: Serializer>(text: &Untrusted, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(text)
}
