//! Tests the output of scripts that a limit stops. The same scripts run in sessions of the daemon and over MCP.

use glovebox::Limits;
use serde_json::{Value, json};

use super::support::{LINES, Server, Setup};

/// A script that writes to both streams, and then reaches a limit.
pub(crate) struct LimitScript {
    pub(crate) language: &'static str,
    pub(crate) source: &'static str,
    /// The name of the limit in a policy, and its value.
    limit: (&'static str, u64),
    resource: &'static str,
    pub(crate) stdout: &'static str,
}

macro_rules! python {
    ($end:literal) => {
        concat!("import sys, time\nprint('out')\nprint('err', file=sys.stderr)\nprint('open', end='')\n", $end)
    };
}

macro_rules! javascript {
    ($end:literal) => {
        concat!("console.log('out'); console.error('err'); ", $end)
    };
}

const FUEL: (&str, u64) = ("fuel", 100_000_000);
const TIME: (&str, u64) = ("timeout_ms", 1_000);
const MEMORY: (&str, u64) = ("memory_bytes", 64 << 20);

const fn python(source: &'static str, limit: (&'static str, u64), resource: &'static str) -> LimitScript {
    LimitScript { language: "python", source, limit, resource, stdout: "out\nopen" }
}

const fn javascript(source: &'static str, limit: (&'static str, u64), resource: &'static str) -> LimitScript {
    LimitScript { language: "javascript", source, limit, resource, stdout: "out\n" }
}

pub(crate) static STOPPED: [LimitScript; 7] = [
    python(python!("while True: pass"), FUEL, "fuel"),
    // The interpreter is stopped without an exception.
    python(python!("while True:\n    try:\n        while True: pass\n    except BaseException: pass"), FUEL, "fuel"),
    python(python!("time.sleep(60)"), TIME, "time"),
    python(python!("x = bytes(10**9)"), MEMORY, "memory"),
    javascript(javascript!("for (;;) {}"), FUEL, "fuel"),
    javascript(javascript!("setTimeout(() => {}, 60_000)"), TIME, "time"),
    javascript(javascript!("{ const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1)) }"), MEMORY, "memory"),
];

impl LimitScript {
    /// Sets the limit that the script reaches.
    pub(crate) fn set(&self, limits: &mut Limits) {
        let (name, value) = self.limit;
        match name {
            "fuel" => limits.fuel = value,
            "memory_bytes" => limits.memory_bytes = value,
            _ => limits.timeout_ms = value,
        }
    }

    /// Returns a policy with the limit that the script reaches.
    pub(crate) fn policy(&self) -> Value {
        let (name, value) = self.limit;
        json!({ "limits": { name: value } })
    }

    /// Checks the result of the script.
    pub(crate) fn check(&self, result: &Value) {
        assert_eq!(
            (&result["outcome"]["kind"], &result["outcome"]["resource"], &result["stdout"]),
            (&json!("exhausted"), &json!(self.resource), &json!(self.stdout)),
            "{}: {result}",
            self.source
        );
        assert!(result["stderr"].as_str().unwrap().starts_with("err\n"), "{}: {result}", self.source);
    }

    /// Checks the lines of the streamed response.
    pub(crate) fn check_streamed(&self, lines: &str) {
        let pieces: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let text = |name: &str| -> String {
            pieces.iter().filter(|piece| piece["type"] == name).map(|piece| piece["text"].as_str().unwrap()).collect()
        };
        assert_eq!(text("stdout"), self.stdout, "{}", self.source);
        assert!(text("stderr").starts_with("err\n"), "{}: {pieces:?}", self.source);
        self.check(&pieces.last().unwrap()["result"]);
    }
}

#[test]
fn output_before_a_limit_is_returned_and_streamed() {
    let server = Server::start(Setup::default());
    for script in &STOPPED {
        let body = json!({"language": script.language, "source": script.source, "policy": script.policy()});
        script.check(&server.post("/v1/execute", &body).ok());
        let streamed = server.ask("POST", "/v1/execute", &[LINES], body.to_string().as_bytes());
        script.check_streamed(&streamed.text());
    }
    assert_eq!(server.post("/v1/execute", &json!({"language": "python", "source": "print(1)"})).ok()["stdout"], "1\n");
}
