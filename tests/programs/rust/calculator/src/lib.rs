//! A minimal application with one export, which computes its result in the sandbox.

use glovebox_guest::{Outcome, Sandbox};

wit_bindgen::generate!({
    inline: "
        package example:calculator;

        world calculator {
            export evaluate: func(expression: string) -> result<string, string>;
        }
    ",
});

struct Calculator;
export!(Calculator);

impl Guest for Calculator {
    fn evaluate(expression: String) -> Result<String, String> {
        let execution = Sandbox::python().execute(format!("print({expression})")).map_err(|error| error.to_string())?;
        match execution.outcome {
            Outcome::Completed => Ok(execution.stdout.text().trim_end().to_owned()),
            Outcome::Raised(raised) => Err(format!("{}: {}", raised.type_name, raised.message)),
            other => Err(format!("{other:?}")),
        }
    }
}
