//! Runs conformance cases through version 0.3.0 of a provider, in any host of WASI 0.3. Each line on standard input is a
//! case in JSON, and each line on standard output contains the results of its steps, as in the program `cases`. The
//! program is composed with a provider and with the tools of the cases (`case-tools-concurrent`).

#[path = "../../cases/src/case.rs"]
mod case;
#[path = "../../cases-concurrent/src/fresh.rs"]
mod fresh;
#[path = "../../cases/src/hex.rs"]
mod hex;
#[allow(dead_code, reason = "this program reads files as streams")]
#[path = "../../cases/src/observed.rs"]
mod observed;
#[path = "../../cases/src/policy.rs"]
mod policy;
#[path = "../../cases-concurrent/src/run.rs"]
mod run;
#[path = "../../cases-concurrent/src/sessions.rs"]
mod sessions;
mod tools;

use case::Case;
use exports::wasi::cli::run::Guest;
use run::results;
use wasi::cli::{stdin, stdout};

wit_bindgen::generate!({
    path: "../case-tools/wit",
    inline: "
        package example:cases-provider-concurrent;

        world cases {
            import glovebox:cases/table@0.1.0;
            import wasi:cli/stdin@0.3.0;
            import wasi:cli/stdout@0.3.0;
            export wasi:cli/run@0.3.0;
        }

        package wasi:cli@0.3.0 {
            interface types {
                enum error-code { io, illegal-byte-sequence, pipe }
            }

            interface stdin {
                use types.{error-code};

                read-via-stream: func() -> tuple<stream<u8>, future<result<_, error-code>>>;
            }

            interface stdout {
                use types.{error-code};

                write-via-stream: func(data: stream<u8>) -> future<result<_, error-code>>;
            }

            interface run {
                run: async func() -> result;
            }
        }
    ",
    world: "example:cases-provider-concurrent/cases",
    generate_all,
});

struct Cases;
export!(Cases);

impl Guest for Cases {
    async fn run() -> Result<(), ()> {
        let (mut lines, _read) = stdin::read_via_stream();
        let (mut output, data) = wit_stream::new();
        let _written = stdout::write_via_stream(data);
        let mut line = Vec::new();
        while let Some(byte) = lines.next().await {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            let mut answer = answer(&line).await;
            answer.push(b'\n');
            output.write_all(answer).await;
            line.clear();
        }
        Ok(())
    }
}

async fn answer(line: &[u8]) -> Vec<u8> {
    let case: Case = serde_json::from_slice(line).expect("the line is a case");
    tools::begin(&case);
    serde_json::to_vec(&results(&case).await).expect("results are JSON")
}
