//! Scenarios that read and write session files as streams.

use std::pin::pin;

use wit_bindgen::StreamReader;

use crate::{
    glovebox::{
        sandbox0_2_0::types::{FileError, IfExists, Limits, Policy, Runtime, SandboxError},
        sandbox0_3_0::session::Session,
    },
    next_call, no_limits, policy, read, request,
    sessions::{ENDLESS, is_busy, no_options, open, open_with, output},
    tasks::{begin, both},
    wit_stream,
};

pub async fn scenario(name: &str) -> Result<String, SandboxError> {
    match name {
        "session-files" => round_trip().await,
        "session-gigabyte" => gigabyte().await,
        "session-unread" => unread().await,
        "session-unclosed" => unclosed().await,
        "session-over-limit" => over_limit().await,
        "session-over-quota" => over_quota().await,
        "session-close-streams" => close_streams().await,
        "session-output" => output_to_file().await,
        "session-too-many-calls" => too_many_calls().await,
        "session-leak" => leak().await,
        _ => panic!("unknown scenario `{name}`"),
    }
}

/// The number of bytes per write to a stream.
const CHUNK: usize = 100_000;

/// Passes a stream with these bytes to a call. Returns the call's result and the number of bytes that it did not
/// accept.
pub async fn send<F: Future>(bytes: Vec<u8>, call: impl FnOnce(StreamReader<u8>) -> F) -> (F::Output, usize) {
    let (mut writer, reader) = wit_stream::new();
    let write = async move {
        let mut unsent = bytes.len();
        for chunk in bytes.chunks(CHUNK) {
            let rest = writer.write_all(chunk.to_vec()).await;
            unsent -= chunk.len() - rest.len();
            if !rest.is_empty() {
                break;
            }
        }
        drop(writer);
        unsent
    };
    both(call(reader), write).await
}

/// Writes a file. Returns the number of bytes that were not accepted.
async fn write(session: &Session, path: &str, bytes: Vec<u8>) -> (Result<(), SandboxError>, usize) {
    send(bytes, |contents| session.write_file(path.into(), contents, IfExists::Replace)).await
}

async fn contents(session: &Session, path: &str) -> Result<Vec<u8>, SandboxError> {
    Ok(session.read_file(path.into()).await?.collect().await)
}

fn file_error<T>(result: Result<T, SandboxError>) -> FileError {
    match result {
        Err(SandboxError::File(failure)) => failure.kind,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("the call succeeded"),
    }
}

/// Returns a policy that limits the files of a workspace.
fn small_workspace(bytes: u64) -> Policy {
    Policy { limits: Some(Limits { workspace_bytes: Some(bytes), ..no_limits() }), ..policy() }
}

/// Writes, reads and copies a file of 8 MB. The byte quota is large enough for two streams of that size.
async fn round_trip() -> Result<String, SandboxError> {
    let session = open().await?;
    let bytes: Vec<u8> = (0..8_000_000_u32).map(|index| (index * 7 % 251) as u8).collect();
    for _ in 0..3 {
        let (written, unsent) = write(&session, "dir/in.bin", bytes.clone()).await;
        written?;
        assert_eq!(unsent, 0);
        assert!(contents(&session, "dir/in.bin").await? == bytes);
    }
    let size = output(&session, "console.log(os.stat('dir/in.bin')[0].size)").await?;
    // Writes an empty file, and copies a file within the host, without passing the bytes through the component.
    let (empty, _) = write(&session, "empty", Vec::new()).await;
    empty?;
    assert!(contents(&session, "empty").await?.is_empty());
    let copy = session.read_file("dir/in.bin".into()).await?;
    session.write_file("copy".into(), copy, IfExists::Fail).await?;
    assert!(contents(&session, "copy").await? == bytes);
    let (refused, _) = send(vec![1], |one| session.write_file("copy".into(), one, IfExists::Fail)).await;
    assert!(matches!(file_error(refused), FileError::Exists));
    session.rename_file("copy".into(), "dir/copy".into(), IfExists::Fail).await?;
    session.delete_file("dir/in.bin".into(), false).await?;
    assert!(matches!(file_error(session.read_file("dir/in.bin".into()).await), FileError::NotFound));
    assert!(matches!(file_error(session.read_file("dir".into()).await), FileError::WrongKind));
    assert!(matches!(file_error(session.read_file("../x".into()).await), FileError::InvalidPath));
    let listed = session.list_files("**".into()).await?;
    let listed: Vec<_> = listed.into_iter().map(|entry| format!("{} {}", entry.path, entry.size_bytes)).collect();
    Ok(size + &listed.join(", "))
}

/// Passes a gigabyte through streams, while the quota of bytes has room for two of them.
async fn gigabyte() -> Result<String, SandboxError> {
    let session = open().await?;
    let mut total = 0;
    for _ in 0..64 {
        let (written, unsent) = write(&session, "f", vec![7; 8 << 20]).await;
        written?;
        let read = contents(&session, "f").await?.len();
        assert_eq!((unsent, read), (0, 8 << 20));
        total += read * 2;
    }
    Ok(total.to_string())
}

/// Leaves streams of a file unread until the byte quota is exhausted.
async fn unread() -> Result<String, SandboxError> {
    let session = open().await?;
    let (written, _) = write(&session, "f", vec![1; 4_000_000]).await;
    written?;
    let mut streams = Vec::new();
    let error = loop {
        match session.read_file("f".into()).await {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SandboxError::QuotaExceeded(_)), "{error:?}");
    let count = streams.len();
    // A stream that was read to its end or dropped does not count against the quota.
    let mut finished = streams.remove(0);
    let mut length = 0;
    while length < 4_000_000 {
        length += read(&mut finished, 1_000_000).await.len();
    }
    streams.push(session.read_file("f".into()).await?);
    let half = streams.remove(0);
    drop(half);
    streams.push(session.read_file("f".into()).await?);
    // Deleting the file does not change the streams.
    session.delete_file("f".into(), false).await?;
    let whole = streams.remove(0).collect().await;
    Ok(format!("{count} {}", whole.len()))
}

/// Drops a write while its stream is still open. The session can be used during the write.
async fn unclosed() -> Result<String, SandboxError> {
    let session = open().await?;
    let (mut writer, reader) = wit_stream::new();
    {
        let mut call = pin!(session.write_file("big".into(), reader, IfExists::Fail));
        begin(call.as_mut()).await;
        assert!(writer.write_all(vec![1; 1_000_000]).await.is_empty());
        assert_eq!(output(&session, "console.log(1)").await?, "1\n");
        begin(call.as_mut()).await;
    }
    let unsent = writer.write_all(vec![1; 10]).await.len();
    assert!(session.list_files("**".into()).await?.is_empty());
    // A write also fails if the session is busy when the stream ends.
    let (mut writer, reader) = wit_stream::new();
    let mut call = pin!(session.write_file("big".into(), reader, IfExists::Fail));
    begin(call.as_mut()).await;
    assert!(writer.write_all(vec![1; 10]).await.is_empty());
    let started = session.start(request(ENDLESS)).await?;
    drop(writer);
    assert!(is_busy(call.await));
    started.cancel();
    started.finish().await?;
    assert!(session.list_files("**".into()).await?.is_empty());
    Ok(unsent.to_string())
}

/// Writes more than the workspace can hold. The host stops reading at the limit.
async fn over_limit() -> Result<String, SandboxError> {
    let session = open_with(small_workspace(1_000_000)).await?;
    let (written, unsent) = write(&session, "f", vec![1; 900_000]).await;
    written?;
    assert_eq!(unsent, 0);
    let (refused, unsent) = write(&session, "f", vec![2; 3_000_000]).await;
    assert!(matches!(file_error(refused), FileError::NoSpace));
    // The host reads none of a write that alone exceeds the limit.
    let (mut writer, reader) = wit_stream::new();
    let write_all = async move { writer.write_all(vec![2; 3_000_000]).await.len() };
    let (refused, all) = both(session.write_file("f".into(), reader, IfExists::Replace), write_all).await;
    assert!(matches!(file_error(refused), FileError::NoSpace));
    assert_eq!(all, 3_000_000);
    assert!(contents(&session, "f").await? == vec![1; 900_000]);
    let (written, _) = write(&session, "f", vec![3; 10]).await;
    written?;
    Ok((3_000_000 - unsent).to_string())
}

/// Sends more bytes than the byte quota allows, and bytes that are not a session.
async fn over_quota() -> Result<String, SandboxError> {
    let session = open().await?;
    let (refused, unsent) = write(&session, "f", vec![1; 6_000_000]).await;
    assert!(matches!(refused, Err(SandboxError::QuotaExceeded(_))), "{refused:?}");
    assert!(unsent > 1_000_000, "{unsent}");
    let resume = |state| Session::resume(Runtime::Javascript, state, policy(), no_options());
    let (refused, unsent) = send(vec![1; 6_000_000], resume).await;
    assert!(matches!(refused, Err(SandboxError::QuotaExceeded(_))));
    assert!(unsent > 1_000_000, "{unsent}");
    let (refused, unsent) = send(vec![1; 1_000], resume).await;
    assert!(matches!(refused, Err(SandboxError::NotResumable(_))));
    Ok(unsent.to_string())
}

/// Closes a session whose streams are open.
async fn close_streams() -> Result<String, SandboxError> {
    let session = open().await?;
    let (written, _) = write(&session, "f", vec![1; 2_000_000]).await;
    written?;
    let (mut file, state) = (session.read_file("f".into()).await?, session.hibernate().await?);
    let first = read(&mut file, 10).await.len();
    let (mut writer, reader) = wit_stream::new();
    let mut call = pin!(session.write_file("g".into(), reader, IfExists::Fail));
    begin(call.as_mut()).await;
    session.close().await?;
    assert!(writer.write_all(vec![1; 10]).await.is_empty());
    drop(writer);
    assert!(matches!(call.await, Err(SandboxError::SessionEnded(_))));
    let rest = file.collect().await.len();
    let resumed = Session::resume(Runtime::Javascript, state, policy(), no_options()).await?;
    Ok(format!("{first} {rest} {}", contents(&resumed, "f").await?.len()))
}

/// Writes the output of a running script to a file, without passing the bytes through the component.
async fn output_to_file() -> Result<String, SandboxError> {
    let session = open().await?;
    let source = "for (let i = 0; i < 150; i++) console.log('x'.repeat(9999)); await tools.ask()";
    let started = crate::start(source, &["ask"]).await?;
    let stdout = started.stdout()?;
    let mut call = pin!(session.write_file("out".into(), stdout, IfExists::Fail));
    begin(call.as_mut()).await;
    let request = next_call(&mut started.events()?).await;
    started.answer(request.id, Ok("1"))?;
    call.await?;
    Ok(contents(&session, "out").await?.len().to_string())
}

/// Makes calls until the quota of two started executions is exhausted. Dropped calls do not count.
async fn too_many_calls() -> Result<String, SandboxError> {
    let session = open().await?;
    let (writer, reader) = wit_stream::new();
    let mut call = pin!(session.write_file("a".into(), reader, IfExists::Fail));
    begin(call.as_mut()).await;
    let (unused, reader) = wit_stream::new();
    {
        let mut dropped = pin!(session.write_file("b".into(), reader, IfExists::Fail));
        begin(dropped.as_mut()).await;
        let refused = session.list_files("**".into()).await;
        assert!(matches!(refused, Err(SandboxError::QuotaExceeded(_))), "{refused:?}");
    }
    let before = session.list_files("**".into()).await?.len();
    drop((writer, unused));
    call.await?;
    Ok(format!("{before} {}", session.list_files("**".into()).await?.len()))
}

/// Leaks sessions, streams and calls. The host then drops the store.
async fn leak() -> Result<String, SandboxError> {
    let session: &'static Session = Box::leak(Box::new(open().await?));
    let (written, _) = write(session, "f", vec![1; 1_000_000]).await;
    written?;
    std::mem::forget((session.read_file("f".into()).await?, session.hibernate().await?));
    let (writer, reader) = wit_stream::new();
    let mut upload = Box::pin(session.write_file("g".into(), reader, IfExists::Fail));
    begin(upload.as_mut()).await;
    let mut call = Box::pin(session.execute(request(ENDLESS)));
    begin(call.as_mut()).await;
    std::mem::forget((writer, upload, call));
    Ok(String::new())
}
