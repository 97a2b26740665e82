//! Generates code that throws and catches exceptions.

use super::{Exn, Generator, TAGS, TYPES, Ty, list};

impl Generator {
    /// Generates a clause of a `try_table`. Returns its text and the types of the values that its label receives.
    fn clause(&mut self) -> (String, Vec<Ty>) {
        let tag = self.dice.below(TAGS.len());
        let (name, mut carried) = match self.dice.below(5) {
            0 => ("catch_all".to_owned(), vec![]),
            1 => ("catch_all_ref".to_owned(), vec![Exn]),
            2 => (format!("catch_ref $e{tag}"), TAGS[tag].to_vec()),
            _ => (format!("catch $e{tag}"), TAGS[tag].to_vec()),
        };
        if name.starts_with("catch_ref") {
            carried.push(Exn);
        }
        (name, carried)
    }

    /// Generates a `try_table` with code that may throw. One clause branches to the enclosing block, and up to two more
    /// branch to random labels. Exceptions that no clause matches propagate.
    pub(super) fn attempt(&mut self) {
        let (clause, carried) = self.clause();
        self.enter("block", &[], &carried, &carried);
        let mut clauses = vec![format!("({clause} 0)")];
        for _ in 0..self.dice.below(3) {
            let (other, needed) = self.clause();
            if let Some(label) = self.label(&needed) {
                let place = self.dice.below(clauses.len() + 1);
                clauses.insert(place, format!("({other} {label})"));
            }
        }
        let given: Vec<Ty> = (0..self.dice.below(2)).map(|_| self.dice.pick(&TYPES)).collect();
        self.put(&format!("try_table{} {}", list("result", &given), clauses.join(" ")));
        self.labels.push(given.clone());
        self.statements();
        if self.dice.below(3) == 0 {
            self.call(None);
        }
        self.values(&given);
        self.leave();
        self.drops(&given);
        if self.dice.below(2) == 0 {
            self.exit();
        } else {
            self.values(&carried);
        }
        self.leave();
        for ty in carried.into_iter().rev() {
            if ty != Exn {
                let local = self.local(ty);
                self.put(&format!("local.set {local}"));
            } else if self.dice.below(3) == 0 {
                self.put("throw_ref");
            } else {
                self.put("drop");
            }
        }
    }
}
