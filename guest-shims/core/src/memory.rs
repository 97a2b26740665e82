//! The memory limit, enforced on the total memory of an execution.

use std::sync::Arc;

use crate::{session::Reservation, tools::ToolMemory};

/// The part of the limit that is reserved for uses other than linear memory, in bytes. It lets a guest without free
/// memory report an error.
pub(crate) const OUTPUT_RESERVE_BYTES: u64 = 256 << 10;

/// Maximum charge for an image, in bytes. A small script modifies less of its image.
const IMAGE_BYTES: u64 = 2 << 20;

/// The memory limit of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit in bytes, `limits.memory_bytes`.
    pub bytes: u64,
    /// The uncounted bytes of linear memory: the size of the image that the guest starts from, minus its charge.
    spare_bytes: u64,
}

impl MemoryLimit {
    /// Creates the limit of a guest that starts from an image with a linear memory of `image_bytes`.
    pub fn of_image(bytes: u64, image_bytes: u64) -> Self {
        Self { bytes, spare_bytes: image_bytes.saturating_sub(Self::image_charge(image_bytes)) }
    }

    /// Returns the charge for an image with a linear memory of `image_bytes`.
    pub fn image_charge(image_bytes: u64) -> u64 {
        image_bytes.min(IMAGE_BYTES)
    }

    /// Returns the number of bytes that count towards the limit in a linear memory of `linear_bytes`.
    pub fn counted(&self, linear_bytes: u64) -> u64 {
        linear_bytes.saturating_sub(self.spare_bytes)
    }
}

impl From<u64> for MemoryLimit {
    fn from(bytes: u64) -> Self {
        Self { bytes, spare_bytes: 0 }
    }
}

/// A guest's memory usage and its limit. The limit applies to the total of counted linear memory and host memory.
#[derive(Debug, Default)]
pub struct MemoryLimiter {
    limit: MemoryLimit,
    /// The bytes of the limit that linear memory cannot use.
    reserve_bytes: u64,
    /// The number of bytes that the host uses, excluding tool calls. Updated after every WASI call.
    host_bytes: u64,
    linear_bytes: u64,
    /// The memory account of the current execution's tool calls.
    tools: Arc<ToolMemory>,
    peak_bytes: u64,
    /// The total that the last refused growth in the current execution would have caused.
    refused_bytes: Option<u64>,
    /// `true` if a suspended execution has reported the last refused growth.
    is_refusal_reported: bool,
    /// The guest's share of the total of all sessions; `None` outside a session.
    reservation: Option<Reservation>,
    /// The peak of [`host_bytes`](Self::host_bytes) since the reservation was made.
    reserved_host_bytes: u64,
}

impl MemoryLimiter {
    /// Creates the limiter of a guest without memory. The host already uses `host_bytes` for the guest.
    pub fn new(limit: impl Into<MemoryLimit>, host_bytes: u64) -> Self {
        let limit = limit.into();
        let reserve_bytes = OUTPUT_RESERVE_BYTES.min(limit.bytes / 8);
        let mut limiter = Self { limit, reserve_bytes, ..Self::default() };
        limiter.set_host_bytes(host_bytes);
        limiter.see_peak();
        limiter
    }

    /// Returns the size of the counted linear memory, in bytes.
    pub fn linear_bytes(&self) -> u64 {
        self.limit.counted(self.linear_bytes)
    }

    /// Returns the bytes of the limit that the guest's files and output cannot use: counted linear memory, tool calls,
    /// and the usage of other sessions.
    pub fn taken_bytes(&self) -> u64 {
        let taken = self.linear_bytes().saturating_add(self.tools.held_bytes());
        match &self.reservation {
            None => taken,
            Some(reservation) => {
                let host_bytes = self.reserved_host_bytes.saturating_add(reservation.available_bytes());
                taken.max(self.limit.bytes.saturating_sub(host_bytes))
            }
        }
    }

    /// Charges the guest's further growth to `reservation`. `host_bytes` is the number of bytes that the host uses for
    /// the guest now.
    pub fn reserve_from(&mut self, reservation: Reservation, host_bytes: u64) {
        self.reservation = None;
        self.set_host_bytes(host_bytes);
        self.reserved_host_bytes = host_bytes;
        self.reservation = Some(reservation);
    }

    /// Releases the reservation of an idle guest after its usage was measured.
    pub fn give_back_reservation(&mut self) {
        self.reservation = None;
    }

    /// Returns the peak memory usage of the current execution, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.peak_bytes.max(self.sum_bytes())
    }

    /// Returns the total that a refused growth in the current execution would have caused; `None` if no growth was
    /// refused.
    pub fn refused_bytes(&self) -> Option<u64> {
        self.refused_bytes
    }

    /// Like [`refused_bytes`](Self::refused_bytes), but without a growth that a suspended execution has reported.
    pub(crate) fn unreported_bytes(&self) -> Option<u64> {
        self.refused_bytes.filter(|_| !self.is_refusal_reported)
    }

    pub(crate) fn mark_reported(&mut self) {
        self.is_refusal_reported = true;
    }

    /// Sets the number of bytes that the host uses, excluding tool calls.
    pub fn set_host_bytes(&mut self, bytes: u64) {
        self.host_bytes = bytes;
        if let Some(reservation) = &mut self.reservation
            && let Some(more) = bytes.checked_sub(self.reserved_host_bytes).filter(|more| *more > 0)
        {
            reservation.add(more);
            self.reserved_host_bytes = bytes;
        }
        self.tools.set_room(self.limit.bytes.saturating_sub(self.linear_bytes().saturating_add(bytes)));
    }

    /// Raises the peak to the current total, if the total is higher.
    pub fn see_peak(&mut self) {
        self.peak_bytes = self.peak_bytes.max(self.sum_bytes());
    }

    /// Resets the peak and the refused growth for a new execution, and installs the memory account of its tool calls.
    pub fn begin(&mut self, tools: Arc<ToolMemory>) {
        (self.refused_bytes, self.is_refusal_reported) = (None, false);
        self.peak_bytes = 0;
        self.tools = tools;
        self.set_host_bytes(self.host_bytes);
    }

    /// Gives the reserve to linear memory. Returns its size, for [`keep_free`](Self::keep_free).
    pub fn free_all(&mut self) -> u64 {
        std::mem::take(&mut self.reserve_bytes)
    }

    /// Sets the reserve, the bytes that linear memory cannot use.
    pub fn keep_free(&mut self, bytes: u64) {
        self.reserve_bytes = bytes;
    }

    /// Decides whether a memory may grow from `current` to `desired` bytes. `maximum` is the memory's own limit.
    /// Records an accepted or refused growth.
    pub fn grow(&mut self, current: u64, desired: u64, maximum: Option<u64>) -> bool {
        let grown = desired.saturating_sub(current);
        let linear_bytes = self.linear_bytes.saturating_add(grown);
        let counted_bytes = self.limit.counted(linear_bytes);
        let sum = counted_bytes.saturating_add(self.host_bytes).saturating_add(self.tools.held_bytes());
        // The guest does not choose its initial memory, so the reserve does not apply.
        let reserve_bytes = if current == 0 { 0 } else { self.reserve_bytes };
        let others = counted_bytes.saturating_add(self.host_bytes).saturating_add(reserve_bytes);
        let fits = maximum.is_none_or(|max| desired <= max)
            && self.limit.bytes.checked_sub(others).is_some_and(|left| {
                // Tools may use the reserve. A tool's thread may reserve memory concurrently.
                self.tools.held_bytes() <= left && self.tools.try_set_room(left.saturating_add(reserve_bytes))
            });
        if !fits || !self.reservation.as_mut().is_none_or(|reservation| reservation.reserve(grown)) {
            // Recompute the room for tools, which may have shrunk.
            self.set_host_bytes(self.host_bytes);
            (self.refused_bytes, self.is_refusal_reported) = (Some(sum), false);
            return false;
        }
        self.linear_bytes = linear_bytes;
        self.peak_bytes = self.peak_bytes.max(sum);
        true
    }

    fn sum_bytes(&self) -> u64 {
        self.linear_bytes().saturating_add(self.host_bytes).saturating_add(self.tools.held_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, session::SessionLedger};

    fn limiter(limit_bytes: u64) -> MemoryLimiter {
        MemoryLimiter { limit: limit_bytes.into(), ..MemoryLimiter::default() }
    }

    #[test]
    fn linear_memory_and_host_memory_share_one_limit() {
        let mut limiter = limiter(100);
        limiter.set_host_bytes(30);
        assert!(limiter.grow(0, 40, None), "under");
        assert!(limiter.grow(40, 70, None), "at");
        assert!(!limiter.grow(70, 71, None), "over");
        assert_eq!(limiter.refused_bytes(), Some(101));
        limiter.set_host_bytes(29);
        assert!(limiter.grow(70, 71, None), "usable after the host has released memory");
    }

    #[test]
    fn linear_memory_and_tool_calls_share_one_limit() {
        let tools = Arc::new(ToolMemory::default());
        let mut limiter = limiter(100);
        limiter.set_host_bytes(30);
        limiter.begin(Arc::clone(&tools));
        let held = tools.hold(20).unwrap();
        assert!(limiter.grow(0, 49, None), "under");
        assert!(tools.hold(2).is_none(), "over");
        assert!(limiter.grow(49, 50, None), "at");
        assert!(!limiter.grow(50, 51, None), "over");
        assert!(tools.hold(1).is_none(), "over");
        assert_eq!((limiter.refused_bytes(), limiter.used_bytes()), (Some(101), 100));
        drop(held);
        assert!(limiter.grow(50, 51, None), "usable after the tools have released memory");
        assert!(tools.hold(19).is_some(), "the tools can use the rest");
    }

    #[test]
    fn linear_memory_leaves_room_for_output() {
        let mut limiter = MemoryLimiter::new(80, 0);
        assert!(limiter.grow(0, 60, None));
        assert!(limiter.grow(60, 70, None), "at");
        assert!(!limiter.grow(70, 71, None), "over");
        let reserved = limiter.free_all();
        assert_eq!(reserved, 10);
        assert!(limiter.grow(70, 71, None), "the released reserve is usable");
        limiter.keep_free(reserved);
        assert!(!limiter.grow(71, 72, None), "over, because the reserve applies again");
        assert_eq!(MemoryLimiter::new(1 << 30, 0).free_all(), OUTPUT_RESERVE_BYTES);
    }

    #[test]
    fn session_memory_and_files_share_the_session_limit() {
        let limits = Limits { session_total_bytes: 100, ..Limits::default() };
        let ledger = SessionLedger::default();
        let (mut place, other) = (ledger.enter(&limits, 50).unwrap(), ledger.enter(&limits, 10).unwrap());
        let mut limiter = limiter(200);
        limiter.set_host_bytes(20);
        assert!(limiter.grow(0, 30, None), "the ledger entry covers the initial memory");
        limiter.reserve_from(place.reservation(&limits), 20);
        assert_eq!(limiter.taken_bytes(), 200 - 20 - 40, "40 bytes are left for files");
        limiter.set_host_bytes(45);
        limiter.set_host_bytes(15);
        assert_eq!(limiter.taken_bytes(), 200 - 45 - 15, "bytes stay reserved after the host has released them");
        assert!(!limiter.grow(30, 46, None), "over");
        assert_eq!(limiter.refused_bytes(), Some(61));
        assert!(limiter.grow(30, 45, None), "at");
        assert_eq!(other.check(&limits, 1).unwrap_err().used, 101);
        place.update(60);
        limiter.give_back_reservation();
        assert_eq!(other.check(&limits, 30), Ok(()));
        assert_eq!(limiter.taken_bytes(), 45);
    }

    #[test]
    fn large_image_counts_a_fixed_amount() {
        const MIB: u64 = 1 << 20;
        let mut limiter = MemoryLimiter::new(MemoryLimit::of_image(10 * MIB, 60 * MIB), 0);
        limiter.free_all();
        limiter.set_host_bytes(MIB);
        assert!(limiter.grow(0, 60 * MIB, None), "the image");
        assert_eq!((limiter.taken_bytes(), limiter.used_bytes()), (2 * MIB, 3 * MIB));
        assert!(limiter.grow(60 * MIB, 67 * MIB - 1, None), "under");
        assert!(limiter.grow(67 * MIB - 1, 67 * MIB, None), "at");
        assert!(!limiter.grow(67 * MIB, 67 * MIB + 1, None), "over");
        assert_eq!(limiter.refused_bytes(), Some(10 * MIB + 1));
        assert_eq!(limiter.used_bytes(), 10 * MIB, "the usage never exceeds the limit");
    }

    #[test]
    fn small_image_counts_its_size() {
        let limit = MemoryLimit::of_image(100, 10);
        assert_eq!((limit.counted(10), limit.counted(11), limit.counted(0)), (10, 11, 0));
        let limit = MemoryLimit::of_image(100, IMAGE_BYTES + 1);
        assert_eq!((limit.counted(IMAGE_BYTES + 1), limit.counted(IMAGE_BYTES + 2)), (IMAGE_BYTES, IMAGE_BYTES + 1));
    }

    #[test]
    fn several_memories_are_summed() {
        let mut limiter = limiter(100);
        assert!(limiter.grow(0, 60, None));
        assert!(!limiter.grow(0, 60, None), "a second memory of the same size does not fit");
    }

    #[test]
    fn each_memory_has_its_own_maximum() {
        let mut limiter = limiter(100);
        assert!(!limiter.grow(0, 51, Some(50)), "over");
        assert!(limiter.grow(0, 50, Some(50)), "at");
    }
}
