//! Runs futures concurrently.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
};

/// Waits for all futures and returns their results in order.
pub async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<Option<Pin<Box<F>>>> = futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let mut results: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, result) in waiting.iter_mut().zip(&mut results) {
            let Some(running) = future else { continue };
            if let Poll::Ready(value) = running.as_mut().poll(context) {
                (*result, *future) = (Some(value), None);
            }
        }
        if waiting.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// Begins a call and drops it before it returns.
pub async fn begin_and_drop<F: Future>(future: F) {
    let mut future = pin!(future);
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending(), "the call waits");
        Poll::Ready(())
    })
    .await;
}

/// Begins a call and drops it. Returns the call's result if it returned immediately.
pub async fn poll_and_drop<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        })
    })
    .await
}

/// Drops a call when another one returns. Returns the result of the call that returned.
pub async fn drop_after<F: Future, G: Future>(dropped: F, other: G) -> G::Output {
    let (mut dropped, mut other) = (pin!(dropped), pin!(other));
    poll_fn(|context| {
        assert!(dropped.as_mut().poll(context).is_pending(), "the call waits");
        other.as_mut().poll(context)
    })
    .await
}

/// Begins a call, which does not return yet.
pub async fn begin<F: Future>(mut call: Pin<&mut F>) {
    poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending(), "the call waits");
        Poll::Ready(())
    })
    .await;
}

/// Waits for two futures of different types and returns both results.
pub async fn both<F: Future, G: Future>(first: F, second: G) -> (F::Output, G::Output) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut one, mut other) = (None, None);
    poll_fn(|context| {
        if one.is_none()
            && let Poll::Ready(value) = first.as_mut().poll(context)
        {
            one = Some(value);
        }
        if other.is_none()
            && let Poll::Ready(value) = second.as_mut().poll(context)
        {
            other = Some(value);
        }
        if one.is_some() && other.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (one.unwrap(), other.unwrap())
}
