//! Scenarios that misuse the sandbox or exhaust its quotas.

use crate::{
    Event,
    glovebox::sandbox0_2_0::types::{Outcome, SandboxError},
    next_call, read, run, start,
    tasks::{all, begin_and_drop, drop_after},
    text,
};

pub async fn scenario(name: &str) -> Result<String, SandboxError> {
    match name {
        "drop-calls" => drop_calls().await,
        "unread" => unread().await,
        "halfway" => halfway().await,
        "cancelled-read" => cancelled_read().await,
        "drop-started" => drop_started().await,
        "leak" => leak().await,
        "too-many-calls" => too_many_calls().await,
        "too-many-streams" => too_many_streams().await,
        "too-many-events" => too_many_events().await,
        "finish-twice" => finish_twice().await,
        "many-answers" => many_answers().await,
        "out-of-fuel" => out_of_fuel().await,
        _ => panic!("unknown scenario `{name}`"),
    }
}

/// A script that runs until it is cancelled.
const ENDLESS: &str = "for (;;);";

/// A script that writes a million bytes, and then waits for an answer.
const LONG: &str = "for (let i = 0; i < 1000; i++) console.log('x'.repeat(999)); await tools.ask()";

/// Drops calls of each function while their scripts run. The host checks that all resources are released.
async fn drop_calls() -> Result<String, SandboxError> {
    begin_and_drop(run(ENDLESS)).await;
    begin_and_drop(start(ENDLESS, &[])).await;
    // The endless script runs while the other script waits.
    drop_after(run(ENDLESS), run("await tools.pause()")).await?;
    let started = start("await tools.ask()", &["ask"]).await?;
    begin_and_drop(started.finish()).await;
    // Dropping `finish` has not cancelled the script.
    let call = next_call(&mut started.events()?).await;
    started.answer(call.id, Ok("1"))?;
    Ok(format!("{:?}", started.finish().await?.outcome))
}

/// Leaves a stream unread until the script has ended.
async fn unread() -> Result<String, SandboxError> {
    let started = start(LONG, &["ask"]).await?;
    let (stdout, events) = (started.stdout()?, started.events()?);
    let call = next_call(&mut started.events()?).await;
    started.answer(call.id, Ok("1"))?;
    let execution = started.finish().await?;
    assert!(matches!(execution.outcome, Outcome::Completed), "{:?}", execution.outcome);
    assert!(events.collect().await.is_empty());
    Ok(stdout.collect().await.len().to_string())
}

/// Drops a stream halfway, and reads another one from the start.
async fn halfway() -> Result<String, SandboxError> {
    let started = start(LONG, &["ask"]).await?;
    for count in [1, 10, 70_000] {
        let mut stdout = started.stdout()?;
        assert!(!read(&mut stdout, count).await.is_empty());
    }
    let mut stdout = started.stdout()?;
    let mut total = 0;
    while total < 1_000_000 {
        total += read(&mut stdout, 70_000).await.len();
    }
    drop(stdout);
    started.cancel();
    let execution = started.finish().await?;
    Ok(format!("{total} {:?}", execution.outcome))
}

/// Cancels reads. No byte is lost.
async fn cancelled_read() -> Result<String, SandboxError> {
    let started = start("await tools.ask(); console.log('whole'); await tools.ask()", &["ask"]).await?;
    let (mut stdout, mut events) = (started.stdout()?, started.events()?);
    begin_and_drop(stdout.read(Vec::with_capacity(10))).await;
    let call = next_call(&mut events).await;
    begin_and_drop(events.next()).await;
    started.answer(call.id, Ok("1"))?;
    let first = text(read(&mut stdout, 2).await);
    // A read of zero events waits for the next event.
    events.read(Vec::new()).await;
    let call = next_call(&mut events).await;
    started.answer(call.id, Ok("1"))?;
    Ok(first + &text(stdout.collect().await))
}

/// Drops a started execution before its streams. The streams then end.
async fn drop_started() -> Result<String, SandboxError> {
    let started = start("console.log('begun'); for (;;);", &[]).await?;
    let (mut stdout, events) = (started.stdout()?, started.events()?);
    let mut begun = read(&mut stdout, 100).await;
    drop(started);
    begun.extend(stdout.collect().await);
    assert!(events.collect().await.is_empty());
    Ok(text(begun))
}

/// Leaks handles, streams and calls. The host then drops the store.
async fn leak() -> Result<String, SandboxError> {
    let started = start(ENDLESS, &[]).await?;
    std::mem::forget((started.stdout()?, started.events()?));
    std::mem::forget(started);
    let mut call = Box::pin(run(ENDLESS));
    std::future::poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    std::mem::forget(call);
    Ok(String::new())
}

/// Makes ten concurrent calls, of which the quota allows four.
async fn too_many_calls() -> Result<String, SandboxError> {
    let results = all((0..10).map(|_| run("await tools.pause()"))).await;
    let refused = results.iter().filter(|result| matches!(result, Err(SandboxError::QuotaExceeded(_)))).count();
    let completed = results
        .iter()
        .filter(|result| result.as_ref().is_ok_and(|execution| matches!(execution.outcome, Outcome::Completed)));
    let completed = completed.count();
    run("1").await?;
    Ok(format!("{completed} {refused}"))
}

/// Opens streams until the quota is exhausted. Dropped streams do not count.
async fn too_many_streams() -> Result<String, SandboxError> {
    let started = start("await tools.ask()", &["ask"]).await?;
    for _ in 0..100 {
        started.stdout()?;
        started.events()?;
    }
    let mut streams = Vec::new();
    let error = loop {
        match started.stdout() {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
    };
    let count = streams.len();
    streams.pop();
    started.stderr()?;
    assert!(matches!(error, SandboxError::QuotaExceeded(_)), "{error:?}");
    Ok(count.to_string())
}

/// Opens event streams until the byte quota is exhausted, and reads the same call from all of them. Output streams are
/// not charged to the quota.
async fn too_many_events() -> Result<String, SandboxError> {
    let started = start("await tools.ask()", &["ask"]).await?;
    let mut streams = Vec::new();
    let error = loop {
        match started.events() {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
    };
    started.stdout()?;
    assert!(matches!(error, SandboxError::QuotaExceeded(_)), "{error:?}");
    let calls = all(streams.iter_mut().map(next_call)).await;
    Ok(calls.len().to_string())
}

/// Waits twice for the same execution.
async fn finish_twice() -> Result<String, SandboxError> {
    let started = start("await tools.pause()", &[]).await?;
    let results = all([started.finish(), started.finish()]).await;
    assert!(results[0].is_ok());
    assert!(matches!(results[1], Err(SandboxError::SessionBusy(_))), "{:?}", results[1]);
    // After the end, each call returns the execution.
    Ok(format!("{:?}", started.finish().await?.outcome))
}

/// Answers calls that the script does not wait for.
async fn many_answers() -> Result<String, SandboxError> {
    let source = "let sum = 0;
        for (let i = 0; i < 50; i++) sum += await Promise.any([tools.ask(), tools.ask()]);
        console.log(sum)";
    let started = start(source, &["ask"]).await?;
    let mut events = started.events()?;
    let mut count = 0;
    while let Some(Event::ToolRequest(call)) = events.next().await {
        started.answer(call.id, Ok("1"))?;
        count += 1;
    }
    assert!(count >= 50, "{count}");
    let execution = started.finish().await?;
    Ok(text(execution.stdout.bytes))
}

/// Exhausts the fuel quota. The first script still runs when the others are refused.
async fn out_of_fuel() -> Result<String, SandboxError> {
    let results = all((0..3).map(|_| run("for (let i = 0; i < 3e6; i++);"))).await;
    let refused = results.iter().filter(|result| matches!(result, Err(SandboxError::QuotaExceeded(_)))).count();
    Ok(format!("{} {refused}", results.len() - refused))
}
