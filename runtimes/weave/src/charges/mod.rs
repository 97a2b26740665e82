//! Plans fuel charges, before any code is generated.
//!
//! The charged amount must be exact only where the counter is read: at checks, at calls and where the function returns.
//! The function is split into *segments* at these positions, and wherever control flow splits or merges. A segment that
//! is entered runs to its end. Between two reads, the counter may be ahead of the executed operators by any amount, if
//! all paths to a position agree on the amount. This amount is the position's *potential*. A segment charges its cost,
//! plus the potential at its end, minus the potential at its start. The total charge from one read to the next is
//! therefore the same for any choice of potentials.
//!
//! Potentials are chosen backwards from the function's end, so that most segments charge nothing. The potential of a
//! label is the amount that the code after the label would otherwise charge. This choice moves charges backwards along
//! all paths to the label, to a call or check, where a charge costs almost nothing. Positions share a potential if a
//! single branch chooses between them: the targets of a `br_table`, and the two sides of an `if` or `br_if`. The
//! potential is zero where the counter is read, at loops, and at the function's end.
//!
//! A charge can be negative if one side of an `if` is cheaper than the other. No check observes a negative charge.
//!
//! At an exception's landing pad ([`Landings`](crate::reach::Landings)), the counter has the value that it had at the
//! call. The labels of landing pads therefore have potential zero, and every other branch to them saves the counter.

#[cfg(test)]
mod tests;

use wasmparser::Operator;

use crate::{
    lengths::Constants,
    metered::{self, SMALL_BULK, cost},
    reach::{self, LabelKind, Landings, Reach},
};

/// The code to insert around each operator of a function.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    /// The charge after the check at the function's beginning. The check itself covers only
    /// [`ENTRY`](crate::metered::ENTRY).
    pub(crate) first: i64,
    /// Charges and checks, by operator position.
    pub(crate) steps: Vec<OperatorCharge>,
    /// `true` if a reachable operator branches to the function's end.
    pub(crate) branches_out: bool,
    /// `true` if a reachable operator catches exceptions.
    pub(crate) catches: bool,
    /// `true` if a reachable operator catches every exception.
    pub(crate) catches_all: bool,
}

/// The code to insert around one operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OperatorCharge {
    /// `true` if the operator is reachable. For `else` and `end`: `true` if the code after the operator is reachable.
    pub(crate) is_live: bool,
    /// The amount to charge before the operator's check, or before the counter is saved.
    pub(crate) before: i64,
    pub(crate) check: FuelCheck,
    /// The amount to charge after the check. At a checked operator, this amount is charged before the operator. At a
    /// call, and where control flow splits or merges, the amount is charged after the operator.
    pub(crate) after: i64,
    /// `true` if the counter is saved again before its next use, so it need not be reloaded after this call or landing.
    pub(crate) stays_saved: bool,
    /// `true` if the operator may branch to a landing, so the counter is saved before the operator. The local remains
    /// in use.
    pub(crate) syncs: bool,
    /// `true` if exceptions land after this operator.
    pub(crate) lands: bool,
}

/// The check of the fuel counter at an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FuelCheck {
    #[default]
    No,
    /// Checks the remaining fuel.
    Check,
    /// Charges the number on top of the stack, and then checks the remaining fuel.
    CheckLength,
}

/// The number that identifies a set of positions with the same potential.
type Label = usize;

/// The label of all positions whose potential is zero.
const EXACT: Label = 0;

/// Straight-line code that is entered only at its beginning.
#[derive(Debug)]
struct Segment {
    cost: i64,
    /// The position of the operator before the segment. `None` for the segment at the function's beginning.
    begin: Option<usize>,
    from: Label,
    to: Label,
    /// The position of the operator at the segment's end, if it reads or saves the counter. The segment's charge is
    /// then placed there.
    checked_at: Option<usize>,
    /// `true` if the counter is saved at the operator at `checked_at`.
    is_saved: bool,
}

#[derive(Clone, Copy, Debug)]
struct ChargeFrame {
    /// The label that a branch to the block reaches.
    target: Label,
    end: Label,
    /// The label at the beginning of both sides of an `if`.
    parts: Label,
    /// `true` if the block is an `if` with an `else`.
    has_else: bool,
    /// `true` if exceptions land where branches to the block arrive.
    is_landing: bool,
}

struct Planner {
    charges: Charges,
    landings: Landings,
    reach: Reach,
    frames: Vec<ChargeFrame>,
    /// Union-find parents: each label maps to itself, or to an older label with the same potential.
    same: Vec<Label>,
    /// The open segment. `None` in unreachable code.
    open: Option<Segment>,
    /// Finished segments, in code order.
    segments: Vec<Segment>,
}

/// Plans the charges of a function. If `grows_by_call` is set, calls replace `memory.grow`.
pub(crate) fn charges(operators: &[Operator<'_>], lengths: &Constants, grows_by_call: bool) -> Charges {
    let mut planner = Planner::new(Landings::of(operators));
    for (place, operator) in operators.iter().enumerate() {
        planner.charges.steps.push(OperatorCharge { is_live: planner.reach.is_live(), ..OperatorCharge::default() });
        planner.operator(place, operator, lengths.get(&place).copied(), grows_by_call);
        if matches!(operator, Operator::Else | Operator::End) {
            planner.note_live(place);
        }
    }
    planner.finish()
}

impl Planner {
    fn new(landings: Landings) -> Self {
        let is_landing = landings.is_function;
        let function = ChargeFrame { target: EXACT, end: EXACT, parts: EXACT, has_else: false, is_landing };
        let mut planner = Self {
            charges: Charges::default(),
            landings,
            reach: Reach::new(),
            frames: vec![function],
            same: vec![EXACT],
            open: None,
            segments: Vec::new(),
        };
        planner.begin(None, EXACT);
        planner
    }

    fn operator(&mut self, place: usize, operator: &Operator<'_>, length: Option<i32>, grows_by_call: bool) {
        if let Some(open) = &mut self.open {
            open.cost += cost(operator);
        }
        match operator {
            Operator::Block { .. } => _ = self.enter(LabelKind::Block, place),
            Operator::TryTable { try_table } => {
                if self.reach.is_live() {
                    self.plan_catches(&try_table.catches);
                }
                self.enter(LabelKind::Block, place);
            }
            Operator::Loop { .. } => {
                self.end_at(EXACT);
                let is_landing = self.enter(LabelKind::Loop, place).is_landing;
                self.sync(place, is_landing);
                self.land(place, is_landing);
                self.plan_check(place, FuelCheck::Check);
                self.begin(Some(place), EXACT);
            }
            Operator::If { .. } => {
                let ChargeFrame { parts, is_landing, .. } = self.enter(LabelKind::If, place);
                // Without an `else`, a false condition branches to the block's end.
                self.sync(place, is_landing);
                self.end_at(parts);
                self.begin(Some(place), parts);
            }
            Operator::Else => self.enter_else(place),
            Operator::End => self.end(place),
            _ if self.reach.is_live() => self.live(place, operator, length, grows_by_call),
            _ => {}
        }
    }

    /// Plans a reachable operator that does not change the nesting.
    fn live(&mut self, place: usize, operator: &Operator<'_>, length: Option<i32>, grows_by_call: bool) {
        match operator {
            Operator::Br { relative_depth } => {
                let target = self.branch(place, *relative_depth);
                self.end_at(target);
                self.reach.stop();
            }
            Operator::BrIf { relative_depth } => {
                let target = self.branch(place, *relative_depth);
                self.end_at(target);
                self.begin(Some(place), target);
            }
            Operator::BrTable { targets } => {
                let shared = self.branch(place, targets.default());
                // Ignore errors, because they were already reported when the operators were read.
                for target in targets.targets().flatten() {
                    let target = self.branch(place, target);
                    self.share(shared, target);
                }
                self.end_at(shared);
                self.reach.stop();
            }
            Operator::Return
            | Operator::Unreachable
            | Operator::Throw { .. }
            | Operator::ThrowRef
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. } => {
                self.end_at_check(place, true);
                self.reach.stop();
            }
            Operator::Call { .. } | Operator::CallIndirect { .. } => {
                self.end_at_check(place, true);
                self.begin(Some(place), EXACT);
            }
            Operator::MemoryGrow { .. } => {
                // Growing the memory costs no fuel, but Wasmtime checks the fuel if the number of pages is not
                // constant.
                let is_checked = length.is_none();
                if is_checked {
                    self.plan_check(place, FuelCheck::Check);
                }
                if is_checked || grows_by_call {
                    self.end_at_check(place, !is_checked);
                    self.begin(Some(place), EXACT);
                }
            }
            _ if metered::is_bulk(operator) => self.bulk(place, length),
            _ => {}
        }
    }

    fn bulk(&mut self, place: usize, length: Option<i32>) {
        let length = length.map(|length| i64::from(length.cast_unsigned()));
        if let Some(open) = &mut self.open {
            open.cost += length.unwrap_or(0);
        }
        self.plan_check(
            place,
            match length {
                Some(length) if length <= SMALL_BULK => return,
                Some(_) => FuelCheck::Check,
                None => FuelCheck::CheckLength,
            },
        );
        self.end_at_check(place, false);
        self.begin(Some(place), EXACT);
    }

    /// Plans the clauses of a reachable `try_table`. Assumes that exceptions can reach their labels.
    fn plan_catches(&mut self, catches: &[wasmparser::Catch]) {
        self.charges.catches |= !catches.is_empty();
        self.charges.catches_all |= catches.iter().any(reach::catches_all);
        for catch in catches {
            self.reached(reach::label(catch));
        }
    }

    fn enter(&mut self, kind: LabelKind, place: usize) -> ChargeFrame {
        let is_landing = self.landings.is_landing(place);
        let (end, parts) = (self.label(), self.label());
        let target = if kind == LabelKind::Loop { EXACT } else { end };
        if is_landing {
            self.share(EXACT, target);
        }
        let frame = ChargeFrame { target, end, parts, has_else: false, is_landing };
        self.frames.push(frame);
        self.reach.enter(kind);
        frame
    }

    fn enter_else(&mut self, place: usize) {
        let Some(frame) = self.frames.last_mut() else { return };
        frame.has_else = true;
        let ChargeFrame { end, parts, is_landing, .. } = *frame;
        self.sync(place, is_landing);
        self.end_at(end);
        self.reach.enter_else();
        self.begin(Some(place), parts);
    }

    fn end(&mut self, place: usize) {
        let Some(frame) = self.frames.pop() else { return };
        if !frame.has_else {
            self.share(frame.end, frame.parts);
        }
        let lands = frame.is_landing && self.reach.is_join();
        if !self.reach.is_loop() {
            self.sync(place, lands);
            self.land(place, lands);
        }
        if !self.frames.is_empty() {
            // If no branch leads to this end, the segment continues.
            if self.reach.is_join() {
                self.end_at(frame.end);
            }
            self.reach.leave();
            if self.open.is_none() {
                self.begin(Some(place), frame.end);
            }
        } else {
            if self.charges.branches_out {
                self.end_at(EXACT);
            } else {
                self.end_at_check(place, true);
            }
            self.reach.leave();
        }
    }

    /// Records a possible branch of a reachable operator. Returns the target's label.
    fn branch(&mut self, place: usize, relative_depth: u32) -> Label {
        let frame = self.reached(relative_depth);
        self.sync(place, frame.is_some_and(|frame| frame.is_landing));
        frame.map_or(EXACT, |frame| frame.target)
    }

    /// Marks the target of a branch as reached and returns its frame.
    fn reached(&mut self, relative_depth: u32) -> Option<ChargeFrame> {
        self.reach.branch(relative_depth);
        let depth = usize::try_from(relative_depth).unwrap_or(usize::MAX);
        self.charges.branches_out |= depth.saturating_add(1) == self.frames.len();
        self.frames.iter().nth_back(depth).copied()
    }

    fn note_live(&mut self, place: usize) {
        let is_live = self.reach.is_live();
        if let Some(step) = self.charges.steps.get_mut(place) {
            step.is_live = is_live;
        }
    }

    /// Records that the operator branches to a landing, if the operator is reachable.
    fn sync(&mut self, place: usize, is_landing: bool) {
        let is_live = self.reach.is_live();
        if let Some(step) = self.charges.steps.get_mut(place) {
            step.syncs |= is_landing && is_live;
        }
    }

    fn land(&mut self, place: usize, is_landing: bool) {
        if let Some(step) = self.charges.steps.get_mut(place) {
            step.lands |= is_landing;
        }
    }

    fn plan_check(&mut self, place: usize, check: FuelCheck) {
        if self.reach.is_live()
            && let Some(step) = self.charges.steps.get_mut(place)
        {
            step.check = check;
        }
    }

    /// Begins a segment, if the position is reachable.
    fn begin(&mut self, begin: Option<usize>, from: Label) {
        let segment = Segment { cost: 0, begin, from, to: EXACT, checked_at: None, is_saved: false };
        self.open = self.reach.is_live().then_some(segment);
    }

    /// Ends the open segment at a label.
    fn end_at(&mut self, to: Label) {
        self.segments.extend(self.open.take().map(|open| Segment { to, ..open }));
    }

    /// Ends the open segment at an operator that reads the counter.
    fn end_at_check(&mut self, place: usize, is_saved: bool) {
        let ended = self.open.take().map(|open| Segment { checked_at: Some(place), is_saved, ..open });
        self.segments.extend(ended);
    }

    fn label(&mut self) -> Label {
        let label = self.same.len();
        self.same.push(label);
        label
    }

    /// Returns the oldest label with the same potential. Halves the path during the search, so that paths stay short.
    fn oldest(&mut self, mut label: Label) -> Label {
        loop {
            let next = self.same.get(label).copied().unwrap_or(label);
            if next == label {
                return label;
            }
            let after = self.same.get(next).copied().unwrap_or(next);
            if let Some(same) = self.same.get_mut(label) {
                *same = after;
            }
            label = after;
        }
    }

    /// Merges two labels into the older label, so that no label replaces [`EXACT`].
    fn share(&mut self, one: Label, other: Label) {
        let (one, other) = (self.oldest(one), self.oldest(other));
        if let Some(same) = self.same.get_mut(one.max(other)) {
            *same = one.min(other);
        }
    }

    /// Chooses the potentials from the end to the beginning, and computes the charge of each segment.
    fn finish(mut self) -> Charges {
        let mut potentials: Vec<Option<i64>> = vec![None; self.same.len()];
        if let Some(exact) = potentials.get_mut(EXACT) {
            *exact = Some(0);
        }
        for segment in std::mem::take(&mut self.segments).into_iter().rev() {
            let mut potential = |label: Label, wanted: i64| {
                potentials.get_mut(self.oldest(label)).map_or(0, |potential| *potential.get_or_insert(wanted))
            };
            let ahead = potential(segment.to, 0) + segment.cost;
            let charge = ahead - potential(segment.from, ahead);
            self.charges.place(&segment, charge);
        }
        self.charges
    }
}

impl Charges {
    /// Places a segment's charge where it is cheapest: at the segment's end if the operator there reads the counter,
    /// and at the beginning otherwise.
    fn place(&mut self, segment: &Segment, charge: i64) {
        if let Some(begin) = segment.begin.and_then(|begin| self.steps.get_mut(begin)) {
            begin.stays_saved = segment.is_saved;
        }
        if let Some(end) = segment.checked_at.and_then(|end| self.steps.get_mut(end)) {
            end.before = charge;
        } else if let Some(begin) = segment.begin.and_then(|begin| self.steps.get_mut(begin)) {
            begin.after = charge;
        } else {
            self.first = charge;
        }
    }
}
