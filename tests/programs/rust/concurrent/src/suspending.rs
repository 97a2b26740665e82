//! Scenarios that suspend executions and resume them.

use crate::{
    glovebox::{
        sandbox0_2_0::types::{
            Clock, Entropy, Execution, InputFile, Limits, Outcome, Policy, Request, Runtime, SandboxError,
        },
        sandbox0_3_0::sandbox::{self, Started},
    },
    next_call, no_limits, policy, request, run,
    tasks::{all, poll_and_drop},
    text, tool,
};

pub async fn scenario(name: &str) -> Result<String, SandboxError> {
    match name {
        "suspend-same" => same().await,
        "suspend-fork" => fork().await,
        "suspend-streams" => streams().await,
        "suspend-forged" => forged().await,
        "suspend-other-files" => other_files().await,
        "suspend-refused" => refused().await,
        "suspend-dropped" => dropped().await,
        "suspend-at-once" => at_once().await,
        "suspend-last-execution" => last_execution().await,
        "suspend-held-bytes" => held_bytes().await,
        _ => crate::suspending_sessions::scenario(name).await,
    }
}

/// A script that makes two calls.
const ASKS_TWICE: &str = "console.log('before', Math.random(), Date.now());
    console.log(await tools.ask({ q: 1 }));
    console.log(await tools.ask({ q: 2 }), Math.random())";

/// A script that makes one call.
const ASKS: &str = "console.log(await tools.ask({ q: 1 }))";

/// Returns a policy that makes executions reproducible, including their fuel.
pub fn repeatable() -> Policy {
    Policy { clock: Some(Clock::Fixed(1_000_000_000)), entropy: Some(Entropy::Seeded(7)), ..policy() }
}

pub async fn start_suspendable(source: &str, policy: Policy) -> Result<Started, SandboxError> {
    sandbox::start_suspendable(Runtime::Javascript, request(source), policy, vec![tool("ask")]).await
}

pub async fn resume(bytes: &[u8], policy: Policy) -> Result<Started, SandboxError> {
    sandbox::resume_suspended(Runtime::Javascript, bytes.to_vec(), Vec::new(), policy, vec![tool("ask")]).await
}

/// Starts a script, waits for its first call, and suspends it.
pub async fn suspended(source: &str) -> Result<Vec<u8>, SandboxError> {
    let started = start_suspendable(source, policy()).await?;
    next_call(&mut started.events()?).await;
    suspend(&started).await
}

/// Suspends an execution. Retries while another call suspends it or the script does not wait yet.
pub async fn suspend(started: &Started) -> Result<Vec<u8>, SandboxError> {
    loop {
        match started.suspend().await {
            Err(SandboxError::SessionBusy(_)) => drop(run("await tools.pause()").await?),
            result => return result,
        }
    }
}

/// Answers the next call of a script.
pub async fn answer(started: &Started, answer: &str) -> Result<u64, SandboxError> {
    let call = next_call(&mut started.events()?).await;
    started.answer(call.id, Ok(answer))?;
    Ok(call.id)
}

/// Answers the next call, and returns the output of the completed execution.
pub async fn output(started: &Started, reply: &str) -> Result<String, SandboxError> {
    answer(started, reply).await?;
    let execution = started.finish().await?;
    assert!(matches!(execution.outcome, Outcome::Completed), "{:?}", execution.outcome);
    Ok(text(execution.stdout.bytes))
}

/// Returns the parts of an execution that do not depend on the machine.
pub fn parts(execution: &Execution) -> (String, String, u64, usize) {
    let Execution { outcome, stdout, fuel_consumed, tool_calls, .. } = execution;
    (format!("{outcome:?}"), text(stdout.bytes.clone()), *fuel_consumed, tool_calls.len())
}

pub fn is_unsupported<T>(result: &Result<T, SandboxError>) -> bool {
    matches!(result, Err(SandboxError::Unsupported(_)))
}

/// Returns empty, truncated, extended and changed copies of the bytes.
pub fn changed_copies(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut copies = vec![Vec::new(), bytes[..bytes.len() - 1].to_vec(), [bytes, &[0]].concat()];
    for at in [0, 8, 10, 12, bytes.len() / 2, bytes.len() - 1] {
        let mut changed = bytes.to_vec();
        changed[at] ^= 1;
        copies.push(changed);
    }
    copies
}

/// Suspends a script at both calls. The execution equals one that was not suspended.
async fn same() -> Result<String, SandboxError> {
    let started = start_suspendable(ASKS_TWICE, repeatable()).await?;
    assert_eq!((answer(&started, "\"a\"").await?, answer(&started, "2").await?), (0, 1));
    let expected = started.finish().await?;

    let mut started = start_suspendable(ASKS_TWICE, repeatable()).await?;
    for (id, reply) in [(0, "\"a\""), (1, "2")] {
        let call = next_call(&mut started.events()?).await;
        let bytes = suspend(&started).await?;
        assert!(matches!(started.finish().await?.outcome, Outcome::Cancelled));
        started = resume(&bytes, repeatable()).await?;
        let again = next_call(&mut started.events()?).await;
        assert_eq!((again.id, &again.name, &again.arguments), (call.id, &call.name, &call.arguments));
        assert_eq!(again.id, id);
        started.answer(id, Ok(reply))?;
    }
    let execution = started.finish().await?;
    assert_eq!(parts(&execution), parts(&expected));
    Ok(format!("{:?} {}", execution.outcome, execution.tool_calls.len()))
}

/// Resumes the same bytes in two concurrent executions, with different answers.
async fn fork() -> Result<String, SandboxError> {
    let started = start_suspendable(ASKS_TWICE, policy()).await?;
    answer(&started, "1").await?;
    next_call(&mut started.events()?).await;
    let bytes = suspend(&started).await?;
    assert_eq!(started.suspend().await?, bytes, "each call returns the bytes");
    drop(started);
    let outputs = all(["\"b\"", "\"c\""].map(|reply| {
        let bytes = &bytes;
        async move { output(&resume(bytes, policy()).await?, reply).await }
    }));
    let outputs: Result<Vec<_>, SandboxError> = outputs.await.into_iter().collect();
    let outputs = outputs?;
    // The first two lines are from before the suspension, and contain a time and a random number.
    let lines: Vec<Vec<_>> = outputs.iter().map(|output| output.lines().collect()).collect();
    assert_eq!(lines[0][..2], lines[1][..2]);
    let replies = lines.iter().map(|lines| &lines[2][..2]);
    Ok(format!("{} {}", lines[0][1], replies.collect::<String>()))
}

/// Checks that the streams of a suspended execution end, and that the streams of the resumed execution contain the
/// whole output.
async fn streams() -> Result<String, SandboxError> {
    let started = start_suspendable(ASKS_TWICE, policy()).await?;
    let (stdout, mut events) = (started.stdout()?, started.events()?);
    next_call(&mut events).await;
    let bytes = suspend(&started).await?;
    assert!(events.collect().await.is_empty());
    let before = text(stdout.collect().await);
    assert!(before.starts_with("before "), "{before}");
    drop(started);

    let resumed = resume(&bytes, policy()).await?;
    let stdout = resumed.stdout()?;
    answer(&resumed, "1").await?;
    answer(&resumed, "2").await?;
    let whole = text(stdout.collect().await);
    let after = whole.strip_prefix(&before).expect("the output is repeated");
    Ok(after[..3].replace('\n', " "))
}

/// Checks that changed bytes are rejected, and that the unchanged bytes still work.
async fn forged() -> Result<String, SandboxError> {
    let bytes = suspended(ASKS).await?;
    let forged = changed_copies(&bytes);
    let count = forged.len();
    for bytes in forged {
        let refused = resume(&bytes, policy()).await;
        assert!(matches!(refused, Err(SandboxError::NotResumable(_))), "{refused:?}");
    }
    // The resuming policy sets the limits, not the bytes.
    let limits = Limits { source_bytes: Some(10), ..no_limits() };
    let refused = resume(&bytes, Policy { limits: Some(limits), ..policy() }).await;
    assert!(matches!(refused, Err(SandboxError::SourceTooLarge(_))), "{refused:?}");
    Ok(format!("{count} {}", output(&resume(&bytes, policy()).await?, "1").await?))
}

/// Resumes a script that has read a file, with a different version of the file.
async fn other_files() -> Result<String, SandboxError> {
    let source = "console.log(std.loadFile('a')); console.log(await tools.ask())";
    let files = |text: &str| vec![InputFile { path: "a".into(), bytes: text.into() }];
    let request = Request { files: Some(files("old")), ..request(source) };
    let started = sandbox::start_suspendable(Runtime::Javascript, request, policy(), vec![tool("ask")]).await?;
    next_call(&mut started.events()?).await;
    let bytes = suspend(&started).await?;
    let resume = |text: &str| {
        sandbox::resume_suspended(Runtime::Javascript, bytes.clone(), files(text), policy(), vec![tool("ask")])
    };
    let newer = resume("newer").await?;
    assert!(newer.events()?.collect().await.is_empty(), "the script makes no call");
    let refused = newer.finish().await;
    assert!(matches!(refused, Err(SandboxError::NotResumable(_))), "{refused:?}");
    Ok(output(&resume("old").await?, "1").await?.replace('\n', " "))
}

/// Checks that a rejected suspension does not change the execution.
async fn refused() -> Result<String, SandboxError> {
    let plain = crate::start(ASKS, &["ask"]).await?;
    let call = next_call(&mut plain.events()?).await;
    let result = plain.suspend().await;
    assert!(is_unsupported(&result), "{result:?}");
    plain.answer(call.id, Ok("1"))?;
    let execution = plain.finish().await?;
    let result = plain.suspend().await;
    assert!(is_unsupported(&result), "{result:?}");

    let ended = start_suspendable("1", policy()).await?;
    ended.finish().await?;
    let result = ended.suspend().await;
    assert!(is_unsupported(&result), "{result:?}");

    let endless = start_suspendable("for (;;);", policy()).await?;
    let result = endless.suspend().await;
    assert!(matches!(result, Err(SandboxError::SessionBusy(_))), "{result:?}");
    endless.cancel();
    Ok(format!("{}{:?}", text(execution.stdout.bytes), endless.finish().await?.outcome))
}

/// Drops a call to `suspend`. A later call returns the bytes.
async fn dropped() -> Result<String, SandboxError> {
    let started = start_suspendable(ASKS, policy()).await?;
    next_call(&mut started.events()?).await;
    // The call can return immediately: on a fast machine, or if the script does not wait yet.
    let early = poll_and_drop(started.suspend()).await;
    let bytes = suspend(&started).await?;
    match early {
        None | Some(Err(SandboxError::SessionBusy(_))) => {}
        Some(early) => assert_eq!(early?, bytes),
    }
    assert!(matches!(started.finish().await?.outcome, Outcome::Cancelled));
    output(&resume(&bytes, policy()).await?, "1").await
}

/// Makes two concurrent calls to `suspend` for one execution.
async fn at_once() -> Result<String, SandboxError> {
    let started = start_suspendable(ASKS, policy()).await?;
    next_call(&mut started.events()?).await;
    let mut suspended = Vec::new();
    while suspended.is_empty() {
        for result in all([started.suspend(), started.suspend()]).await {
            match result {
                Ok(bytes) => suspended.push(bytes),
                // The other call is suspending the execution, or the script does not wait yet.
                Err(SandboxError::SessionBusy(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    // The second call may have begun after the first one had suspended the execution.
    assert!(suspended.iter().all(|bytes| *bytes == suspended[0]));
    output(&resume(&suspended[0], policy()).await?, "1").await
}

/// Suspends and resumes with a quota of one execution.
async fn last_execution() -> Result<String, SandboxError> {
    let started = start_suspendable(ASKS, policy()).await?;
    next_call(&mut started.events()?).await;
    let result = run("1").await;
    assert!(matches!(result, Err(SandboxError::QuotaExceeded(_))), "{result:?}");
    let bytes = loop {
        match started.suspend().await {
            // The script does not wait yet.
            Err(SandboxError::SessionBusy(_)) => {}
            result => break result?,
        }
    };
    output(&resume(&bytes, policy()).await?, "1").await
}

/// Fills the byte quota with event streams of 65,536 bytes each. Suspending needs 2 MiB in addition to the request,
/// which is as much as 32 or 33 streams.
async fn held_bytes() -> Result<String, SandboxError> {
    let started = start_suspendable(ASKS, policy()).await?;
    next_call(&mut started.events()?).await;
    let mut streams = Vec::new();
    let error = loop {
        match started.events() {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SandboxError::QuotaExceeded(_)), "{error:?}");
    // The journal of a running execution is charged in advance.
    let refused = start_suspendable(ASKS, policy()).await;
    assert!(matches!(refused, Err(SandboxError::QuotaExceeded(_))), "{refused:?}");
    let mut count = 0;
    let bytes = loop {
        match started.suspend().await {
            Err(SandboxError::QuotaExceeded(_)) => {
                assert!(streams.pop().is_some());
                count += 1;
            }
            // The script does not wait yet.
            Err(SandboxError::SessionBusy(_)) => {}
            result => break result?,
        }
    };
    assert!((32..=33).contains(&count), "{count}");
    drop((streams, started));
    output(&resume(&bytes, policy()).await?, "1").await
}
