//! What is known while a function's operators are followed.

use crate::{
    module::Module,
    values::{Block, Value, Values, Variable},
};

/// Follows a function's operators.
pub(super) struct Reader<'m> {
    pub(super) module: &'m Module<'m>,
    pub(super) imported_globals: usize,
    pub(super) values: Values,
    pub(super) variables: Variable,
    pub(super) at: Block,
    pub(super) is_live: bool,
    pub(super) stack: Vec<Value>,
    pub(super) frames: Vec<Frame>,
    /// Where exceptions go that come out of a call here.
    pub(super) handlers: Vec<Block>,
}

/// What `else` and `end` have to know of what they end.
pub(super) struct Frame {
    pub(super) kind: Kind,
    /// What comes behind the end, and what it is given.
    pub(super) next: Block,
    pub(super) results: Vec<Variable>,
    /// The height of the operand stack below what the frame takes.
    pub(super) height: usize,
    pub(super) entered_live: bool,
    pub(super) branched: bool,
}

pub(super) enum Kind {
    Block,
    /// A `try_table`, around which so many handlers are.
    Try {
        around: usize,
    },
    /// Branches go to the header.
    Loop {
        header: Block,
        params: Vec<Variable>,
    },
    If {
        /// Where the condition is looked at.
        head: Block,
        /// What is run if it is not met, where this is known before `else` comes: without one, control goes behind the end.
        otherwise: Option<Block>,
        params: Vec<Value>,
    },
    Else {
        then_live: bool,
    },
}

impl Frame {
    /// Where branches go, and what they carry.
    pub(super) fn target(&self) -> (Block, &[Variable]) {
        match &self.kind {
            Kind::Loop { header, params } => (*header, params),
            _ => (self.next, &self.results),
        }
    }
}
