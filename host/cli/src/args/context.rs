//! The variable `context` in scripts.

use std::{fs::File, path::Path};

use clap::Args;
use glovebox::{JsonText, Policy};

use crate::{source::bounded, terminal::Hinted};

/// A value for scripts.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ContextArgs {
    /// Value of the script's global variable `context`: JSON, or a file that contains JSON [default: no such variable]
    #[arg(long, value_name = "FILE|JSON", allow_hyphen_values = true)]
    context: Option<String>,
}

impl ContextArgs {
    /// Returns the value, if one is given. Its size is limited like standard input.
    pub(crate) fn value(&self, policy: &Policy) -> anyhow::Result<Option<JsonText>> {
        let Some(text) = &self.context else { return Ok(None) };
        let not_json = match JsonText::new(text.as_str()) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        let hint = "give JSON, such as `--context '{\"a\": 1}'`, or the path of a JSON file";
        if !Path::new(text).is_file() {
            let shown: String = text.chars().take(100).collect();
            return Err(Hinted::new(format!("`{shown}` is neither JSON nor a file"), hint).because(not_json).into());
        }
        let what = format!("context file `{text}`");
        let file = File::open(text)
            .map_err(|error| Hinted::new(format!("cannot read {what}"), "check that it is readable").because(error))?;
        let bytes = bounded(&what, file, policy.limits.stdin_bytes, "--stdin-bytes")?;
        let not_utf8 = |error| Hinted::new(format!("{what} is not JSON"), hint).because(error);
        let text = String::from_utf8(bytes).map_err(not_utf8)?;
        let value =
            JsonText::new(text).map_err(|error| Hinted::new(format!("{what} is not JSON"), hint).because(error))?;
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::ContextArgs;
    use glovebox::{JsonText, Policy};

    #[test]
    fn a_context_is_json_or_a_file_with_json() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("c.json"), "{\"a\": [1]}\n").unwrap();
        std::fs::write(path("text"), "a").unwrap();
        let value = |text: &str| ContextArgs { context: Some(text.to_owned()) }.value(&Policy::default());
        let json = |text: &str| Some(JsonText::new(text).unwrap());
        assert_eq!(value("[1, \"x\"]").unwrap(), json("[1, \"x\"]"));
        assert_eq!(value("-1").unwrap(), json("-1"));
        assert_eq!(value(&path("c.json")).unwrap(), json("{\"a\": [1]}\n"));
        assert_eq!(ContextArgs::default().value(&Policy::default()).unwrap(), None);
        for (wrong, said) in [("{a: 1}", "neither"), (&path("missing"), "neither"), (&path("text"), "is not JSON")] {
            let error = value(wrong).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_context_file_is_as_long_as_standard_input_may_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        let mut policy = Policy::default();
        policy.limits.stdin_bytes = 10;
        for (length, fits) in [(9, true), (10, true), (11, false)] {
            std::fs::write(&path, format!("\"{}\"", "x".repeat(length - 2))).unwrap();
            let args = ContextArgs { context: Some(path.to_str().unwrap().to_owned()) };
            assert_eq!(args.value(&policy).is_ok(), fits, "{length}");
        }
    }
}
