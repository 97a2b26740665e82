//! A guest's pristine image: kept as data segments that the shim copies from, whenever a guest begins anew.

use super::{
    WeaveError,
    guest::segment,
    module::{Module, count},
};

/// Zeros from this length on are left out: knowing of one run more takes some 40 bytes of code and description.
const GAP_BYTES: usize = 256;

/// More runs than this are joined, the nearest first: each is a data segment, and a case in the functions that copy from it.
const RUNS_MOST: usize = 1024;

/// A stretch of the image, zeros left out before and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u32,
    pub(super) bytes: Vec<u8>,
}

impl Run {
    fn end(&self) -> u32 {
        self.start.saturating_add(count(&self.bytes))
    }
}

/// The image's runs, in the order of their addresses.
pub(super) fn runs(module: &Module<'_>) -> Result<Vec<Run>, WeaveError> {
    let (mut runs, mut end) = (Vec::new(), 0);
    for data in &module.data {
        let (start, bytes) = segment(module, data)?;
        if start < end {
            let what = "its data segments overlap; only prepared modules can be woven";
            return Err(WeaveError::unsupported(module.name, what));
        }
        end = start.saturating_add(count(bytes));
        runs.extend(split(start, bytes));
    }
    Ok(join(runs, RUNS_MOST))
}

/// A segment without the zeros in it that are worth it.
fn split(start: u32, bytes: &[u8]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let (mut at, mut zeros) = (start, GAP_BYTES);
    for byte in bytes {
        if *byte == 0 {
            zeros = zeros.saturating_add(1);
        } else {
            match runs.last_mut() {
                Some(run) if zeros < GAP_BYTES => run.bytes.resize(run.bytes.len().saturating_add(zeros), 0),
                _ => runs.push(Run { start: at, bytes: Vec::new() }),
            }
            if let Some(run) = runs.last_mut() {
                run.bytes.push(*byte);
            }
            zeros = 0;
        }
        at = at.saturating_add(1);
    }
    runs
}

/// Joins the nearest until there are at most so many.
fn join(mut runs: Vec<Run>, most: usize) -> Vec<Run> {
    let too_many = runs.len().saturating_sub(most);
    if too_many == 0 {
        return runs;
    }
    let mut gaps: Vec<(u32, usize)> = Vec::new();
    for (at, (run, next)) in runs.iter().zip(runs.iter().skip(1)).enumerate() {
        gaps.push((next.start.saturating_sub(run.end()), at + 1));
    }
    gaps.sort_unstable();
    let mut closed: Vec<usize> = gaps.into_iter().take(too_many).map(|(_, at)| at).collect();
    closed.sort_unstable();
    // From the end, so that the places before stay what they are.
    for at in closed.into_iter().rev() {
        let next = runs.remove(at);
        if let Some(run) = at.checked_sub(1).and_then(|before| runs.get_mut(before)) {
            let gap = next.start.saturating_sub(run.end());
            run.bytes.resize(run.bytes.len().saturating_add(super::module::index(gap)), 0);
            run.bytes.extend(next.bytes);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::{GAP_BYTES, Run, join, split};

    fn run(start: u32, bytes: &[u8]) -> Run {
        Run { start, bytes: bytes.to_vec() }
    }

    #[test]
    fn long_zeros_are_left_out_and_short_ones_are_not() {
        for (zeros, whole) in [(GAP_BYTES - 1, true), (GAP_BYTES, false)] {
            let bytes = [&[0, 0, 7][..], &vec![0; zeros], &[8, 9], &[0; 4]].concat();
            let far = 102 + 1 + u32::try_from(zeros).unwrap();
            let apart = [run(102, &[7]), run(far, &[8, 9])];
            let joined = [run(102, bytes.get(2..zeros + 5).unwrap())];
            assert_eq!(split(100, &bytes), if whole { &joined[..] } else { &apart[..] });
        }
        assert_eq!(split(100, &[0; 2 * GAP_BYTES]), []);
    }

    #[test]
    fn the_nearest_runs_are_joined_with_the_zeros_between_them() {
        let apart = vec![run(0, &[1]), run(3, &[2, 3]), run(9, &[4]), run(10, &[5])];
        assert_eq!(join(apart.clone(), 4), apart);
        assert_eq!(join(apart.clone(), 3), [run(0, &[1]), run(3, &[2, 3]), run(9, &[4, 5])]);
        assert_eq!(join(apart.clone(), 2), [run(0, &[1, 0, 0, 2, 3]), run(9, &[4, 5])]);
        assert_eq!(join(apart, 1), [run(0, &[1, 0, 0, 2, 3, 0, 0, 0, 0, 4, 5])]);
    }
}
