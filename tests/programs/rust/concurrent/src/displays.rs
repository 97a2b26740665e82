//! Scenarios with displays.

use wit_bindgen::StreamReader;

use crate::{
    Event, Started,
    glovebox::sandbox0_2_0::types::{Display, Execution, Outcome, SandboxError},
    next_call, policy, request, sessions, start, suspending,
};

pub async fn scenario(name: &str) -> Result<String, SandboxError> {
    match name {
        "displays-live" => live().await,
        "displays-late" => late().await,
        "displays-limited" => limited().await,
        "displays-many" => many().await,
        "displays-dropped" => dropped().await,
        "displays-session" => in_session().await,
        "displays-resumed" => resumed().await,
        "displays-over-quota" => over_quota().await,
        _ => panic!("unknown scenario `{name}`"),
    }
}

fn text_of(display: &Display) -> String {
    let form = display.forms.iter().find(|form| form.media_type == "text/plain");
    String::from_utf8(form.expect("a display of text").data.clone()).unwrap()
}

fn texts_of(execution: &Execution) -> String {
    execution.displays.iter().map(text_of).collect::<Vec<_>>().join(" ")
}

/// Returns the display of the next event.
async fn next_display(started: &Started, events: &mut StreamReader<Event>) -> Result<Display, SandboxError> {
    match events.next().await {
        Some(Event::Display(index)) => started.display(index),
        event => panic!("{event:?}"),
    }
}

fn assert_missing(display: Result<Display, SandboxError>) {
    assert!(matches!(display, Err(SandboxError::InvalidArgument(_))), "{display:?}");
}

/// Reads a display while the script waits for an answer, and two displays afterwards.
async fn live() -> Result<String, SandboxError> {
    let source = "display('one'); await tools.ask(); display('two'); display('three')";
    let started = start(source, &["ask"]).await?;
    let mut events = started.events()?;
    let mut texts = vec![text_of(&next_display(&started, &mut events).await?)];
    // The call follows the display that the script has shown before it.
    let call = next_call(&mut events).await;
    assert_missing(started.display(1));
    started.answer(call.id, Ok("1"))?;
    for _ in 0..2 {
        texts.push(text_of(&next_display(&started, &mut events).await?));
    }
    assert!(events.next().await.is_none(), "the events end with the execution");
    let texts = texts.join(" ");
    assert_eq!(texts_of(&started.finish().await?), texts);
    Ok(texts)
}

/// Opens streams after the end of the script.
async fn late() -> Result<String, SandboxError> {
    let started = start("display('one'); display('two')", &[]).await?;
    started.finish().await?;
    let mut texts = Vec::new();
    for _ in 0..2 {
        for event in started.events()?.collect().await {
            let Event::Display(index) = event else { panic!("{event:?}") };
            texts.push(text_of(&started.display(index)?));
        }
    }
    for index in [2, 1_000, u32::MAX] {
        assert_missing(started.display(index));
    }
    Ok(texts.join(" "))
}

/// Shows three displays, of which one fits in the limit.
async fn limited() -> Result<String, SandboxError> {
    let started = start("for (let i = 0; i < 3; i++) display('x'.repeat(20))", &[]).await?;
    let events = started.events()?.collect().await;
    assert_missing(started.display(1));
    Ok(format!("{} {}", events.len(), started.finish().await?.displays_dropped))
}

/// Shows more displays than the sandbox retains. One stream is read only after the end.
async fn many() -> Result<String, SandboxError> {
    let source = "for (let i = 0; i < 2000; i++) display('x'); await tools.ask()";
    let started = start(source, &["ask"]).await?;
    let (unread, mut events) = (started.events()?, started.events()?);
    let mut count = 0;
    let call = loop {
        match events.next().await {
            Some(Event::Display(_)) => count += 1,
            Some(Event::ToolRequest(call)) => break call,
            None => panic!("the events ended"),
        }
    };
    started.answer(call.id, Ok("1"))?;
    let execution = started.finish().await?;
    assert!(matches!(execution.outcome, Outcome::Completed), "{:?}", execution.outcome);
    Ok(format!("{count} {} {}", unread.collect().await.len(), execution.displays_dropped))
}

/// Drops the execution while its events are open. The stream then ends.
async fn dropped() -> Result<String, SandboxError> {
    let started = start("display('one'); for (;;);", &[]).await?;
    let (mut events, unread) = (started.events()?, started.events()?);
    let text = text_of(&next_display(&started, &mut events).await?);
    drop(started);
    assert!(events.collect().await.is_empty());
    Ok(format!("{text} {}", unread.collect().await.len()))
}

/// Reads a display and the value of the last expression in a session.
async fn in_session() -> Result<String, SandboxError> {
    let session = sessions::open().await?;
    let source = "display('one');
        class A { [Symbol.for('Jupyter.display')]() { return { 'text/html': '<b>' } } }
        new A()";
    let started = session.start(request(source)).await?;
    let mut events = started.events()?;
    let first = next_display(&started, &mut events).await?;
    let result = next_display(&started, &mut events).await?;
    assert!(events.next().await.is_none());
    assert_eq!((first.is_result, result.is_result), (false, true));
    // The next execution of the session has its own displays.
    drop((started, events));
    let started = session.start(request("display('two')")).await?;
    let mut events = started.events()?;
    let second = text_of(&next_display(&started, &mut events).await?);
    started.finish().await?;
    Ok(format!("{} {} {second}", text_of(&first), result.forms.last().map_or("", |form| form.media_type.as_str())))
}

/// Suspends and resumes a script. The resumed script shows its earlier displays again.
async fn resumed() -> Result<String, SandboxError> {
    let source = "display('one'); await tools.ask(); display('two')";
    let started = suspending::start_suspendable(source, policy()).await?;
    let mut events = started.events()?;
    next_display(&started, &mut events).await?;
    next_call(&mut events).await;
    let bytes = suspending::suspend(&started).await?;
    assert!(events.collect().await.is_empty());
    let before = text_of(&started.display(0)?);
    drop(started);

    let started = suspending::resume(&bytes, policy()).await?;
    let mut events = started.events()?;
    let again = text_of(&next_display(&started, &mut events).await?);
    let call = next_call(&mut events).await;
    started.answer(call.id, Ok("1"))?;
    next_display(&started, &mut events).await?;
    Ok(format!("{before} {again} {}", texts_of(&started.finish().await?)))
}

/// Exceeds the byte quota with the record of a call. The result and its displays are then unavailable.
async fn over_quota() -> Result<String, SandboxError> {
    let source = "display('one'); await tools.ask({ text: 'x'.repeat(400000) })";
    let started = start(source, &["ask"]).await?;
    let mut events = started.events()?;
    let text = text_of(&next_display(&started, &mut events).await?);
    let call = next_call(&mut events).await;
    started.answer(call.id, Ok("1"))?;
    let refused = started.finish().await;
    assert!(matches!(refused, Err(SandboxError::QuotaExceeded(_))), "{refused:?}");
    let refused = started.display(0);
    assert!(matches!(refused, Err(SandboxError::QuotaExceeded(_))), "{refused:?}");
    assert!(events.collect().await.is_empty());
    assert!(started.events()?.collect().await.is_empty());
    Ok(text)
}
