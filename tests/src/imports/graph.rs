//! Cycles in a graph.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

/// Modules of which each imports the next one, and the last the first.
#[derive(Debug)]
pub struct Cycle {
    /// The shortest way round.
    pub shortest: Vec<String>,
    /// All that import each other like this, if only through others.
    pub modules: Vec<String>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for module in &self.shortest {
            write!(f, "{module} -> ")?;
        }
        let first = self.shortest.first().map_or("", String::as_str);
        write!(f, "{first} ({} modules in all)", self.modules.len())
    }
}

type Edges<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// One for each group of modules that reach each other.
pub(super) fn cycles(edges: &Edges<'_>) -> Vec<Cycle> {
    let mut left: BTreeSet<&str> = edges.keys().copied().collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> = edges.keys().map(|from| (*from, reached_from(edges, from))).collect();
    let mut cycles = Vec::new();
    while let Some(first) = left.pop_first() {
        let of = |from: &str, to: &str| reached.get(from).is_some_and(|reached| reached.contains(to));
        let group: BTreeSet<&str> =
            left.iter().copied().filter(|other| of(first, other) && of(other, first)).chain([first]).collect();
        left.retain(|other| !group.contains(other));
        if group.len() > 1 {
            let ways = group.iter().filter_map(|from| shortest_round(edges, from));
            let shortest = ways.min_by_key(Vec::len).unwrap_or_default();
            let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
            cycles.push(Cycle { shortest: owned(shortest), modules: owned(group.into_iter().collect()) });
        }
    }
    cycles
}

fn reached_from<'a>(edges: &Edges<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = edges.get(from).into_iter().flatten().copied().collect();
    while let Some(at) = next.pop() {
        if reached.insert(at) {
            next.extend(edges.get(at).into_iter().flatten());
        }
    }
    reached
}

/// The shortest way from a module back to itself.
fn shortest_round<'a>(edges: &Edges<'a>, from: &'a str) -> Option<Vec<&'a str>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(at) = next.pop_front() {
        for to in edges.get(at).into_iter().flatten() {
            if *to == from {
                let mut way = vec![at];
                let mut back = at;
                while let Some(earlier) = before.get(back).filter(|_| back != from) {
                    way.push(earlier);
                    back = earlier;
                }
                way.reverse();
                return Some(way);
            }
            if !before.contains_key(to) {
                before.insert(to, at);
                next.push_back(to);
            }
        }
    }
    None
}
