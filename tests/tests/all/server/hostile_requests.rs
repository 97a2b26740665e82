//! Whatever a client sends, it gets a typed answer, and the server goes on.

use serde_json::{Value, json};

use super::support::{Server, Setup, metric};

/// Random numbers that are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"];
const PATHS: [&str; 24] = [
    "/v1/execute",
    "/v1/validate",
    "/v1/sessions",
    "/v1/sessions/s",
    "/v1/sessions/nothing",
    "/v1/sessions/s/execute",
    "/v1/sessions/s/fork",
    "/v1/sessions/s/undo",
    "/v1/sessions/s/checkpoint",
    "/v1/sessions/s/checkpoints",
    "/v1/sessions/s/hibernate",
    "/v1/sessions/s/state",
    "/v1/sessions/s/variables/x",
    "/v1/sessions/s/variables/%00%ff",
    "/v1/sessions/s/files",
    "/v1/sessions/s/files?pattern=%5B",
    "/v1/sessions/s/files?nothing=1",
    "/v1/sessions/s/files/a",
    "/v1/sessions/s/files/..%2f..%2fetc%2fpasswd",
    "/v1/sessions/s/files//a/../../b",
    "/v1/sessions/..%2fs",
    "/v1/sessions/s/files/a?recursive=maybe",
    "/v1/info",
    "/%ff%00?%ff",
];

fn body(dice: &mut Dice) -> Vec<u8> {
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!("python"),
        json!("print(1)"),
        json!("\u{0}\u{202e}"),
        json!([]),
        json!(["a", 1]),
        json!({}),
        json!({"base64": "!"}),
        json!({"limits": {"fuel": 1}}),
        json!({"limits": {"timeout_ms": 0}}),
        json!({"a": {"b": [null]}}),
    ];
    let names = [
        "source",
        "language",
        "runtime",
        "name",
        "kind",
        "stdin",
        "context",
        "deadline_ms",
        "files",
        "policy",
        "return_files",
        "id",
        "checkpoint",
        "nothing",
    ];
    let mut object = serde_json::Map::new();
    for _ in 0..dice.below(6) {
        object.insert((*dice.one(&names)).to_owned(), dice.one(&values).clone());
    }
    if dice.below(2) == 0 {
        object.insert("source".into(), json!("print(1)"));
    }
    let mut bytes = match dice.below(8) {
        0 => dice.one(&values).to_string().into_bytes(),
        1 => Vec::new(),
        _ => Value::Object(object).to_string().into_bytes(),
    };
    // A byte that is another one, or not there.
    if dice.below(3) == 0 && !bytes.is_empty() {
        let at = dice.below(bytes.len());
        match dice.below(2) {
            0 => bytes[at] = *dice.one(b"\x00\xff{}[]\",:\\9"),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

#[test]
fn every_route_answers_anything_with_a_result_or_a_problem_that_says_what() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "javascript"})).ok();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    for _ in 0..1_500 {
        let (method, path) = (*dice.one(&METHODS), *dice.one(&PATHS));
        let bytes = body(&mut dice);
        let answer = server.ask(method, path, &[], &bytes);
        let told = format!("{method} {path} {}: {answer:?}", String::from_utf8_lossy(&bytes));
        assert!(answer.status < 500, "{told}");
        if answer.status >= 400 && method != "HEAD" {
            answer.problem();
        }
        assert!(!String::from_utf8_lossy(&answer.body).contains(server.dir.path().to_str().unwrap()), "{told}");
        *statuses.entry(answer.status).or_default() += 1;
    }
    assert!(statuses.len() > 6 && statuses[&200] > 20, "the requests are of many kinds: {statuses:?}");
    assert_eq!((metric(&server, "glovebox_running"), metric(&server, "glovebox_waiting")), (0, 0));
    let fresh = server.post("/v1/execute", &json!({"language": "javascript", "source": "console.log(1)"}));
    assert_eq!(fresh.ok()["stdout"], "1\n");
}

#[test]
fn json_that_is_small_and_becomes_large_is_not_made_into_values() {
    let server = Server::start(Setup::default());
    // A million nulls, and an object in an object a hundred thousand times: as values gigabytes, and a stack that overflows.
    let nulls = format!("[{}null]", "null,".repeat(1_000_000));
    let request = format!(r#"{{"language": "python", "source": "print(len(context))", "context": {nulls}}}"#);
    assert_eq!(server.ask("POST", "/v1/execute", &[], request.as_bytes()).ok()["stdout"], "1000001\n");
    let deep = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    for name in ["context", "policy", "files", "stdin", "source", "nothing"] {
        let request = format!(r#"{{"language": "python", "source": "1", "{name}": {deep}}}"#);
        assert_eq!(server.ask("POST", "/v1/execute", &[], request.as_bytes()).problem().0, 400, "{name}");
    }
    assert_eq!(server.ask("PUT", "/v1/sessions/s/variables/x", &[], deep.as_bytes()).problem().0, 400);
}

#[test]
fn bytes_that_are_no_session_are_refused() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let state = server.get("/v1/sessions/s/state").body;
    let mut damaged = state.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    for (what, bytes) in
        [("nothing", &[][..]), ("noise", &[7; 5_000]), ("half", &state[..middle]), ("damaged", &damaged)]
    {
        assert_eq!(server.ask("PUT", "/v1/sessions/t", &[], bytes).problem(), (409, "not-resumable".into()), "{what}");
    }
    assert_eq!(server.get("/v1/sessions/t").status, 404);
    assert_eq!(server.ask("PUT", "/v1/sessions/t", &[], &state).status, 201);
}
