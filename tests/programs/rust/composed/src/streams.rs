//! Streams of output, displays, files and sessions, some of which are not read.

use crate::{
    SandboxError,
    glovebox::{
        sandbox0_2_0::types::{IfExists, Runtime},
        sandbox0_3_0::{
            sandbox::Event,
            session::{Session, SessionOptions},
        },
    },
    javascript, policy, request, start, text, wit_stream,
};

pub async fn scenario(name: &str) -> Result<String, SandboxError> {
    match name {
        "stream-output" => output().await,
        "stream-events" => events().await,
        "stream-dropped" => dropped().await,
        "stream-after-end" => after_end().await,
        "stream-files" => files().await,
        "stream-write-dropped" => write_dropped().await,
        _ => Ok("no such scenario".into()),
    }
}

/// Reads the same large output through two streams while the script waits now and then.
async fn output() -> Result<String, SandboxError> {
    let source = "
        for (let i = 0; i < 20; i++) {
            console.log('x'.repeat(9_999))
            await tools.sleep({ ms: 1 })
        }";
    let started = start(source).await?;
    let (one, two) = (started.stdout()?, started.stdout()?);
    let lengths = crate::tasks::all([one, two].map(|stream| async { stream.collect().await.len() })).await;
    let end = started.finish().await?;
    Ok(format!("{lengths:?} {}", end.stdout.total_bytes))
}

async fn events() -> Result<String, SandboxError> {
    let started = start("display('one'); await tools.sleep({ ms: 1 }); display('two')").await?;
    let mut events = started.events()?;
    let mut seen = Vec::new();
    while let Some(Event::Display(index)) = events.next().await {
        let display = started.display(index)?;
        seen.push(format!("{index} {}", display.forms.len() > 0));
    }
    let missing = matches!(started.display(2), Err(SandboxError::InvalidArgument(_)));
    Ok(format!("{} {missing}", seen.join(", ")))
}

/// Opens streams and never reads them, or drops them halfway.
async fn dropped() -> Result<String, SandboxError> {
    let started = start("console.log('x'.repeat(100_000)); await tools.sleep({ ms: 20 }); console.log('end')").await?;
    let (_unread, mut halfway, _events) = (started.stdout()?, started.stdout()?, started.events()?);
    let (_, read) = halfway.read(Vec::with_capacity(10)).await;
    drop(halfway);
    let end = started.finish().await?;
    let next = javascript("console.log('usable')").await?;
    Ok(format!("{} {} {next}", read.len(), end.stdout.total_bytes))
}

/// Opens streams after the end, and reads them after the handle was dropped.
async fn after_end() -> Result<String, SandboxError> {
    let started = start("console.log('text')").await?;
    started.finish().await?;
    let (stdout, stderr) = (started.stdout()?, started.stderr()?);
    drop(started);
    let next = javascript("console.log('usable')").await?;
    Ok(format!("{} {} {next}", stdout.collect().await.len(), stderr.collect().await.len()))
}

/// Writes and reads large files of a session and of an execution.
async fn files() -> Result<String, SandboxError> {
    let options = SessionOptions { context: None, tools: None };
    let session = Session::open(Runtime::Javascript, policy(), options).await?;
    let (mut writer, contents) = wit_stream::new();
    let write = async { session.write_file("large".into(), contents, IfExists::Replace).await.map(|()| 0) };
    let feed = async {
        for _ in 0..30 {
            writer.write_all(vec![b'x'; 10_000]).await;
        }
        drop(writer);
        Ok(0)
    };
    let both: [std::pin::Pin<Box<dyn Future<Output = Result<u64, SandboxError>>>>; 2] =
        [Box::pin(write), Box::pin(feed)];
    for done in crate::tasks::all(both).await {
        done?;
    }
    let read = session.read_file("large".into()).await?.collect().await.len();
    let size = text(&session.execute(request("console.log(require('fs').statSync('large').size)")).await?);
    let mut halfway = session.read_file("large".into()).await?;
    let (_, first) = halfway.read(Vec::with_capacity(10)).await;
    drop(halfway);
    let missing = matches!(session.read_file("missing".into()).await, Err(SandboxError::File(_)));
    let started = start("require('fs').writeFileSync('left', 'left')").await?;
    started.finish().await?;
    let listed = started.list_files("*".into()).await?.len();
    let left = started.read_file("left".into()).await?.collect().await;
    Ok(format!("{read} {size} {} {missing} {listed} {}", first.len(), String::from_utf8_lossy(&left)))
}

/// Drops a call to `write-file` before its stream has ended.
async fn write_dropped() -> Result<String, SandboxError> {
    let options = SessionOptions { context: None, tools: None };
    let session = Session::open(Runtime::Javascript, policy(), options).await?;
    let (mut writer, contents) = wit_stream::new();
    crate::tasks::begin_and_drop(session.write_file("f".into(), contents, IfExists::Replace)).await;
    let unwritten = writer.write_all(vec![b'x'; 1_000]).await.len();
    let missing = matches!(session.read_file("f".into()).await, Err(SandboxError::File(_)));
    let next = text(&session.execute(request("console.log('usable')")).await?);
    Ok(format!("{unwritten} {missing} {next}"))
}
