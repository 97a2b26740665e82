//! Runs conformance cases through version 0.3.0 of the contract. The format of cases and results is that of the program
//! `cases`, whose modules this program shares.

#[path = "../../cases/src/case.rs"]
mod case;
mod fresh;
#[path = "../../cases/src/hex.rs"]
mod hex;
#[allow(dead_code, reason = "this program reads files as streams")]
#[path = "../../cases/src/observed.rs"]
mod observed;
#[path = "../../cases/src/policy.rs"]
mod policy;
mod run;
mod sessions;
mod tools;

use case::Case;
use run::results;

wit_bindgen::generate!({
    inline: "
        package example:cases-concurrent;

        world cases-concurrent {
            /// Waits. The program has no clock.
            import wait: async func(ms: u64);
            /// Runs a case in JSON. Returns the results of its steps in JSON.
            export results: async func(line: string) -> string;
        }
    ",
});

struct Cases;
export!(Cases);

impl Guest for Cases {
    async fn results(line: String) -> String {
        let case: Case = serde_json::from_str(&line).expect("the line is a case");
        serde_json::to_string(&results(&case).await).expect("results are JSON")
    }
}
