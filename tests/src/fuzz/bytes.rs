//! Reads structured values from a fuzzer's bytes.

/// The remaining input. Numbers past its end are 0, and byte strings end with it.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(super) fn below(&mut self, max: usize) -> usize {
        usize::from(self.byte()) % max
    }

    /// Reads a length-prefixed byte string of at most `max` bytes.
    pub(super) fn run(&mut self, max: usize) -> &'a [u8] {
        let wanted = usize::from(self.byte()).min(max);
        let (run, rest) = self.0.split_at(wanted.min(self.0.len()));
        self.0 = rest;
        run
    }

    /// Reads a number from one, two or nine bytes. Prefers small numbers, numbers near `edge` or `u64::MAX`, and
    /// multiples of 256.
    pub(super) fn number(&mut self, edge: u64) -> u64 {
        let near = u64::from(self.byte());
        match near >> 5 {
            0 | 1 => near & 0x1F,
            2 => u64::from(self.byte()),
            3 => edge.wrapping_sub(near & 0x1F),
            4 => edge.wrapping_add(near & 0x1F),
            5 => u64::MAX - (near & 0x1F),
            6 => 256 * u64::from(self.byte()),
            _ => (0..8).fold(0, |sum, _| (sum << 8) | u64::from(self.byte())),
        }
    }
}
