//! Scenarios with the files that an execution outside sessions has left.

use crate::{
    Started,
    glovebox::sandbox0_2_0::types::{FileError, Outcome, SandboxError},
    next_call, request, sessions, start, text,
};

pub async fn scenario(name: &str) -> Result<String, SandboxError> {
    match name {
        "left-files" => left().await,
        "left-files-busy" => busy().await,
        "left-files-large" => large().await,
        "left-files-too-large" => too_large().await,
        _ => panic!("unknown scenario `{name}`"),
    }
}

/// Returns a script that writes a file of this size.
fn writes(bytes: usize) -> String {
    format!("const f = std.open('a', 'w'); f.puts('x'.repeat({bytes})); f.close();")
}

/// Waits for the end of a script, which must complete.
async fn finished(started: &Started) -> Result<(), SandboxError> {
    let outcome = started.finish().await?.outcome;
    assert!(matches!(outcome, Outcome::Completed), "{outcome:?}");
    Ok(())
}

async fn contents(started: &Started, path: &str) -> Result<Vec<u8>, SandboxError> {
    Ok(started.read_file(path.into()).await?.collect().await)
}

/// Lists and reads files. A stream outlives the handle of its execution.
async fn left() -> Result<String, SandboxError> {
    let source = writes(3) + "os.mkdir('dir'); const g = std.open('dir/b', 'w'); g.puts('text'); g.close()";
    let started = start(&source, &[]).await?;
    finished(&started).await?;
    let listed = started.list_files("**".into()).await?;
    let listed: Vec<_> = listed.into_iter().map(|entry| format!("{} {}", entry.path, entry.size_bytes)).collect();
    assert_eq!(contents(&started, "a").await?, b"xxx");
    assert_eq!(contents(&started, "a").await?, b"xxx", "each call opens a new stream");
    for (path, expected) in
        [("c", FileError::NotFound), ("dir", FileError::WrongKind), ("../a", FileError::InvalidPath)]
    {
        match started.read_file(path.into()).await {
            Err(SandboxError::File(failure)) => assert_eq!(format!("{:?}", failure.kind), format!("{expected:?}")),
            other => panic!("{path}: {:?}", other.err()),
        }
    }
    let stream = started.read_file("dir/b".into()).await?;
    drop(started);
    Ok(format!("{}; {}", listed.join(", "), text(stream.collect().await)))
}

/// Requests files before the end of the script, and in a session.
async fn busy() -> Result<String, SandboxError> {
    let started = start(&(writes(3) + "await tools.ask()"), &["ask"]).await?;
    let call = next_call(&mut started.events()?).await;
    assert!(sessions::is_busy(started.list_files("*".into()).await));
    assert!(sessions::is_busy(started.read_file("a".into()).await));
    started.answer(call.id, Ok("1"))?;
    finished(&started).await?;
    let session = sessions::open().await?;
    let in_session = session.start(request(&writes(4))).await?;
    finished(&in_session).await?;
    let refused = in_session.read_file("a".into()).await;
    assert!(matches!(refused, Err(SandboxError::Unsupported(_))), "{:?}", refused.err());
    let there = session.read_file("a".into()).await?.collect().await;
    Ok(format!("{} {}", contents(&started, "a").await?.len(), there.len()))
}

/// Reads a file of 3 MB while the quota of bytes has room for the file and one copy of it.
async fn large() -> Result<String, SandboxError> {
    let started = start(&writes(3_000_000), &[]).await?;
    finished(&started).await?;
    let unread = started.read_file("a".into()).await?;
    let refused = started.read_file("a".into()).await;
    assert!(matches!(refused, Err(SandboxError::QuotaExceeded(_))), "{:?}", refused.err());
    drop(unread);
    Ok(contents(&started, "a").await?.len().to_string())
}

/// Leaves a file that exceeds the quota of bytes. The result is available, but the files are not.
async fn too_large() -> Result<String, SandboxError> {
    let started = start(&writes(9_000_000), &[]).await?;
    finished(&started).await?;
    let listed = started.list_files("*".into()).await;
    assert!(matches!(listed, Err(SandboxError::QuotaExceeded(_))), "{:?}", listed.err());
    let refused = started.read_file("a".into()).await;
    assert!(matches!(refused, Err(SandboxError::QuotaExceeded(_))), "{:?}", refused.err());
    Ok(started.finish().await?.files_created.join(" "))
}
