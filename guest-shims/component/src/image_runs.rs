//! The non-zero parts of a pristine image.

/// A contiguous non-zero part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageRun {
    /// The address of the first byte.
    pub start: u32,
    /// The length in bytes.
    pub length: u32,
    /// The offset in the image's data segment, which holds the runs one after the other.
    pub offset: u32,
}

impl ImageRun {
    /// Returns the address after the run.
    #[must_use]
    pub fn end(&self) -> u64 {
        u64::from(self.start) + u64::from(self.length)
    }
}

/// All runs of an image, in ascending order of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageRuns(Vec<ImageRun>);

impl ImageRuns {
    /// Parses alternating lengths, of zeros and of bytes in the data segment. Returns `None` if they exceed the 32 bits
    /// of an address, or if the last length is missing.
    #[must_use]
    pub fn new(lengths: &[u32]) -> Option<Self> {
        let (pairs, rest) = lengths.as_chunks();
        let (mut end, mut offset) = (0u32, 0u32);
        let runs = pairs.iter().map(|&[zeros, length]| {
            let start = end.checked_add(zeros)?;
            let run = ImageRun { start, length, offset };
            (end, offset) = (start.checked_add(length)?, offset.checked_add(length)?);
            Some(run)
        });
        runs.collect::<Option<_>>().filter(|_| rest.is_empty()).map(Self)
    }

    /// Returns all runs.
    #[must_use]
    pub fn all(&self) -> &[ImageRun] {
        &self.0
    }

    /// Returns the runs that overlap the addresses from `start` to `end`.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = &ImageRun> {
        let first = self.0.partition_point(|run| run.end() <= start);
        self.0.iter().skip(first).take_while(move |run| u64::from(run.start) < end)
    }
}

#[cfg(test)]
mod tests {
    use super::{ImageRun, ImageRuns};

    #[test]
    fn lengths_are_read_by_turns() {
        let runs = ImageRuns::new(&[100, 3, 40, 7]).unwrap();
        let (one, other) =
            (ImageRun { start: 100, length: 3, offset: 0 }, ImageRun { start: 143, length: 7, offset: 3 });
        assert_eq!(runs.all(), [one, other]);
        let within = |start, end| runs.within(start, end).copied().collect::<Vec<_>>();
        assert_eq!(within(0, 100), []);
        assert_eq!(within(0, 101), [one]);
        assert_eq!(within(102, 143), [one]);
        assert_eq!(within(102, 144), [one, other]);
        assert_eq!(within(103, 144), [other]);
        assert_eq!(within(150, u64::MAX), []);
    }

    #[test]
    fn lengths_that_are_no_image_are_refused() {
        assert_eq!(ImageRuns::new(&[]), Some(ImageRuns::default()));
        assert_eq!(ImageRuns::new(&[1]), None);
        assert!(ImageRuns::new(&[u32::MAX - 1, 1]).is_some());
        assert_eq!(ImageRuns::new(&[u32::MAX - 1, 2]), None);
        assert_eq!(ImageRuns::new(&[u32::MAX - 1, 1, 1, 1]), None);
    }
}
