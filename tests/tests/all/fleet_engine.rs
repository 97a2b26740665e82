//! An in-memory double of a fleet's engine and nodes, limited to the requests that a server makes. It runs real
//! scripts. The fleet's guarantees are tested with the real engine.

use std::{
    collections::{BTreeMap, HashMap},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use glovebox::{
    CancelToken, Execution, Language, Request, ResumeOptions, Sandbox, Session, SessionOptions, Step, Suspended,
    Timestamp, Tool, ToolAnswer,
};
use glovebox_fleet::{
    ExecuteRequest, ExpectedGeneration, FleetClient, FleetSession, FleetUrl, OpenRequest, WaitingExecution,
};
use glovebox_tests::engine;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    /// The session's name in the fleet, or `query` for an SQL query to the admin interface.
    pub(crate) name: String,
    pub(crate) handler: String,
    pub(crate) key: Option<String>,
    pub(crate) body: Value,
}

/// The HTTP status and message of a failed request.
type HttpFailure = (u16, String);

struct SessionEntry {
    session: Session,
    about: FleetSession,
    can_undo: bool,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<String, Arc<Mutex<SessionEntry>>>,
    /// Answers by session and idempotency key.
    answered: HashMap<(String, String), Result<Value, HttpFailure>>,
    running: HashMap<String, CancelToken>,
    requests: Vec<RecordedRequest>,
    /// Sessions that only appear in lists.
    listed: BTreeMap<String, FleetSession>,
    /// The failure that answers every request, if set.
    failure: Option<HttpFailure>,
    /// The number of answers to executions that are sent before one answer is recorded, but not sent.
    answers_before_loss: Option<usize>,
    /// The number of clock reads, so that each session has a different opening time.
    clock: u64,
}

/// A running test double. It serves requests until the test program exits.
#[derive(Clone)]
pub(crate) struct FleetEngine {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl FleetEngine {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let engine = Self { port: listener.local_addr().unwrap().port(), state: Arc::default() };
        let serving = engine.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(&stream.unwrap()));
            }
        });
        engine
    }

    pub(crate) fn client(&self) -> FleetClient {
        FleetClient::new(&FleetUrl::local(self.port, self.port)).unwrap()
    }

    /// Returns all requests received so far.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.state.lock().unwrap().requests.clone()
    }

    /// Answers all further requests with `failure`, or normally if it is `None`.
    pub(crate) fn fail(&self, failure: Option<(u16, &str)>) {
        self.state.lock().unwrap().failure = failure.map(|(status, message)| (status, message.to_owned()));
    }

    /// Records the answer to the next execution, but answers with a failure, as if the connection were broken.
    pub(crate) fn lose_answer(&self) {
        self.lose_answer_after(0);
    }

    /// Like [`lose_answer`](Self::lose_answer), but first sends the answers to `count` executions.
    pub(crate) fn lose_answer_after(&self, count: usize) {
        self.state.lock().unwrap().answers_before_loss = Some(count);
    }

    /// Forgets the answers to requests with idempotency keys, as the engine does after an hour.
    pub(crate) fn forget_answers(&self) {
        self.state.lock().unwrap().answered.clear();
    }

    /// Adds `count` sessions in a scope to the lists.
    pub(crate) fn list_also(&self, scope: &str, count: usize) {
        let mut state = self.state.lock().unwrap();
        for number in 0..count {
            let name = format!("{scope}!also-{number:05}");
            let about = about(&name, Language::Python, "python", Timestamp::from_unix_ms(1));
            state.listed.insert(name, about);
        }
    }

    /// Returns the number of running executions.
    pub(crate) fn running(&self) -> usize {
        self.state.lock().unwrap().running.len()
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let (mut first, mut length, mut key) = (String::new(), 0, None);
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "idempotency-key" => key = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let path = first.split(' ').nth(1).unwrap().to_owned();
        let (status, answer) = match self.answer(&path, key, &body) {
            Ok(answer) => (200, answer),
            Err((status, message)) => (status, json!({ "message": message })),
        };
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nx-restate-id: inv_1\r\nconnection: close\r\n"
        );
        let _ = (&*stream).write_all(format!("{head}content-length: {}\r\n\r\n{answer}", answer.len()).as_bytes());
    }

    fn answer(&self, path: &str, key: Option<String>, body: &[u8]) -> Result<Value, HttpFailure> {
        let body: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).unwrap() };
        let (name, handler) = match path {
            "/query" => ("query".to_owned(), String::new()),
            path => {
                let parts: Vec<&str> = path.split('/').collect();
                let ["", "restate", "call", service, name, handler] = parts[..] else { panic!("{path}") };
                assert!(service.starts_with("glovebox-sessions-"), "{path}");
                (percent_decode_str(name).decode_utf8().unwrap().into_owned(), handler.to_owned())
            }
        };
        let mut state = self.state.lock().unwrap();
        state.requests.push(RecordedRequest {
            name: name.clone(),
            handler: handler.clone(),
            key: key.clone(),
            body: body.clone(),
        });
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let known = key.map(|key| (name.clone(), key));
        if let Some(answer) = known.as_ref().and_then(|known| state.answered.get(known)) {
            return answer.clone();
        }
        drop(state);
        let answer = match (name.as_str(), handler.as_str()) {
            ("query", _) => Ok(self.query(body["query"].as_str().unwrap())),
            (_, "open") => self.open(&name, given(body)),
            (_, "execute") => self.execute(&name, given(body)),
            (_, "info") => Ok(json!(self.held(&name)?.lock().unwrap().about)),
            (_, "undo") => self.undo(&name, given(body)),
            (_, "close") => self.close(&name, given(body)),
            (_, "cancel") => Ok(json!(self.cancel(given::<Option<String>>(body)))),
            (_, other) => panic!("{other}"),
        };
        let mut state = self.state.lock().unwrap();
        if let Some(known) = known {
            state.answered.insert(known, answer.clone());
        }
        if handler != "execute" {
            return answer;
        }
        match state.answers_before_loss.take() {
            Some(0) => Err((503, "the connection is broken".into())),
            count => {
                state.answers_before_loss = count.map(|count| count - 1);
                answer
            }
        }
    }

    fn held(&self, name: &str) -> Result<Arc<Mutex<SessionEntry>>, HttpFailure> {
        let none = || (404, format!("there is no session `{name}`"));
        self.state.lock().unwrap().sessions.get(name).cloned().ok_or_else(none)
    }

    fn open(&self, name: &str, request: OpenRequest) -> Result<Value, HttpFailure> {
        let mut state = self.state.lock().unwrap();
        if state.sessions.contains_key(name) {
            return Err((409, format!("there is a session `{name}`")));
        }
        if let Some(runtime) = request.runtime.filter(|runtime| runtime == "cobol") {
            return Err((400, format!("no node has such a runtime as {runtime}")));
        }
        state.clock += 1;
        let language = request.language.unwrap_or(Language::Python);
        let sandbox = Sandbox::builder(engine()).language(language).build().unwrap();
        let mut options = SessionOptions::default().id(name.split('!').next_back().unwrap());
        if let Some(context) = request.context {
            options = options.context(glovebox::JsonText::new(Box::<str>::from(context)).unwrap());
        }
        let at = Timestamp::from_unix_ms(state.clock);
        let about = about(name, language, sandbox.runtime_name(), at);
        let held =
            SessionEntry { session: sandbox.open_session(options).unwrap(), about: about.clone(), can_undo: false };
        state.sessions.insert(name.to_owned(), Arc::new(Mutex::new(held)));
        Ok(json!(about))
    }

    fn execute(&self, name: &str, request: ExecuteRequest) -> Result<Value, HttpFailure> {
        let held = self.held(name)?;
        let mut held = held.lock().unwrap();
        held.check(request.expected)?;
        let cancel = CancelToken::new();
        let id = request.id.clone().unwrap();
        self.state.lock().unwrap().running.insert(id.clone(), cancel.clone());
        let ran = match request.tools.iter().any(|tool| tool.callback.is_none()) {
            true => held.step(&request, &cancel),
            false => {
                let mut script = Request::new(&request.source).stdin(&request.stdin).cancel(&cancel);
                if let Some(name) = &request.name {
                    script = script.name(name);
                }
                Ok((held.session.run(script).unwrap(), None))
            }
        };
        self.state.lock().unwrap().running.remove(&id);
        let (execution, waiting) = ran?;
        held.about.generation += 1;
        if waiting.is_none() {
            held.about.executions += 1;
            held.can_undo = true;
        }
        let FleetSession { created_at, generation, .. } = held.about;
        Ok(json!({
            "created_at": created_at, "generation": generation, "execution": execution, "waiting": waiting,
            "is_rolled_back": request.source.contains("rolled back"),
        }))
    }

    fn undo(&self, name: &str, expected: Option<ExpectedGeneration>) -> Result<Value, HttpFailure> {
        let held = self.held(name)?;
        let mut held = held.lock().unwrap();
        held.check(expected)?;
        if !std::mem::take(&mut held.can_undo) {
            return Err((410, "no state before".into()));
        }
        held.session.undo().unwrap();
        held.about.generation += 1;
        Ok(json!(held.about))
    }

    fn close(&self, name: &str, expected: Option<ExpectedGeneration>) -> Result<Value, HttpFailure> {
        let Ok(held) = self.held(name) else { return Ok(json!(false)) };
        held.lock().unwrap().check(expected)?;
        self.state.lock().unwrap().sessions.remove(name);
        Ok(json!(true))
    }

    /// Cancels the named execution and no other.
    fn cancel(&self, id: Option<String>) -> bool {
        let state = self.state.lock().unwrap();
        let running = state.running.get(&id.unwrap());
        running.inspect(|cancel| cancel.cancel()).is_some()
    }

    /// Answers the two queries that servers use. Returns the sessions in the query's scope.
    fn query(&self, query: &str) -> Value {
        let scope = query.split("starts_with(service_key, '").nth(1).and_then(|rest| rest.split('\'').next());
        let after = query.split("service_key > '").nth(1).and_then(|rest| rest.split('\'').next());
        let limit = query.split("LIMIT ").nth(1).map_or(usize::MAX, |limit| limit.parse().unwrap());
        let state = self.state.lock().unwrap();
        let mut all = state.listed.clone();
        all.extend(state.sessions.iter().map(|(name, held)| (name.clone(), held.lock().unwrap().about.clone())));
        let found = all.into_iter().filter(|(name, _)| {
            scope.is_none_or(|scope| name.starts_with(scope)) && after.is_none_or(|after| name.as_str() > after)
        });
        if query.contains("COUNT(*)") {
            return json!({ "rows": [{ "sessions": found.count() }] });
        }
        let rows: Vec<Value> = found
            .take(limit)
            .map(|(name, about)| json!({ "service_key": name, "value_utf8": json!({ "session": about }).to_string() }))
            .collect();
        json!({ "rows": rows })
    }
}

impl SessionEntry {
    fn check(&self, expected: Option<ExpectedGeneration>) -> Result<(), HttpFailure> {
        let is = ExpectedGeneration { created_at: self.about.created_at, generation: self.about.generation };
        if expected.is_none_or(|expected| expected == is) { Ok(()) } else { Err((412, "another generation".into())) }
    }

    /// Runs or resumes a script with tools whose calls the caller answers. Suspends it if it waits for an answer.
    fn step(
        &mut self,
        request: &ExecuteRequest,
        cancel: &CancelToken,
    ) -> Result<(Execution, Option<WaitingExecution>), HttpFailure> {
        let tools = request.tools.iter().filter(|tool| tool.callback.is_none());
        let tools = tools.map(|tool| Tool::new(&tool.name, &tool.description).stepped()).collect();
        let invalid = |error: &dyn std::error::Error| (400, error.to_string());
        let resumption = request.resumption.as_ref();
        let suspended = resumption.map(|resumption| Suspended::from_bytes(&resumption.suspended, None)).transpose();
        let suspended = suspended.map_err(|error| invalid(&error))?;
        let script = match &suspended {
            Some(suspended) => {
                let sandbox = Sandbox::builder(engine()).language(self.about.language).build().unwrap();
                self.session = sandbox.resume_suspended_session(suspended, ResumeOptions::default()).unwrap();
                suspended.request()
            }
            None => Request::new(&request.source).stdin(&request.stdin).suspendable(true),
        };
        let started = self.session.start(script.tools(tools).cancel(cancel)).unwrap();
        let mut step = started.advance(Vec::new(), None).unwrap();
        let answers: Vec<ToolAnswer> =
            resumption.into_iter().flat_map(|resumption| &resumption.answers).cloned().collect();
        if !answers.is_empty() && matches!(step, Step::NeedsTools(_)) {
            step = started.advance(answers, None).map_err(|error| invalid(&error))?;
        }
        let waiting = match step {
            Step::NeedsTools(calls) => {
                let suspended = started.suspend().unwrap().to_bytes(None);
                Some(WaitingExecution { calls, suspended })
            }
            _ => None,
        };
        let Ok(Step::Done(execution)) = started.advance(Vec::new(), None) else {
            panic!("the execution has not ended")
        };
        Ok(((*execution).clone(), waiting))
    }
}

fn given<T: DeserializeOwned>(body: Value) -> T {
    serde_json::from_value(body.clone()).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn about(name: &str, language: Language, runtime: &str, at: Timestamp) -> FleetSession {
    FleetSession {
        name: name.parse().unwrap(),
        language,
        runtime: runtime.to_owned(),
        version: None,
        image_sha256: "00".into(),
        generation: 1,
        executions: 0,
        bytes: 10,
        created_at: at,
        updated_at: at,
        is_running: false,
    }
}
