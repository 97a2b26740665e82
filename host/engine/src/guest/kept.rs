//! What sessions do with a guest besides running scripts in it.

use glovebox_core::{After, Refusal};
use glovebox_interpreters::{DriverError, MachineError, Raised};
use glovebox_wasi::Wasi;

use crate::{
    ExecuteError, GuestValue, Limits, imports,
    runtime::{Drive, Image, Runtime},
};

use super::{Guest, unanswered};

impl Guest {
    /// Wakes a guest up that scripts have been run in: what they left in it runs on their bill.
    pub(crate) fn awaken_within(&mut self, image: &Image, limits: &Limits) -> Result<(), ExecuteError> {
        self.begin(limits)?;
        let awake = image.driver.reseed(&mut self.machine, &image.anchors);
        self.end(&awake);
        awake.map_err(unanswered)
    }

    /// Its WASI state as it can be saved: the monotonic clock without this instance's share.
    pub(crate) fn settled_wasi(&mut self) -> Wasi {
        let state = self.machine.store.data_mut();
        let mut wasi = (*state.wasi).clone();
        wasi.settle_clock(&mut imports::resting(&mut state.run));
        wasi
    }

    /// A global variable.
    pub(crate) fn get_variable(
        &mut self,
        image: &Image,
        limits: &Limits,
        name: &str,
    ) -> (Result<Option<GuestValue>, ExecuteError>, After) {
        let got = self.begin(limits).map(|()| image.driver.get_variable(&mut self.machine, &image.anchors, name));
        let (result, after) = self.answered(limits, name, got);
        (result.map(|value| value.map(GuestValue::from)), after)
    }

    /// Sets a global variable to what `json` says.
    pub(crate) fn set_variable(
        &mut self,
        image: &Image,
        limits: &Limits,
        name: &str,
        json: &str,
    ) -> (Result<(), ExecuteError>, After) {
        let set = self.begin(limits).map(|()| image.driver.set_variable(&mut self.machine, &image.anchors, name, json));
        self.answered(limits, name, set)
    }

    /// Reads a driver's answer about a variable.
    fn answered<T>(
        &self,
        limits: &Limits,
        name: &str,
        answer: Result<Result<Result<T, Raised>, DriverError>, ExecuteError>,
    ) -> (Result<T, ExecuteError>, After) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return (Err(error), After::Untouched),
        };
        let left = self.end(&answer);
        let (result, after) = self.spent(limits, left).answer(answer);
        let error = |refusal| match refusal {
            Refusal::Guest(reason) => ExecuteError::Variable { name: name.to_owned(), reason },
            Refusal::Driver(error) => unanswered(error),
        };
        (result.map_err(error), after)
    }

    /// Runs the exit handlers of a kept interpreter.
    pub(crate) fn close(&mut self, runtime: &Runtime, limits: &Limits) -> Result<(), ExecuteError> {
        self.begin(limits)?;
        match &runtime.drive {
            // Handlers that run into a limit are the script's loss, not an error.
            Drive::Image(image) => {
                let closed = image.driver.close(&mut self.machine, &image.anchors);
                self.end(&closed);
                match closed {
                    Ok(()) | Err(DriverError::Machine(MachineError::Stopped(_))) => Ok(()),
                    Err(error) => Err(unanswered(error)),
                }
            }
            Drive::Command { .. } => Ok(()),
        }
    }
}
