//! Persisting globals of Python with the functions of boot/globals.py.

use crate::{
    DriverError, Machine,
    persist::{Globals, Next, PYTHON_STATE_FILE},
};

use super::{
    object::Interpreter,
    wire::{decode_global, framed},
};

impl Globals for Interpreter<'_> {
    const FILE: &'static str = PYTHON_STATE_FILE;

    fn machine(&mut self) -> &mut dyn Machine {
        Interpreter::machine(self)
    }

    fn restore(&mut self, json: Option<&str>, max_bytes: u64) -> Result<bool, DriverError> {
        let request = framed([max_bytes.to_string().as_str(), json.unwrap_or_default()]);
        Ok(self.send(&request)? && self.call("restore_globals")?.is_none())
    }

    fn next(&mut self, max_bytes: u64) -> Result<Next, DriverError> {
        let bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        self.call_for("next_global", bytes)?.map_or(Ok(Next::End), |reply| decode_global(&reply))
    }

    fn print_error(&mut self, line: &str) -> Result<(), DriverError> {
        // A guest without memory for the line skips it.
        if self.send(line.as_bytes())? {
            self.call("complain")?;
        }
        Ok(())
    }
}
