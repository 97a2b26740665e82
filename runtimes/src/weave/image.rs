//! A guest's pristine image: kept as data segments that the shim copies from, whenever a guest begins anew.

use super::{
    WeaveError,
    guest::segment,
    module::{Module, count},
};

/// More runs than this are joined, the nearest first: each is a data segment, and a case in the functions that copy from it.
const RUNS_MOST: usize = 256;

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
    let mut runs: Vec<Run> = Vec::new();
    for data in &module.data {
        let (start, bytes) = segment(module, data)?;
        if runs.last().is_some_and(|last| start < last.end()) {
            let what = "its data segments overlap; only prepared modules can be woven";
            return Err(WeaveError::unsupported(module.name, what));
        }
        if !bytes.is_empty() {
            runs.push(Run { start, bytes: bytes.to_vec() });
        }
    }
    Ok(join(runs, RUNS_MOST))
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
    use super::{Run, join};

    fn run(start: u32, bytes: &[u8]) -> Run {
        Run { start, bytes: bytes.to_vec() }
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
