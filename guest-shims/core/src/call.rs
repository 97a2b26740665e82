//! The result of a call into a guest, determined in one place for all backends.

use std::time::Duration;

use glovebox_interpreters::{Diagnostic, Driver, DriverError, Interrupt, MachineError, RaisedOutcome, Report};
use glovebox_wasi::Stop;

use crate::{GuestValue, Limits, Outcome, Resource, TrapKind};

/// The state of a guest after an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestState {
    /// The guest can be entered again.
    Alive,
    /// The guest was not entered and is unchanged.
    Untouched,
    /// The guest called `proc_exit`, as `os._exit` does.
    Left,
    /// The guest was unwound or damaged itself. It must never be entered again.
    Unwound,
}

impl GuestState {
    /// Returns the state after a call that ended with `stop`.
    pub fn of(stop: &Stop) -> Self {
        if matches!(stop, Stop::Exit(_)) { Self::Left } else { Self::Unwound }
    }
}

/// The result of a call and its cost.
#[derive(Debug)]
pub struct CallResult {
    /// The outcome of the script.
    pub outcome: Outcome,
    /// The exception that ended the script after a soft stop.
    pub interrupted: Option<RaisedOutcome>,
    /// The value of the script's last expression, if there is one and the request asked for it.
    pub value: Option<GuestValue>,
    /// The fuel that the call used.
    pub fuel_consumed: u64,
    /// The peak memory usage, in bytes.
    pub memory_used_bytes: u64,
    /// The memory usage, in bytes, that a refused growth would have caused. `None` if no growth was refused, or if a
    /// suspended execution has already reported the growth.
    pub memory_refused_bytes: Option<u64>,
    /// The state of the guest after the call.
    pub after: GuestState,
}

/// The host's measurements of a finished call.
#[derive(Clone, Copy, Debug)]
pub struct Usage<'a> {
    /// The limits of the execution.
    pub limits: &'a Limits,
    /// The fuel limit of the call, at most `limits.fuel`. Includes fuel that was used before the guest was entered.
    pub fuel_limit: u64,
    /// Fuel at the end of the call.
    pub fuel_left: u64,
    /// The call's duration; zero without a clock.
    pub elapsed: Duration,
    /// The peak memory usage, in bytes.
    pub memory_used_bytes: u64,
    /// The memory usage, in bytes, that a refused growth would have caused; `None` if no growth was refused.
    pub memory_refused_bytes: Option<u64>,
    /// The trap that ended the call, if any.
    pub trapped: Option<TrapKind>,
}

/// The end of an execution: the driver's report and the soft stop that preceded it.
pub struct CallEnd<'a> {
    /// The guest's driver; `None` for a plain command.
    pub driver: Option<&'a dyn Driver>,
    /// The driver's report.
    pub result: Result<Report, DriverError>,
    /// The soft stop that the script received, if any.
    pub interrupt: Option<Interrupt>,
}

/// The reason why a variable could not be read or set.
#[derive(Debug)]
pub enum Refusal {
    /// The guest refused or was stopped. Holds a human-readable description.
    Guest(String),
    /// The image and its driver do not match.
    Driver(DriverError),
}

/// The reason why a call into a guest failed.
enum CallError {
    Guest(Outcome, GuestState),
    Driver(DriverError),
}

impl Usage<'_> {
    /// Converts the driver's report to the call's result.
    ///
    /// # Errors
    /// Fails if the driver failed for a reason other than the script or its limits.
    pub fn conclude(&self, ending: CallEnd<'_>) -> Result<CallResult, DriverError> {
        let CallEnd { driver, result, interrupt } = ending;
        let (limits, refused) = (self.limits, self.memory_refused_bytes);
        let (mut fuel_left, mut interrupted, mut value) = (self.fuel_left, None, None);
        let (outcome, after) = match result {
            Ok(Report::Completed(shown)) => {
                value = shown.map(GuestValue::from);
                (Outcome::Completed, GuestState::Alive)
            }
            Ok(Report::Exited(code)) => (Outcome::Exited { code }, GuestState::Alive),
            Ok(Report::Interrupted(raised)) if let Some(interrupt) = interrupt => {
                interrupted = Some(raised);
                if interrupt == Interrupt::Fuel {
                    // The remaining fuel depends on the host's scheduling, so the whole allowance is charged.
                    fuel_left = 0;
                }
                (self.interrupted(interrupt), GuestState::Alive)
            }
            // Without a soft stop, the guest has forged the interrupt.
            Ok(Report::Raised(raised) | Report::Interrupted(raised)) => {
                let ran_out = driver.is_some_and(|driver| driver.is_out_of_memory(&raised));
                match refused {
                    Some(used) if ran_out => {
                        (exhausted(Resource::Memory, limits.memory_bytes, used), GuestState::Alive)
                    }
                    _ => (Outcome::Raised(raised), GuestState::Alive),
                }
            }
            Err(error) if driver.is_some() => match self.stopped_by(error) {
                CallError::Guest(outcome, after) => (outcome, after),
                CallError::Driver(error) => return Err(error),
            },
            Err(DriverError::Machine(MachineError::Stopped(stop))) => {
                let after = GuestState::of(&stop);
                (self.outcome_of_stop(&stop), after)
            }
            Err(error) => return Err(error),
        };
        Ok(CallResult {
            fuel_consumed: self.fuel_limit.saturating_sub(fuel_left),
            memory_used_bytes: self.memory_used_bytes,
            memory_refused_bytes: refused,
            outcome,
            value,
            interrupted,
            after,
        })
    }

    /// Converts a driver's reply about a variable.
    pub fn answer<T>(&self, answer: Result<Result<T, RaisedOutcome>, DriverError>) -> (Result<T, Refusal>, GuestState) {
        match answer {
            Ok(Ok(value)) => (Ok(value), GuestState::Alive),
            Ok(Err(raised)) => (Err(Refusal::Guest(Outcome::Raised(raised).describe())), GuestState::Alive),
            Err(error) => match self.stopped_by(error) {
                CallError::Guest(outcome, after) => (Err(Refusal::Guest(outcome.describe())), after),
                CallError::Driver(error) => (Err(Refusal::Driver(error)), GuestState::Unwound),
            },
        }
    }

    /// Converts the diagnostics of an image's parser.
    ///
    /// # Errors
    /// Fails if the driver failed. A limit that the parser reached is a diagnostic instead.
    pub fn diagnose(&self, parsed: Result<Vec<Diagnostic>, DriverError>) -> Result<Vec<Diagnostic>, DriverError> {
        match parsed {
            // Report the limit that stopped the parser as a diagnostic.
            Err(DriverError::Machine(MachineError::Stopped(stop))) => Ok(vec![Diagnostic {
                line: 1,
                column: 1,
                message: format!("the parser was stopped: {}", self.outcome_of_stop(&stop).describe()),
            }]),
            parsed => parsed,
        }
    }

    /// Attributes a driver's error to the guest or to the driver.
    fn stopped_by(&self, error: DriverError) -> CallError {
        match error {
            DriverError::Machine(MachineError::Stopped(stop)) => {
                CallError::Guest(self.outcome_of_stop(&stop), GuestState::of(&stop))
            }
            // An undamaged driver causes neither error, so the guest has damaged the driver's state.
            DriverError::Report(_) | DriverError::Machine(_) => {
                CallError::Guest(Outcome::Trapped { trap: TrapKind::BadReport }, GuestState::Unwound)
            }
            error => CallError::Driver(error),
        }
    }

    /// Returns the outcome of a script that ended after a soft stop. The outcome of a hard stop for the same reason
    /// differs at most in the reported time.
    fn interrupted(&self, interrupt: Interrupt) -> Outcome {
        match interrupt {
            Interrupt::Fuel => exhausted(Resource::Fuel, self.fuel_limit, self.fuel_limit),
            Interrupt::Time => exhausted(Resource::Time, self.limits.timeout_ms, whole_ms(self.elapsed)),
            Interrupt::Cancelled => Outcome::Cancelled,
        }
    }

    fn outcome_of_stop(&self, stop: &Stop) -> Outcome {
        match stop {
            Stop::Exit(code) => Outcome::Exited { code: *code },
            Stop::OutOfFuel => exhausted(Resource::Fuel, self.fuel_limit, self.fuel_limit),
            Stop::Deadline => {
                let over = self.elapsed.max(Duration::from_millis(self.limits.timeout_ms));
                exhausted(Resource::Time, self.limits.timeout_ms, whole_ms(over))
            }
            Stop::Cancelled => Outcome::Cancelled,
            // An interpreter aborts if an allocation fails where it cannot handle the failure.
            _ => match (self.memory_refused_bytes, self.trapped) {
                (Some(used), Some(TrapKind::Unreachable)) => {
                    exhausted(Resource::Memory, self.limits.memory_bytes, used)
                }
                (_, trap) => Outcome::Trapped { trap: trap.unwrap_or(TrapKind::Other) },
            },
        }
    }
}

fn exhausted(resource: Resource, limit: u64, used: u64) -> Outcome {
    Outcome::Exhausted { resource, limit, used }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use glovebox_interpreters::Python;

    use super::*;

    fn spent(limits: &Limits) -> Usage<'_> {
        Usage {
            limits,
            fuel_limit: 1_000,
            fuel_left: 400,
            elapsed: Duration::from_millis(7),
            memory_used_bytes: 5,
            memory_refused_bytes: None,
            trapped: None,
        }
    }

    fn raised(type_name: &str) -> RaisedOutcome {
        RaisedOutcome { type_name: type_name.into(), message: "m".into(), ..RaisedOutcome::default() }
    }

    fn stop(stop: Stop) -> Result<Report, DriverError> {
        Err(MachineError::Stopped(stop).into())
    }

    fn concluded(spent: &Usage<'_>, result: Result<Report, DriverError>, interrupt: Option<Interrupt>) -> CallResult {
        spent.conclude(CallEnd { driver: Some(&Python::command()), result, interrupt }).unwrap()
    }

    #[test]
    fn each_driver_answer_has_its_outcome() {
        let limits = Limits { timeout_ms: 100, memory_bytes: 50, ..Limits::default() };
        let spent = spent(&limits);
        let time = |used| exhausted(Resource::Time, 100, used);
        let report = || Err(DriverError::Report("?".into()));
        for (result, outcome, after) in [
            (Ok(Report::Completed(None)), Outcome::Completed, GuestState::Alive),
            (Ok(Report::Exited(3)), Outcome::Exited { code: 3 }, GuestState::Alive),
            (Ok(Report::Raised(raised("E"))), Outcome::Raised(raised("E")), GuestState::Alive),
            (Ok(Report::Interrupted(raised("E"))), Outcome::Raised(raised("E")), GuestState::Alive),
            (stop(Stop::Exit(4)), Outcome::Exited { code: 4 }, GuestState::Left),
            (stop(Stop::OutOfFuel), exhausted(Resource::Fuel, 1_000, 1_000), GuestState::Unwound),
            (stop(Stop::Deadline), time(100), GuestState::Unwound),
            (stop(Stop::Cancelled), Outcome::Cancelled, GuestState::Unwound),
            (stop(Stop::Trap("?".into())), Outcome::Trapped { trap: TrapKind::Other }, GuestState::Unwound),
            (report(), Outcome::Trapped { trap: TrapKind::BadReport }, GuestState::Unwound),
            (
                Err(MachineError::OutOfBounds(7).into()),
                Outcome::Trapped { trap: TrapKind::BadReport },
                GuestState::Unwound,
            ),
        ] {
            let ran = concluded(&spent, result, None);
            assert_eq!((ran.outcome, ran.after, ran.fuel_consumed), (outcome, after, 600));
        }
        let late = Usage { elapsed: Duration::from_millis(101), ..spent };
        assert_eq!(concluded(&late, stop(Stop::Deadline), None).outcome, time(101));
    }

    #[test]
    fn guest_that_heeds_a_soft_stop_reports_its_limit() {
        let limits = Limits { timeout_ms: 100, ..Limits::default() };
        let spent = spent(&limits);
        for (interrupt, outcome, fuel) in [
            (Interrupt::Fuel, exhausted(Resource::Fuel, 1_000, 1_000), 1_000),
            (Interrupt::Time, exhausted(Resource::Time, 100, 7), 600),
            (Interrupt::Cancelled, Outcome::Cancelled, 600),
        ] {
            let ran = concluded(&spent, Ok(Report::Interrupted(raised("KeyboardInterrupt"))), Some(interrupt));
            assert_eq!(
                (ran.outcome, ran.fuel_consumed, ran.after),
                (outcome, fuel, GuestState::Alive),
                "{interrupt:?}"
            );
            assert_eq!(ran.interrupted.map(|raised| raised.type_name).as_deref(), Some("KeyboardInterrupt"));
            let other = concluded(&spent, Ok(Report::Raised(raised("E"))), Some(interrupt));
            assert_eq!((other.outcome, other.interrupted), (Outcome::Raised(raised("E")), None), "{interrupt:?}");
        }
    }

    #[test]
    fn out_of_memory_requires_a_refused_growth() {
        let limits = Limits { memory_bytes: 50, ..Limits::default() };
        let out = exhausted(Resource::Memory, 50, 60);
        for (refused, trapped, is_out) in [
            (None, TrapKind::Unreachable, false),
            (Some(60), TrapKind::Unreachable, true),
            (Some(60), TrapKind::OutOfBounds, false),
        ] {
            let spent = Usage { memory_refused_bytes: refused, trapped: Some(trapped), ..spent(&limits) };
            let ran = concluded(&spent, stop(Stop::Trap("?".into())), None);
            assert_eq!(ran.outcome == out, is_out, "{refused:?}, {trapped:?}");
            assert!(is_out || ran.outcome == Outcome::Trapped { trap: trapped });
            let result = concluded(&spent, Ok(Report::Raised(raised("MemoryError"))), None);
            assert_eq!((result.outcome == out, result.after), (refused.is_some(), GuestState::Alive));
        }
    }

    #[test]
    fn mismatched_driver_is_an_error() {
        let limits = Limits::default();
        let spent = spent(&limits);
        let unfit = || Err(DriverError::Anchor("a".into()));
        assert!(
            spent.conclude(CallEnd { driver: Some(&Python::command()), result: unfit(), interrupt: None }).is_err()
        );
        let report = Err(DriverError::Report("?".into()));
        assert!(
            spent.conclude(CallEnd { driver: None, result: report, interrupt: None }).is_err(),
            "a command has no driver"
        );
        assert!(matches!(
            spent.answer::<()>(Err(DriverError::Anchor("a".into()))),
            (Err(Refusal::Driver(_)), GuestState::Unwound)
        ));
    }

    #[test]
    fn variable_answer_reports_the_limit_that_stopped_it() {
        let limits = Limits::default();
        let spent = spent(&limits);
        assert!(matches!(spent.answer(Ok(Ok(7))), (Ok(7), GuestState::Alive)));
        let explain = |answer| match spent.answer::<()>(answer) {
            (Err(Refusal::Guest(text)), after) => (text, after),
            other => panic!("{other:?}"),
        };
        assert_eq!(explain(Ok(Err(raised("E")))), ("raised E: m".into(), GuestState::Alive));
        let stopped = |stop| Err(MachineError::Stopped(stop).into());
        assert_eq!(
            explain(stopped(Stop::OutOfFuel)),
            ("out of fuel: all 1000 units were used".into(), GuestState::Unwound)
        );
        assert_eq!(explain(stopped(Stop::Exit(1))), ("exited with 1".into(), GuestState::Left));
        assert_eq!(
            explain(Err(DriverError::Report("?".into()))),
            ("the interpreter trapped: bad-report".into(), GuestState::Unwound)
        );
    }

    #[test]
    fn parser_limit_is_reported_for_the_source() {
        let limits = Limits::default();
        let diagnostics = spent(&limits).diagnose(Err(MachineError::Stopped(Stop::OutOfFuel).into())).unwrap();
        let [diagnostic] = &diagnostics[..] else { panic!("{diagnostics:?}") };
        assert_eq!((diagnostic.line, diagnostic.column), (1, 1));
        assert_eq!(diagnostic.message, "the parser was stopped: out of fuel: all 1000 units were used");
        assert!(spent(&limits).diagnose(Err(DriverError::Report("?".into()))).is_err());
    }
}
