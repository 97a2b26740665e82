//! What requests and answers may hold of the server's memory.

use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header},
};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{HttpConfig, Problem};

/// How much of an answer the connection is given at once. What it has is no longer counted.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// How many answers wait for room at once.
const LATE_ANSWERS: usize = 16;

/// How much of the budget is taken at once.
const STEP_BYTES: usize = 16 << 10;

/// What all requests may hold together of what they bring along. One half of it is shared by all tenants, and of the other each has a share of its
/// own: whatever others send, there is room for it.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    shared: Arc<Semaphore>,
    /// By the tenant's name.
    own: HashMap<String, Arc<Semaphore>>,
    late: Semaphore,
    max_steps: usize,
    max_bytes: usize,
    time: Duration,
}

/// What counts against the budget until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held(#[cfg_attr(not(test), expect(dead_code, reason = "it is only held"))] Vec<OwnedSemaphorePermit>);

/// A request's body.
pub(crate) struct ReadBody {
    pub(crate) bytes: Vec<u8>,
    pub(super) held: Held,
}

impl BodyBudget {
    /// As the configuration says, for these tenants.
    pub(crate) fn new<'a>(config: &HttpConfig, tenants: impl Iterator<Item = &'a str>) -> Self {
        let max_steps = (config.bodies_bytes / STEP_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let tenants: BTreeSet<&str> = tenants.collect();
        let share = max_steps / 2 / tenants.len().max(1);
        let own = tenants.iter().map(|name| ((*name).to_owned(), Arc::new(Semaphore::new(share)))).collect();
        let shared = Arc::new(Semaphore::new(max_steps - share * tenants.len()));
        let (late, max_bytes, time) = (Semaphore::new(LATE_ANSWERS), config.body_bytes, config.body_time);
        Self { shared, own, late, max_steps, max_bytes, time }
    }

    fn own(&self, tenant: Option<&str>) -> Option<&Arc<Semaphore>> {
        self.own.get(tenant?)
    }

    /// One step, of the tenant's share, or of what all share.
    fn step(&self, tenant: Option<&str>) -> Option<OwnedSemaphorePermit> {
        let own = self.own(tenant).and_then(|own| Arc::clone(own).try_acquire_owned().ok());
        own.or_else(|| Arc::clone(&self.shared).try_acquire_owned().ok())
    }

    /// Reads a whole body.
    pub(crate) async fn read(
        &self,
        tenant: Option<&str>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<ReadBody, Problem> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|bytes| bytes > self.max_bytes) {
            return Err(self.too_large());
        }
        match tokio::time::timeout(self.time, self.read_all(tenant, body)).await {
            Ok(read) => read,
            Err(_) => {
                let seconds = self.time.as_secs();
                let detail = format!("the request did not come within {seconds} s; send it at once");
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail))
            }
        }
    }

    async fn read_all(&self, tenant: Option<&str>, mut body: Body) -> Result<ReadBody, Problem> {
        let (mut bytes, mut held, mut room) = (Vec::new(), Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Problem::invalid("the request's body broke off"))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > self.max_bytes {
                return Err(self.too_large());
            }
            while room < bytes.len() + data.len() {
                let Some(step) = self.step(tenant) else {
                    let detail = "the server has as many requests in memory as it may; try again in a moment";
                    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
                    return Err(Problem { retry_after: Some(1), ..problem });
                };
                held.push(step);
                room += STEP_BYTES;
            }
            bytes.extend_from_slice(&data);
        }
        Ok(ReadBody { bytes, held: Held(held) })
    }

    /// An answer, which counts against the budget until the connection has it.
    pub(crate) async fn answer(&self, tenant: &str, bytes: Bytes) -> Result<Body, Problem> {
        let held = self.room(tenant, bytes.len()).await?;
        Ok(Body::new(HeldBody { bytes, _held: held }))
    }

    /// Room for an answer. There is some again once slow clients have read theirs or were cut off.
    pub(crate) async fn room(&self, tenant: &str, bytes: usize) -> Result<Held, Problem> {
        let wanted = bytes.div_ceil(STEP_BYTES).min(self.max_steps);
        let own = self.own(Some(tenant)).and_then(|own| {
            let part = count(wanted.min(own.available_permits()));
            Arc::clone(own).try_acquire_many_owned(part).ok()
        });
        let left = wanted.saturating_sub(own.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        // Never more than there is, or it would be waited for without end.
        let left = count(left.min(self.max_steps / 2).max(usize::from(left > 0)));
        let mut held: Vec<_> = own.into_iter().collect();
        if let Ok(room) = Arc::clone(&self.shared).try_acquire_many_owned(left) {
            held.push(room);
            return Ok(Held(held));
        }
        let full = |_| {
            let detail = "it was done, but the server has as many answers in memory as it may; read yours faster";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
        };
        let _late = self.late.try_acquire().map_err(|_| full(()))?;
        let room = tokio::time::timeout(self.time, Arc::clone(&self.shared).acquire_many_owned(left)).await;
        held.push(room.map_err(|_| full(()))?.map_err(|_| full(()))?);
        Ok(Held(held))
    }

    fn too_large(&self) -> Problem {
        let detail = format!("the request's body is over {} bytes; send less", self.max_bytes);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }
}

/// An answer, and what is held until the connection has it. It is given in pieces: of one that is whole the connection would take all
/// at once, and have it in memory as long as its client does not read.
struct HeldBody {
    bytes: Bytes,
    _held: Held,
}

impl http_body::Body for HeldBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Infallible>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        let len = self.bytes.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(http_body::Frame::data(self.bytes.split_to(len)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// A number of permits.
fn count(steps: usize) -> u32 {
    u32::try_from(steps).unwrap_or(u32::MAX)
}

/// The pieces of an answer that goes to a connection by itself.
pub(crate) fn in_pieces(mut bytes: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || {
        let len = bytes.len().min(PIECE_BYTES);
        (len > 0).then(|| bytes.split_to(len))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(steps: usize, tenants: &[&str]) -> BodyBudget {
        let config = HttpConfig { bodies_bytes: steps * STEP_BYTES, ..HttpConfig::default() };
        BodyBudget::new(&config, tenants.iter().copied())
    }

    #[test]
    fn whatever_one_takes_others_have_their_share() {
        let budget = budget(16, &["a", "b"]);
        let all: Vec<_> = std::iter::from_fn(|| budget.step(Some("a"))).collect();
        assert_eq!(all.len(), 12, "its own quarter, and the shared half");
        assert_eq!(std::iter::from_fn(|| budget.step(Some("b"))).map(std::mem::forget).count(), 4);
        assert!(budget.step(None).is_none());
        drop(all);
        assert!(budget.step(None).is_some());
    }

    #[test]
    fn an_answer_takes_of_both_and_gives_it_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let budget = budget(8, &["a"]);
            let held = budget.room("a", 7 * STEP_BYTES).await.unwrap();
            assert_eq!(held.0.iter().map(OwnedSemaphorePermit::num_permits).sum::<usize>(), 7);
            assert!(budget.step(Some("a")).is_some());
            drop(held);
            // More than there is altogether is as much as there is.
            drop(budget.room("a", 100 * STEP_BYTES).await.unwrap());
            drop(budget.room("a", 0).await.unwrap());
        });
    }
}
