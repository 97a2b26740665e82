//! The guest's clocks and random bytes.

use rand_chacha::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};

use crate::{Errno, Host, Stop};

/// The source of the guest's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The host's clocks. The monotonic clock continues from its last value (see
    /// [`Wasi::set_clock`](crate::Wasi::set_clock)).
    Host,
    /// The time is constant, except that a sleep immediately advances it by the sleep's duration.
    Fixed {
        /// Nanoseconds since 1970.
        realtime_ns: u64,
        /// The value of the monotonic clock.
        monotonic_ns: u64,
    },
}

/// A `clockid` of preview 1. The two CPU-time clocks report monotonic time: a guest has one thread, and its waiting
/// time is not measured separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockId {
    Realtime,
    Monotonic,
}

impl TryFrom<u32> for ClockId {
    type Error = Errno;

    fn try_from(id: u32) -> Result<Self, Errno> {
        match id {
            0 => Ok(Self::Realtime),
            1..=3 => Ok(Self::Monotonic),
            _ => Err(Errno::Inval),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ClockState {
    source: Clock,
    /// The value of the monotonic clock when this instance was created, in nanoseconds. Used with [`Clock::Host`].
    base_ns: u64,
    /// The total sleeping time in nanoseconds. Used with [`Clock::Fixed`].
    slept_ns: u64,
}

/// The clock values that belong to the guest, without the time that the host measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedClock {
    pub(crate) monotonic_ns: u64,
    pub(crate) slept_ns: u64,
}

impl ClockState {
    pub(crate) fn new(source: Clock) -> Self {
        Self { source, base_ns: 0, slept_ns: 0 }
    }

    pub(crate) fn now<H: Host + ?Sized>(&self, host: &mut H, id: ClockId) -> u64 {
        match (self.source, id) {
            (Clock::Host, ClockId::Realtime) => host.realtime_ns(),
            (Clock::Host, ClockId::Monotonic) => self.base_ns.saturating_add(host.monotonic_ns()),
            (Clock::Fixed { realtime_ns, .. }, ClockId::Realtime) => realtime_ns.saturating_add(self.slept_ns),
            (Clock::Fixed { monotonic_ns, .. }, ClockId::Monotonic) => monotonic_ns.saturating_add(self.slept_ns),
        }
    }

    pub(crate) fn sleep<H: Host>(&mut self, host: &mut H, duration_ns: u64) -> Result<(), Stop> {
        match self.source {
            Clock::Host => host.sleep_ns(duration_ns),
            Clock::Fixed { .. } => {
                self.slept_ns = self.slept_ns.saturating_add(duration_ns);
                Ok(())
            }
        }
    }

    /// Returns the resolution in nanoseconds: 1 for a fixed clock, which is exact, and 1,000 for the host's clocks.
    /// Guests have no legitimate use for a finer resolution.
    pub(crate) fn resolution_ns(&self) -> u64 {
        match self.source {
            Clock::Host => 1_000,
            Clock::Fixed { .. } => 1,
        }
    }

    /// Returns the value of the monotonic clock, without the time that the host measured.
    pub(crate) fn monotonic_base_ns(&self) -> u64 {
        match self.source {
            Clock::Host => self.base_ns,
            Clock::Fixed { monotonic_ns, .. } => monotonic_ns.saturating_add(self.slept_ns),
        }
    }

    pub(crate) fn set_base_ns(&mut self, base_ns: u64) {
        self.base_ns = base_ns;
    }

    pub(crate) fn save(&self) -> SavedClock {
        SavedClock { monotonic_ns: self.monotonic_base_ns(), slept_ns: self.slept_ns }
    }

    /// Continues from a saved clock: the monotonic clock does not go below its saved value. A fixed clock also restores
    /// the total sleeping time, which advances its real time.
    pub(crate) fn restore(&mut self, saved: SavedClock) {
        match &mut self.source {
            Clock::Host => self.base_ns = saved.monotonic_ns,
            Clock::Fixed { monotonic_ns, .. } => {
                self.slept_ns = saved.slept_ns;
                *monotonic_ns = (*monotonic_ns).max(saved.monotonic_ns.saturating_sub(saved.slept_ns));
            }
        }
    }

    /// Changes the source of time. The guest's monotonic clock continues, without the time that the host measured.
    pub(crate) fn set_source(&mut self, source: Clock) {
        let shown = self.monotonic_base_ns();
        self.source = match source {
            Clock::Host => {
                self.base_ns = shown;
                source
            }
            Clock::Fixed { realtime_ns, monotonic_ns } => {
                Clock::Fixed { realtime_ns, monotonic_ns: monotonic_ns.max(shown) }
            }
        };
        self.slept_ns = 0;
    }
}

/// The source of the guest's random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// The host's generator.
    Host,
    /// ChaCha20 with this key and stream 0, from the beginning of the stream: the same bytes in every run.
    Seeded([u8; 32]),
}

impl Entropy {
    /// Creates a generator from a small seed. The key is the seed in eight little-endian bytes, followed by zeros.
    pub fn seeded(seed: u64) -> Self {
        let mut key = [0; 32];
        for (to, from) in key.iter_mut().zip(seed.to_le_bytes()) {
            *to = from;
        }
        Self::Seeded(key)
    }
}

/// The random generator and its position. A clone continues from the same position.
#[derive(Clone, Debug)]
pub(crate) enum Generator {
    Host,
    // Boxed, because the generator contains a block of output that takes a third of a kilobyte.
    Seeded(Box<ChaCha20Rng>),
}

impl Generator {
    pub(crate) fn new(entropy: Entropy) -> Self {
        match entropy {
            Entropy::Host => Self::Host,
            Entropy::Seeded(key) => Self::Seeded(Box::new(ChaCha20Rng::from_seed(key))),
        }
    }

    pub(crate) fn fill<H: Host + ?Sized>(&mut self, host: &mut H, into: &mut [u8]) {
        match self {
            Self::Host => host.fill_random(into),
            Self::Seeded(generator) => generator.fill_bytes(into),
        }
    }

    /// Returns the position in 32-bit words from the beginning of the stream, or `None` for the host's generator.
    pub(crate) fn position(&self) -> Option<u128> {
        match self {
            Self::Host => None,
            Self::Seeded(generator) => Some(generator.get_word_pos()),
        }
    }

    pub(crate) fn set_position(&mut self, words: u128) {
        if let Self::Seeded(generator) = self {
            generator.set_word_pos(words);
        }
    }
}
