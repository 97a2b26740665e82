//! What messages may hold of the daemon's memory.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How much is taken at once.
const STEP_BYTES: usize = 16 << 10;
/// How many messages that are there already wait for room at once.
const LATE: usize = 8;

/// What all messages of one direction may hold together.
#[derive(Clone, Debug)]
pub(super) struct ByteBudget {
    steps: Arc<Semaphore>,
    late: Arc<Semaphore>,
    max_steps: usize,
    time: Duration,
}

/// What counts against a budget until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Held {
    permit: Option<OwnedSemaphorePermit>,
    steps: usize,
}

impl Held {
    /// Holds what another one does.
    pub(super) fn join(&mut self, other: Self) {
        match (&mut self.permit, other.permit) {
            (Some(one), Some(other)) => one.merge(other),
            (None, other) => self.permit = other,
            (Some(_), None) => {}
        }
        self.steps += other.steps;
    }
}

/// There was no room in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

impl ByteBudget {
    /// `time`: how long one waits for room.
    pub(super) fn new(max_bytes: usize, time: Duration) -> Self {
        let max_steps = (max_bytes / STEP_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let late = Arc::new(Semaphore::new(LATE));
        Self { steps: Arc::new(Semaphore::new(max_steps)), late, max_steps, time }
    }

    /// Has `held` hold room for so many bytes. Whoever drops the future has what it had before.
    pub(super) async fn grow(&self, held: &mut Held, bytes: usize) -> Result<(), NoRoom> {
        // What is longer than all of it is let in alone.
        let steps = bytes.div_ceil(STEP_BYTES).min(self.max_steps);
        let more = steps.saturating_sub(held.steps);
        if more == 0 {
            return Ok(());
        }
        let count = u32::try_from(more).unwrap_or(u32::MAX);
        let room = tokio::time::timeout(self.time, Arc::clone(&self.steps).acquire_many_owned(count)).await;
        let permit = room.map_err(|_| NoRoom)?.map_err(|_| NoRoom)?;
        match &mut held.permit {
            Some(before) => before.merge(permit),
            None => held.permit = Some(permit),
        }
        held.steps = steps;
        Ok(())
    }

    /// Room for so many bytes, if there is any now.
    pub(super) fn try_room(&self, bytes: usize) -> Result<Held, NoRoom> {
        let steps = bytes.div_ceil(STEP_BYTES);
        let count = u32::try_from(steps).map_err(|_| NoRoom)?;
        let permit = Arc::clone(&self.steps).try_acquire_many_owned(count).map_err(|_| NoRoom)?;
        Ok(Held { permit: Some(permit), steps })
    }

    /// Room for so many bytes that are there already: not many of them may wait.
    pub(super) async fn room(&self, bytes: usize) -> Result<Held, NoRoom> {
        let steps = bytes.div_ceil(STEP_BYTES).min(self.max_steps);
        let count = u32::try_from(steps).unwrap_or(u32::MAX);
        if let Ok(permit) = Arc::clone(&self.steps).try_acquire_many_owned(count) {
            return Ok(Held { permit: Some(permit), steps });
        }
        let _late = self.late.try_acquire().map_err(|_| NoRoom)?;
        let mut held = Held::default();
        self.grow(&mut held, bytes).await?;
        Ok(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn there_is_room_up_to_the_limit_and_again_afterwards() {
        let budget = ByteBudget::new(4 * STEP_BYTES, Duration::from_millis(20));
        let mut one = budget.room(STEP_BYTES).await.unwrap();
        budget.grow(&mut one, 3 * STEP_BYTES).await.unwrap();
        budget.grow(&mut one, STEP_BYTES).await.unwrap();
        let two = budget.try_room(1).unwrap();
        assert_eq!(budget.room(1).await.map(drop), Err(NoRoom));
        assert_eq!(budget.try_room(1).map(drop), Err(NoRoom));
        assert_eq!(budget.grow(&mut one, 4 * STEP_BYTES).await, Err(NoRoom));
        drop(two);
        budget.grow(&mut one, 4 * STEP_BYTES).await.unwrap();
        drop(one);
        let all = budget.room(100 * STEP_BYTES).await.unwrap();
        let late: Vec<_> = (0..LATE).map(|_| Arc::clone(&budget.late).try_acquire_owned().unwrap()).collect();
        let begun = std::time::Instant::now();
        assert_eq!(budget.room(1).await.map(drop), Err(NoRoom));
        assert!(begun.elapsed() < Duration::from_millis(20), "too many wait");
        drop((all, late));
        budget.room(1).await.unwrap();
    }
}
