//! Tests the network APIs of scripts: `fetch`, `urllib.request`, `http.client`, `requests`. The host's restrictions are
//! tested next to their code, in `host/network/src/tests`.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Barrier, Mutex},
    thread,
    time::{Duration, Instant},
};

use glovebox::{
    CancelToken, Execution, HibernateOptions, Language, NetworkPolicy, Outcome, Policy, Request, Sandbox, SecretPolicy,
    ToolErrorKind, ToolOutcome,
};
use glovebox_network::Replay;
use glovebox_tests::engine;

/// A server that echoes each request as JSON. `/slow` waits, `/status/N` responds with that status, and `/to/PATH`
/// redirects.
struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new() -> Self {
        Self::meeting(None)
    }

    /// Starts a server that delays requests to `/meet` until as many have arrived as the barrier requires.
    fn meeting(barrier: Option<Arc<Barrier>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, heard) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
        let written = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (written, barrier) = (Arc::clone(&written), barrier.clone());
                thread::spawn(move || answer(&mut stream.unwrap(), &written, barrier.as_deref()));
            }
        });
        Self { port, heard }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    fn policy(&self) -> Policy {
        let mut policy = Policy::default();
        policy.limits.timeout_ms = 60_000;
        policy.network = NetworkPolicy::allowing([format!("{}/*", self.url())]);
        policy.network.allow_private = vec!["127.0.0.0/8".into()];
        policy
    }

    fn sandbox(&self, language: Language, edit: impl FnOnce(&mut Policy)) -> Sandbox {
        let mut policy = self.policy();
        edit(&mut policy);
        Sandbox::builder(engine()).language(language).policy(policy).build().unwrap()
    }

    /// Runs a script in which `BASE` is replaced with this server's URL.
    fn run(&self, sandbox: &Sandbox, source: &str) -> Execution {
        sandbox.execute(&source.replace("BASE", &format!("'{}'", self.url()))).unwrap()
    }

    fn output(&self, language: Language, source: &str) -> String {
        let execution = self.run(&self.sandbox(language, |_| ()), source);
        assert!(execution.is_success(), "{:?} {}", execution.outcome, execution.stderr.text());
        execution.stdout.text()
    }
}

fn answer(stream: &mut TcpStream, heard: &Mutex<Vec<String>>, barrier: Option<&Barrier>) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    let request = loop {
        let read = stream.read(&mut chunk).unwrap_or(0);
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let length =
            text.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if read == 0 || text.find("\r\n\r\n").is_some_and(|head| bytes.len() >= head + 4 + length.unwrap_or(0)) {
            break text;
        }
    };
    heard.lock().unwrap().push(request.clone());
    let path = request.split(' ').nth(1).unwrap_or("/").to_owned();
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    match path.as_str() {
        "/slow" => thread::sleep(Duration::from_secs(300)),
        "/meet" => drop(barrier.map(Barrier::wait)),
        _ => {}
    }
    let head = request.lines().take_while(|line| !line.is_empty()).skip(1).collect::<Vec<_>>().join("\n");
    let method = request.split(' ').next().unwrap_or_default();
    let echo = serde_json::json!({ "method": method, "path": path, "headers": head, "body": body }).to_string();
    let (status, more) = match (path.strip_prefix("/status/"), path.strip_prefix("/to/")) {
        (Some(status), _) => (status.to_owned(), String::new()),
        (_, Some(to)) => ("302".to_owned(), format!("Location: /{to}\r\n")),
        _ => ("200".to_owned(), String::new()),
    };
    let kind = "Content-Type: application/json\r\nSet-Cookie: seen=yes; Path=/\r\n";
    let body = if method == "HEAD" { "" } else { &echo };
    let _ = write!(stream, "HTTP/1.1 {status} Done\r\n{kind}{more}Content-Length: {}\r\n\r\n{body}", echo.len());
}

#[test]
fn fetch_behaves_as_in_node() {
    let server = Server::new();
    let printed = server.output(
        Language::JavaScript,
        "const one = await fetch(BASE + '/a?b=c');
        console.log(one.status, one.ok, one.type, one.redirected, one.url.endsWith('/a?b=c'), one.headers.get('Content-Type'));
        console.log((await one.json()).path, one.bodyUsed);
        const post = await fetch(new Request(BASE + '/p', { method: 'post', body: JSON.stringify({ é: 1 }), headers: { 'X-A': '1' } }));
        const echo = await post.json();
        console.log(echo.method, echo.body, /x-a: 1/.test(echo.headers), /text\\/plain/.test(echo.headers));
        const form = await (await fetch(BASE, { method: 'PUT', body: new URLSearchParams({ a: 'b c' }) })).json();
        console.log(form.body, /x-www-form-urlencoded/.test(form.headers));
        const bytes = await (await fetch(BASE, { method: 'POST', body: new Uint8Array([65, 66]) })).arrayBuffer();
        console.log(bytes instanceof ArrayBuffer, bytes.byteLength > 10);
        const moved = await fetch(BASE + '/to/end');
        console.log(moved.redirected, moved.url.endsWith('/end'), (await fetch(BASE + '/to/end', { redirect: 'manual' })).status);
        console.log(await fetch(BASE + '/to/end', { redirect: 'error' }).catch((error) => error.message));
        const not = await fetch(BASE + '/status/404');
        console.log(not.ok, not.status, await not.text().then((text) => text.length > 1), await not.text().catch((e) => e.name));
        console.log((await fetch(BASE, { method: 'HEAD' })).status, await fetch(BASE, { body: 'x' }).catch((e) => e.name));
        console.log(await fetch('nowhere').catch((error) => `${error}`));",
    );
    assert_eq!(
        printed,
        "200 true basic false true application/json\n/a?b=c true\nPOST {\"é\":1} true true\na=b+c true\ntrue true\n\
         true true 302\nfetch failed: unexpected redirect\nfalse 404 true TypeError\n200 TypeError\n\
         TypeError: Failed to parse URL from nowhere\n"
    );
}

#[test]
fn requests_of_one_script_run_concurrently() {
    // The server only answers when all requests have arrived.
    let server = Server::meeting(Some(Arc::new(Barrier::new(4))));
    let printed = server.output(
        Language::JavaScript,
        "const all = await Promise.all([1, 2, 3, 4].map(() => fetch(BASE + '/meet')));\nconsole.log(all.map((one) => one.status));",
    );
    assert_eq!(printed, "[ 200, 200, 200, 200 ]\n");
}

#[test]
fn fetch_can_be_aborted() {
    let server = Server::new();
    let begun = Instant::now();
    let printed = server.output(
        Language::JavaScript,
        "const stop = new AbortController();
        setTimeout(() => stop.abort(), 50);
        console.log(await fetch(BASE + '/slow', { signal: stop.signal }).catch((error) => error.name));
        console.log(await fetch(BASE + '/slow', { signal: AbortSignal.timeout(50) }).catch((error) => error.name));
        console.log(await fetch(BASE + '/slow', { signal: AbortSignal.abort(7) }).catch((error) => error));",
    );
    assert_eq!(printed, "AbortError\nTimeoutError\n7\n");
    assert!(begun.elapsed() < Duration::from_secs(60) && server.heard().len() <= 2);
}

const PYTHON: &str = "
import http.client, json, requests, urllib.error, urllib.request
with urllib.request.urlopen(BASE + '/a?b=c', timeout=30) as one:
    print(one.status, one.headers['content-type'], json.load(one)['path'])
put = urllib.request.Request(BASE + '/p', data=b'a=1', headers={'X-A': '1'}, method='PUT')
echo = json.load(urllib.request.urlopen(put))
print(echo['method'], echo['body'], 'x-a: 1' in echo['headers'], echo['headers'].count('host: '))
try: urllib.request.urlopen(BASE + '/status/404')
except urllib.error.HTTPError as error: print(error.code, len(error.read()) > 1)
print(urllib.request.build_opener().open(BASE + '/to/end').url.endswith('/end'))
try: urllib.request.urlopen(BASE + '/slow', timeout=0.2)
except urllib.error.URLError as error: print(type(error.reason).__mro__[2].__name__)
connection = http.client.HTTPConnection(BASE[7:])
connection.request('POST', '/', iter([b'ab', b'c']))
print(json.loads(connection.getresponse().read())['body'])
connection.putrequest('POST', '/')
connection.putheader('Content-Length', '3')
connection.endheaders()
connection.send(b'xyz')
print(json.loads(connection.getresponse().read())['body'])

with requests.Session() as session:
    session.headers['X-S'] = '1'
    moved = session.get(BASE + '/to/end', params={'q': [1, 2]})
    print(moved, moved.ok, [one.status_code for one in moved.history], session.cookies.get_dict(), 'seen=yes' in moved.json()['headers'])
posted = requests.post(BASE + '/j', json={'a': [1]}, auth=('me', 'it'))
print(posted.json()['body'], 'Basic bWU6aXQ=' in posted.json()['headers'], posted.headers['CONTENT-type'], posted.encoding)
print([getattr(requests, name)(BASE).json()['method'] for name in ('put', 'patch', 'delete', 'options')], requests.head(BASE).status_code)
for ask in (
    lambda: requests.get(BASE + '/status/500').raise_for_status(),
    lambda: requests.get('https://evil.example/'),
    lambda: requests.get(BASE + '/slow', timeout=0.2),
    lambda: requests.get('nowhere'),
    lambda: requests.get(BASE, headers={'Host': 'evil.example'}),
    lambda: requests.get(BASE, headers={'A': 'b\\r\\nHost: evil.example'}),
):
    try: ask()
    except requests.RequestException as error: print(type(error).__name__)
";

const PYTHON_PRINTS: &str = "200 application/json /a?b=c
PUT a=1 True 1
404 True
True
TimeoutError
abc
xyz
<Response [200]> True [302] {'seen': 'yes'} True
{\"a\": [1]} True application/json None
['PUT', 'PATCH', 'DELETE', 'OPTIONS'] 200
HTTPError
ConnectionError
ReadTimeout
MissingSchema
RequestException
InvalidHeader
";

#[test]
fn python_http_clients_behave_as_in_cpython() {
    let server = Server::new();
    for name in ["python-3.12", "python-3.15"] {
        let sandbox = Sandbox::builder(engine()).runtime(name).policy(server.policy()).build().unwrap();
        let ran = server.run(&sandbox, PYTHON);
        assert_eq!(
            (ran.stdout.text().as_str(), ran.stderr.text().as_str()),
            (PYTHON_PRINTS, ""),
            "{name}: {:?}",
            ran.outcome
        );
    }
}

#[test]
fn network_is_off_by_default_with_a_hint() {
    for (language, source) in [
        (Language::JavaScript, "await fetch('https://example.com/')"),
        (Language::Python, "import urllib.request; urllib.request.urlopen('https://example.com/')"),
        (Language::Python, "import requests; requests.get('https://example.com/')"),
    ] {
        let ran = Sandbox::builder(engine()).language(language).build().unwrap().execute(source).unwrap();
        let Outcome::Raised(raised) = &ran.outcome else { panic!("{:?}", ran.outcome) };
        assert!(raised.message.contains("the network is off in this sandbox"), "{source}: {}", raised.message);
        let guidance = serde_json::to_string(&ran.guidance).unwrap();
        assert!(guidance.contains("--allow-net") && guidance.contains("\"network\""), "{guidance}");
        let failed =
            |outcome: &ToolOutcome| matches!(outcome, ToolOutcome::Failed { kind: ToolErrorKind::Unknown, .. });
        assert!(ran.tool_calls.len() == 1 && failed(&ran.tool_calls[0].outcome), "{:?}", ran.tool_calls);
    }
}

#[test]
fn requests_are_recorded_as_tool_calls_without_secrets() {
    let server = Server::new();
    // Cargo sets this environment variable, so the test need not set one.
    let (name, secret) = ("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));
    let allow = |policy: &mut Policy| {
        policy.network.secrets.insert("KEY".into(), SecretPolicy::new(name, "127.0.0.1"));
    };
    for (language, source) in [
        (
            Language::JavaScript,
            "const r = await fetch(BASE + '/a', { headers: { Authorization: process.env.KEY } }); console.log(process.env.KEY, await r.text(), [...r.headers])",
        ),
        (
            Language::Python,
            "import os, urllib.request as u\nr = u.urlopen(u.Request(BASE + '/a', headers={'Authorization': os.environ['KEY']}))\nprint(os.environ['KEY'], r.read(), r.headers)",
        ),
    ] {
        let sandbox = server.sandbox(language, allow);
        let ran = server.run(&sandbox, source);
        assert!(ran.is_success(), "{}", ran.stderr.text());
        assert!(server.heard().last().unwrap().contains(&format!("authorization: {secret}\r\n")));
        let shown = format!(
            "{sandbox:?} {ran:?} {} {}",
            serde_json::to_string(&ran.tool_calls).unwrap(),
            sandbox.policy().to_toml().unwrap()
        );
        assert!(!shown.contains(secret), "{shown}");
        let [call] = &ran.tool_calls[..] else { panic!("{:?}", ran.tool_calls) };
        assert_eq!((call.name.as_str(), call.outcome.word()), ("network.fetch", "returned"));
        let json = serde_json::to_value(call).unwrap();
        assert_eq!((&json["arguments"]["method"], &json["result"]["status"]), (&"GET".into(), &200.into()));
        assert!(
            json["arguments"]["url"].as_str().unwrap().ends_with("/a") && json["result"]["bytes"].as_u64() > Some(10)
        );
        // The session's bytes do not contain the secret either.
        let session = sandbox.session().unwrap();
        session.execute(&source.replace("BASE", &format!("'{}'", server.url()))).unwrap();
        let bytes = session.hibernate(&HibernateOptions::default()).unwrap();
        let begin = bytes.windows(4).position(|window| window == [0x28, 0xb5, 0x2f, 0xfd]).unwrap();
        let mut saved = Vec::new();
        // Decodes a single frame, because a seal follows it.
        zstd::Decoder::new(&bytes[begin..]).unwrap().single_frame().read_to_end(&mut saved).unwrap();
        let has = |text: &str| saved.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(has("glovebox-secret-") && !has(secret), "{language}");
    }
}

#[test]
fn request_limit_applies_per_execution() {
    let server = Server::new();
    let sandbox = server.sandbox(Language::JavaScript, |policy| policy.network.request_count = 2);
    let source = "for (let i = 0; i < COUNT; i++) await fetch(BASE)";
    for (count, fits) in [("1", true), ("2", true), ("3", false), ("1", true)] {
        let ran = server.run(&sandbox, &source.replace("COUNT", count));
        assert_eq!(ran.is_success(), fits, "{count}");
        assert!(fits || ran.stderr.text().contains("has reached `network.request_count` (2)"), "{}", ran.stderr.text());
    }
    // Requests are charged as tool calls.
    let sandbox = server.sandbox(Language::JavaScript, |policy| policy.limits.tool_calls = 1);
    assert!(server.run(&sandbox, "await fetch(BASE); await fetch(BASE)").stderr.text().contains("limits.tool_calls"));
}

#[test]
fn bodies_may_exceed_the_tool_limit() {
    let server = Server::new();
    let sandbox = server.sandbox(Language::Python, |policy| {
        policy.limits.tool_bytes = 1_000;
        policy.network.request_bytes = 500_000;
    });
    let source = "import requests\nprint(len(requests.post(BASE, data='x' * COUNT).json()['body']))";
    for (count, fits) in [("500000", true), ("500001", false)] {
        let ran = server.run(&sandbox, &source.replace("COUNT", count));
        assert_eq!(ran.is_success(), fits, "{count}: {}", ran.stderr.text());
        assert!(fits || ran.stderr.text().contains("`network.request_bytes` is 500000;"), "{}", ran.stderr.text());
    }
    let ran = server.run(&sandbox, "tools.nothing");
    assert!(!ran.is_success());
}

#[test]
fn wait_for_a_response_ends_on_cancel_or_deadline() {
    let server = Server::new();
    for language in &Language::ALL {
        let source = match language {
            Language::Python => "import urllib.request; urllib.request.urlopen(BASE + '/slow')",
            Language::JavaScript => "await fetch(BASE + '/slow')",
        };
        let source = source.replace("BASE", &format!("'{}'", server.url()));
        let sandbox = server.sandbox(*language, |policy| policy.limits.timeout_ms = 500);
        assert!(matches!(sandbox.execute(&source).unwrap().outcome, Outcome::Exhausted { .. } | Outcome::Raised(_)));
        let sandbox = server.sandbox(*language, |policy| {
            policy.limits.timeout_ms = 600_000;
            policy.limits.tool_timeout_ms = 600_000;
            policy.network.timeout_ms = 300_000;
        });
        let cancel = CancelToken::new();
        let (other, heard, before) = (cancel.clone(), Arc::clone(&server.heard), server.heard().len());
        thread::spawn(move || {
            while heard.lock().unwrap().len() == before {
                thread::sleep(Duration::from_millis(5));
            }
            other.cancel();
        });
        let begun = Instant::now();
        let ran = sandbox.run(Request::new(&source).cancel(&cancel)).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60), "{language}: {:?}", begun.elapsed());
        assert!(!ran.is_success(), "{:?}", ran.outcome);
    }
}

#[test]
fn recording_answers_only_identical_requests() {
    let server = Server::new();
    let source = "import requests\nfor n in 1, 2, 1: print(requests.post(BASE, data=str(n)).json()['body'])\ntry: requests.get(BASE[:16])\n\
                  except requests.ConnectionError as error: print(error)";
    let ran = server.run(&server.sandbox(Language::Python, |_| ()), source);
    assert_eq!((ran.tool_calls.len(), server.heard().len()), (4, 3), "{}", ran.stderr.text());
    let builder = Sandbox::builder(engine()).policy(server.policy()).network(Replay::new(ran.tool_calls));
    let replaying = builder.build().unwrap();
    assert_eq!(server.run(&replaying, source).stdout.text(), ran.stdout.text());
    assert_eq!(server.heard().len(), 3, "a replay must not send requests");
    let again = server.run(&replaying, source);
    assert!(
        again.stderr.text().contains("cannot replay the request: it was not recorded"),
        "each recorded request answers once: {}",
        again.stderr.text()
    );
}
