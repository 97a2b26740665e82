//! The soft stop, which interrupts a script with an exception before the hard stop unwinds its interpreter.
//!
//! Before a script runs, the driver returns words for the guest's memory that make the interpreter raise an exception
//! at its next check. The host writes these words at most once per execution: when only the reserve of fuel or time is
//! left, or when the execution is cancelled. A script can ignore the exception, so only the hard stop is guaranteed.
//!
//! Times are relative to the start of the execution.

use std::time::Duration;

use glovebox_interpreters::{Anchors, Driver, DriverError, Interrupt, InterruptWrite};

use crate::{Limits, LinearMemory};

/// The words to write to guest memory for each reason to interrupt.
#[derive(Debug, Default)]
pub struct InterruptWords {
    /// The words to write when the fuel is nearly exhausted.
    pub fuel: Vec<InterruptWrite>,
    /// The words to write when the timeout is near.
    pub time: Vec<InterruptWrite>,
    /// The words to write when the execution was cancelled.
    pub cancelled: Vec<InterruptWrite>,
}

impl InterruptWords {
    /// Returns the words that interrupt an image's interpreter.
    pub fn of(driver: &dyn Driver, anchors: &Anchors) -> Result<Self, DriverError> {
        let of = |interrupt| driver.interrupt(anchors, interrupt);
        Ok(Self { fuel: of(Interrupt::Fuel)?, time: of(Interrupt::Time)?, cancelled: of(Interrupt::Cancelled)? })
    }
}

/// The soft stop of one execution. Disabled by default.
#[derive(Debug, Default)]
pub struct SoftStop {
    fuel_reserve: u64,
    time_reserve: Duration,
    /// `None` while the guest cannot be interrupted: before its script runs, and after it has ended.
    writes: Option<InterruptWords>,
    requested: Option<Interrupt>,
    /// The end of a cancelled script's grace period.
    grace: Option<Duration>,
}

impl SoftStop {
    /// Creates a soft stop with these reserves. A reserve of zero disables the soft stop for that resource.
    pub fn new(fuel_reserve: u64, time_reserve: Duration) -> Self {
        Self { fuel_reserve, time_reserve, ..Self::default() }
    }

    /// Creates the soft stop of an execution that has `fuel` units of fuel. The reserves come from `limits`.
    /// Repeatable executions have no fuel reserve, because the host would notice the low fuel at a different point in
    /// each run.
    pub fn within(limits: &Limits, fuel: u64, is_repeatable: bool) -> Self {
        let fuel_reserve = if is_repeatable { 0 } else { limits.fuel_reserve_of(fuel) };
        Self::new(fuel_reserve, limits.effective_timeout_reserve())
    }

    pub(crate) fn fuel_reserve(&self) -> u64 {
        self.fuel_reserve
    }

    /// Enables interrupts with these words.
    pub fn arm(&mut self, writes: InterruptWords) {
        self.writes = Some(writes);
    }

    /// Disables interrupts. [`requested`](Self::requested) keeps its value.
    pub fn disarm(&mut self) {
        self.writes = None;
    }

    /// Returns the reason for the interrupt, if one was requested.
    pub fn requested(&self) -> Option<Interrupt> {
        self.requested
    }

    /// Interrupts the guest if a reserve has been reached. `left` is the time until the deadline.
    pub fn interrupt_if_due(&mut self, fuel_left: u64, left: Duration, memory: &mut (impl LinearMemory + ?Sized)) {
        if self.requested.is_some() {
            return;
        }
        if self.time_reserve > left {
            self.request(Interrupt::Time, memory);
        } else if self.fuel_reserve > fuel_left {
            self.request(Interrupt::Fuel, memory);
        }
    }

    /// Interrupts a cancelled guest. Returns the end of its grace period, or `None` if the guest must stop immediately.
    pub fn cancelled(&mut self, now: Duration, memory: &mut (impl LinearMemory + ?Sized)) -> Option<Duration> {
        if self.grace.is_none() {
            self.request(Interrupt::Cancelled, memory);
            if self.requested.is_some() && !self.time_reserve.is_zero() {
                self.grace = now.checked_add(self.time_reserve);
            }
        }
        self.grace
    }

    /// Returns `true` if a cancelled guest is in its grace period.
    pub fn is_in_grace(&self) -> bool {
        self.grace.is_some()
    }

    /// Returns the time at which a waiting guest must be checked next.
    pub fn next_check(&self, deadline: Duration) -> Duration {
        let soft =
            || deadline.checked_sub(self.time_reserve).filter(|_| self.writes.is_some() && self.requested.is_none());
        self.grace.or_else(soft).map_or(deadline, |at| at.min(deadline))
    }

    /// Returns `true` if an interrupt is pending that the guest has not seen yet. If so, the guest must not wait.
    pub fn is_unread(&self, memory: &(impl LinearMemory + ?Sized)) -> bool {
        let writes = self.requested.and_then(|interrupt| self.writes(interrupt));
        writes
            .and_then(<[InterruptWrite]>::last)
            .is_some_and(|write| memory.word(write.at).is_some_and(|now| write.is_pending(now)))
    }

    fn writes(&self, interrupt: Interrupt) -> Option<&[InterruptWrite]> {
        let writes = self.writes.as_ref()?;
        let of = match interrupt {
            Interrupt::Fuel => &writes.fuel,
            Interrupt::Time => &writes.time,
            Interrupt::Cancelled => &writes.cancelled,
        };
        (!of.is_empty()).then_some(of)
    }

    fn request(&mut self, interrupt: Interrupt, memory: &mut (impl LinearMemory + ?Sized)) {
        let Some(writes) = self.writes(interrupt) else { return };
        if self.requested.is_some() {
            return;
        }
        apply_writes(writes, memory);
        self.requested = Some(interrupt);
    }
}

fn apply_writes(writes: &[InterruptWrite], memory: &mut (impl LinearMemory + ?Sized)) {
    for write in writes {
        if let Some(old) = memory.word(write.at) {
            memory.set_word(write.at, write.apply(old));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESERVE: Duration = Duration::from_millis(100);

    fn writes() -> InterruptWords {
        let at = |word| vec![InterruptWrite::word(4, word), InterruptWrite::flag(8)];
        InterruptWords { fuel: at(10), time: at(20), cancelled: at(30) }
    }

    fn armed() -> SoftStop {
        let mut soft = SoftStop::new(1000, RESERVE);
        soft.arm(writes());
        soft
    }

    #[test]
    fn soft_stop_starts_below_the_fuel_reserve() {
        for (left, requested) in [(1001, None), (1000, None), (999, Some(Interrupt::Fuel))] {
            let (mut soft, mut memory) = (armed(), [0; 16]);
            soft.interrupt_if_due(left, Duration::MAX, &mut memory[..]);
            assert_eq!(soft.requested(), requested, "{left}");
            assert_eq!(memory[4], if requested.is_some() { 10 } else { 0 });
        }
    }

    #[test]
    fn soft_stop_starts_below_the_time_reserve() {
        for (left, requested) in [(101, None), (100, None), (99, Some(Interrupt::Time))] {
            let (mut soft, mut memory) = (armed(), [0; 16]);
            soft.interrupt_if_due(u64::MAX, Duration::from_millis(left), &mut memory[..]);
            assert_eq!(soft.requested(), requested, "{left}");
        }
    }

    #[test]
    fn soft_stop_is_requested_once() {
        let (mut soft, mut memory) = (armed(), [0; 16]);
        soft.interrupt_if_due(0, Duration::MAX, &mut memory[..]);
        memory.fill(0);
        soft.interrupt_if_due(0, Duration::ZERO, &mut memory[..]);
        assert!(soft.cancelled(Duration::from_secs(7), &mut memory[..]).is_some(), "the grace period still starts");
        assert_eq!((soft.requested(), memory), (Some(Interrupt::Fuel), [0; 16]));
    }

    #[test]
    fn guest_without_soft_stop_gets_no_grace() {
        let now = Duration::from_secs(7);
        let mut memory = [0; 16];
        let unarmed = SoftStop::new(1000, RESERVE);
        let mut without_reserve = SoftStop::new(0, Duration::ZERO);
        without_reserve.arm(writes());
        let mut without_writes = SoftStop::new(1000, RESERVE);
        without_writes.arm(InterruptWords::default());
        for mut soft in [unarmed, without_reserve, without_writes] {
            soft.interrupt_if_due(0, Duration::ZERO, &mut memory[..]);
            assert_eq!(soft.cancelled(now, &mut memory[..]), None, "{soft:?}");
        }
    }

    #[test]
    fn grace_is_given_once() {
        let (mut soft, mut memory, now) = (armed(), [0; 16], Duration::from_secs(7));
        let end = soft.cancelled(now, &mut memory[..]).unwrap();
        assert_eq!(end, now + RESERVE);
        assert_eq!(soft.cancelled(now + RESERVE, &mut memory[..]), Some(end));
        assert_eq!((soft.requested(), memory[4]), (Some(Interrupt::Cancelled), 30));
    }

    #[test]
    fn soft_stop_word_counts_as_unread_until_changed() {
        let (mut soft, mut memory) = (armed(), [0; 16]);
        assert!(!soft.is_unread(&memory[..]), "no interrupt was requested");
        soft.interrupt_if_due(0, Duration::MAX, &mut memory[..]);
        assert!(soft.is_unread(&memory[..]));
        memory[8] = 0;
        assert!(!soft.is_unread(&memory[..]));
    }

    #[test]
    fn soft_stop_words_outside_memory_are_not_written() {
        let mut soft = SoftStop::new(1000, RESERVE);
        soft.arm(InterruptWords {
            fuel: vec![InterruptWrite::word(13, 7), InterruptWrite::word(u32::MAX, 7)],
            ..InterruptWords::default()
        });
        let mut memory = [0; 16];
        soft.interrupt_if_due(0, Duration::MAX, &mut memory[..]);
        assert_eq!(memory, [0; 16]);
        assert!(!soft.is_unread(&memory[..]));
    }
}
