use std::{
    thread::{self, ThreadId},
    time::Duration,
};

use serde::{Deserialize, Deserializer};

use super::*;
use crate::byte_budget::ByteBudget;

/// A handler that replies with twice the number, and with 2 to everything else. It replies to 0 only after the call is
/// cancelled.
struct DoublingHandler;

impl CallHandler for DoublingHandler {
    fn answer(self: Arc<Self>, call: Message, cancel: CancelToken, reply: Reply) {
        tokio::spawn(async move {
            let number: u64 = serde_json::from_slice(&call.json).unwrap_or(1);
            if number == 0 {
                glovebox_requests::cancelled(&cancel).await;
            }
            reply.send(Ok(Message::reply(&(number * 2), call.bytes)));
        });
    }
}

fn pair() -> (Peer, Peer) {
    let (one, two) = UnixStream::pair().unwrap();
    (Peer::start(one, Arc::new(DoublingHandler)), Peer::start(two, Arc::new(DoublingHandler)))
}

#[tokio::test]
async fn both_sides_call_each_other() {
    let (one, two) = pair();
    let long = vec![7; 3 << 20];
    let (here, there) = tokio::join!(one.call::<u64>(&3_u64, long.clone()), two.call::<u64>(&4_u64, b"bytes".to_vec()));
    assert_eq!(here.unwrap(), (6, long));
    assert_eq!(there.unwrap(), (8, b"bytes".to_vec()));
    assert_eq!((one.in_progress(), two.in_progress()), (0, 0));
}

/// A discarded reply does not affect later calls.
#[tokio::test]
async fn replies_beyond_the_budget_are_discarded() {
    let (one, _two) = pair();
    let bytes = ByteBudget::new(64 << 10, Duration::ZERO, []);
    let budget = ReplyBudget { bytes: bytes.clone(), tenant: "a".to_owned() };
    let call = |bytes: usize| one.call_within::<u64>(&3_u64, vec![7; bytes], Some(budget.clone()));
    // The JSON of the reply, `{"Ok":6}`, counts twice.
    let max = (64 << 10) - 16;
    let short = SHORT_REPLY_BYTES - 16;
    for (len, is_reserved) in [(0, false), (short, false), (short + 1, true), (max - 1, true), (max, true)] {
        let (value, read, room) = call(len).await.unwrap();
        assert_eq!((value, read.len(), room.is_some()), (6, len, is_reserved));
    }
    for _ in 0..2 {
        assert!(matches!(call(max + 1).await, Err(ServiceError::NoRoom)));
        assert!(matches!(call(3 << 20).await, Err(ServiceError::NoRoom)));
    }
    let held = call(max).await.unwrap();
    assert!(matches!(call(32 << 10).await, Err(ServiceError::NoRoom)), "the first reply still exists");
    for len in [0, 8 << 10] {
        assert_eq!(call(len).await.unwrap().0, 6, "short replies make progress");
    }
    drop(held);
    assert_eq!(bytes.free_bytes(None), 64 << 10);
    assert_eq!(call(max).await.unwrap().0, 6);
    // A call without a budget accepts any reply.
    assert_eq!(one.call::<u64>(&3_u64, vec![7; max + 1]).await.unwrap().1.len(), max + 1);
    assert_eq!(one.in_progress(), 0);
}

/// A handler that replies with JSON and with data of these lengths.
struct SizedReplies(usize, usize);

impl CallHandler for SizedReplies {
    fn answer(self: Arc<Self>, _: Message, _: CancelToken, reply: Reply) {
        // The JSON of the reply is `{"Ok":"x…"}`.
        let text = "x".repeat(self.0 - 9);
        reply.send(Ok(Message::reply(&text, vec![7; self.1])));
    }
}

/// A process that sends more than its caller has reserved memory for gets no memory.
#[tokio::test]
async fn replies_beyond_the_reservation_are_discarded() {
    let max = 3 << 20;
    for (json, bytes, fits) in [
        (9, 0, true),
        (9, max - 1, true),
        (9, max, true),
        (9, max + 1, false),
        (MAX_SHORT_BYTES, max, true),
        (MAX_SHORT_BYTES + 1, 0, false),
    ] {
        let (here, there) = UnixStream::pair().unwrap();
        let _other = Peer::start(there, Arc::new(SizedReplies(json, bytes)));
        let peer = Peer::start(here, Arc::new(DoublingHandler));
        for _ in 0..2 {
            match peer.call_reserved::<String>(&0_u64, Vec::new(), max).await {
                Ok((text, read)) => assert!(fits && (text.len(), read.len()) == (json - 9, bytes), "{json}, {bytes}"),
                Err(error) => assert!(!fits && matches!(error, ServiceError::WorkerDied), "{json}, {bytes}: {error}"),
            }
        }
        assert_eq!(peer.call::<String>(&0_u64, Vec::new()).await.unwrap().1.len(), bytes, "the connection is usable");
        assert_eq!(peer.in_progress(), 0);
    }
    let (one, _two) = pair();
    assert_eq!(one.call_reserved::<u64>(&3_u64, Vec::new(), 0).await.unwrap(), (6, Vec::new()));
}

/// A handler that replies with a string of the requested length.
struct LongTextHandler;

impl CallHandler for LongTextHandler {
    fn answer(self: Arc<Self>, call: Message, _: CancelToken, reply: Reply) {
        let len = serde_json::from_slice(&call.json).unwrap();
        reply.send(Ok(Message::reply(&"x".repeat(len), Vec::new())));
    }
}

/// The ID of the thread that parsed the text.
struct ParsedBy(ThreadId);

impl<'de> Deserialize<'de> for ParsedBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|_| Self(thread::current().id()))
    }
}

#[tokio::test]
async fn long_replies_are_parsed_on_blocking_threads() {
    let (one, two) = UnixStream::pair().unwrap();
    let (one, _two) = (Peer::start(one, Arc::new(LongTextHandler)), Peer::start(two, Arc::new(LongTextHandler)));
    let max = MAX_SHORT_BYTES - r#"{"Ok":""}"#.len();
    for (len, is_here) in [(max - 1, true), (max, true), (max + 1, false)] {
        let (ParsedBy(thread), ..) = one.call_within(&len, Vec::new(), None).await.unwrap();
        assert_eq!(thread == thread::current().id(), is_here, "{len}");
    }
}

/// A handler that replies with 3 MiB that are charged to a budget.
struct ChargedReplies(ByteBudget);

impl CallHandler for ChargedReplies {
    fn answer(self: Arc<Self>, _: Message, _: CancelToken, reply: Reply) {
        let held = self.0.try_room(None, 3 << 20).unwrap();
        reply.send(Ok(Message::reply(&(), vec![7; 3 << 20]).holding(held)));
    }
}

#[tokio::test]
async fn a_reply_is_charged_until_it_is_sent() {
    let budget = ByteBudget::new(4 << 20, Duration::ZERO, []);
    let (one, mut raw) = UnixStream::pair().unwrap();
    let _peer = Peer::start(one, Arc::new(ChargedReplies(budget.clone())));
    let call = [&[CALL][..], &[0; 8], &1_u32.to_le_bytes(), &0_u32.to_le_bytes(), b"1"].concat();
    tokio::io::AsyncWriteExt::write_all(&mut raw, &call).await.unwrap();
    let header = read_header(&mut raw).await.unwrap();
    assert_eq!(budget.free_bytes(None), 1 << 20, "the reply does not fit into the socket's buffer");
    assert_eq!(read_message(&mut raw, &header).await.unwrap().bytes.len(), 3 << 20);
    assert_eq!(budget.free_bytes(None), 4 << 20);
}

#[tokio::test]
async fn a_reply_to_a_killed_process_is_released() {
    let budget = ByteBudget::new(4 << 20, Duration::ZERO, []);
    let (one, mut raw) = UnixStream::pair().unwrap();
    let peer = Peer::start(one, Arc::new(ChargedReplies(budget.clone())));
    let call = [&[CALL][..], &[0; 8], &1_u32.to_le_bytes(), &0_u32.to_le_bytes(), b"1"].concat();
    tokio::io::AsyncWriteExt::write_all(&mut raw, &call).await.unwrap();
    read_header(&mut raw).await.unwrap();
    assert_eq!(budget.free_bytes(None), 1 << 20, "the reply does not fit into the socket's buffer");
    drop(raw);
    peer.wait_gone().await;
    let released = async {
        while budget.free_bytes(None) < 4 << 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), released).await.expect("the reply is never sent");
}

#[tokio::test]
async fn a_cancelled_call_returns_its_reply() {
    let (one, _two) = pair();
    let cancel = CancelToken::new();
    let other = cancel.clone();
    let call = one.call_until(&0_u64, Vec::new(), None, &cancel);
    let (reply, ()) = tokio::join!(call, async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        other.cancel();
    });
    assert_eq!(reply.unwrap().result::<u64>().unwrap().0, 0);
}

/// A handler that drops its reply, like a task that panics.
struct DroppingHandler;

impl CallHandler for DroppingHandler {
    fn answer(self: Arc<Self>, _: Message, _: CancelToken, reply: Reply) {
        drop(reply);
    }
}

#[tokio::test]
async fn dropped_reply_reports_a_panic() {
    let (one, two) = UnixStream::pair().unwrap();
    let (one, _two) = (Peer::start(one, Arc::new(DroppingHandler)), Peer::start(two, Arc::new(DroppingHandler)));
    let reply = one.call::<u64>(&1_u64, Vec::new()).await;
    assert_eq!(reply.unwrap_err().to_string(), ServiceError::Panicked.to_string());
    assert_eq!(one.in_progress(), 0);
}

#[tokio::test]
async fn calls_fail_when_the_other_side_is_gone() {
    let (one, two) = pair();
    let call = one.call::<u64>(&0_u64, Vec::new());
    let (reply, ()) = tokio::join!(call, async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        two.close();
    });
    assert!(matches!(reply, Err(ServiceError::WorkerDied)));
    one.wait_gone().await;
    assert!(one.is_gone());
    assert!(matches!(one.call::<u64>(&1_u64, Vec::new()).await, Err(ServiceError::NoWorker)));
}

/// If the call were sent, the other side would disconnect, and all calls in progress would fail.
#[tokio::test]
async fn a_call_that_is_too_long_is_not_sent() {
    let (one, _two) = pair();
    let max_bytes = usize::try_from(MAX_CALL_JSON_BYTES).unwrap();
    // The JSON contains two quotation marks.
    for (bytes, is_allowed) in [(max_bytes - 3, true), (max_bytes - 2, true), (max_bytes - 1, false)] {
        match one.call::<u64>(&"a".repeat(bytes), Vec::new()).await {
            Ok((reply, _)) => assert!(is_allowed && reply == 2),
            Err(ServiceError::Invalid(error)) => assert!(!is_allowed && error.contains("67108865 bytes"), "{error}"),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(!one.is_gone());
}

#[tokio::test]
async fn refuses_malformed_frames() {
    for (header, is_allowed) in [
        ([&[CALL][..], &[0; 8], &1_u32.to_le_bytes(), &0_u32.to_le_bytes(), b"1"].concat(), true),
        ([&[9][..], &[0; 8], &1_u32.to_le_bytes(), &0_u32.to_le_bytes(), b"1"].concat(), false),
        ([&[CALL][..], &[0; 8], &(MAX_PART_BYTES + 1).to_le_bytes(), &0_u32.to_le_bytes()].concat(), false),
        ([&[CALL][..], &[0; 8], &0_u32.to_le_bytes(), &u32::MAX.to_le_bytes()].concat(), false),
        ([&[CALL][..], &[0; 8], &(MAX_CALL_JSON_BYTES + 1).to_le_bytes(), &0_u32.to_le_bytes()].concat(), false),
    ] {
        let (one, mut raw) = UnixStream::pair().unwrap();
        let peer = Peer::start(one, Arc::new(DoublingHandler));
        tokio::io::AsyncWriteExt::write_all(&mut raw, &header).await.unwrap();
        match is_allowed {
            true => drop(read_header(&mut raw).await.unwrap()),
            false => peer.wait_gone().await,
        }
        assert_eq!(peer.is_gone(), !is_allowed);
    }
}
