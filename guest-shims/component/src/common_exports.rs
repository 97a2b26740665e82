//! The provider of this instance, and the exports that both versions of the contract have. In version 0.3.0, they are
//! asynchronous.

use std::{cell::OnceCell, rc::Rc, sync::Arc};

use crate::{Provider, World, intrinsics::WovenModule};

thread_local! {
    static PROVIDER: OnceCell<Rc<Provider>> = const { OnceCell::new() };
}

/// Returns the provider of this instance.
pub(crate) fn provider() -> Rc<Provider> {
    PROVIDER.with(|provider| Rc::clone(provider.get_or_init(|| Rc::new(Provider::new(world())))))
}

fn world() -> World {
    World {
        guests: Rc::new(WovenModule),
        libraries: Arc::new(WovenModule),
        #[cfg(feature = "clock")]
        clocks: Some(Rc::new(crate::imports::HostClocks)),
        #[cfg(not(feature = "clock"))]
        clocks: None,
        #[cfg(feature = "tools")]
        tools: Some(Rc::new(crate::imports::HostTools)),
        #[cfg(not(feature = "tools"))]
        tools: None,
        #[cfg(feature = "concurrent")]
        pause: Some(crate::imports::pause),
        #[cfg(not(feature = "concurrent"))]
        pause: None,
    }
}

/// Implements the functions of `sandbox` that both versions have. The argument is `async` for version 0.3.0.
macro_rules! sandbox_exports {
    ($($asynchronous:tt)?) => {
        fn info() -> ProviderInfo {
            provider().info()
        }

        fn default_policy() -> Policy {
            provider().default_policy()
        }

        $($asynchronous)? fn execute(
            runtime: Runtime,
            request: Request,
            policy: Policy,
        ) -> Result<Execution, SandboxError> {
            provider().execute(&runtime, request, policy)
        }

        $($asynchronous)? fn validate(
            runtime: Runtime,
            request: Request,
            policy: Policy,
        ) -> Result<Vec<Diagnostic>, SandboxError> {
            provider().validate(&runtime, request, policy)
        }

        $($asynchronous)? fn start_suspendable(
            _runtime: Runtime,
            _request: Request,
            _policy: Policy,
            _tools: Vec<Tool>,
        ) -> Result<OwnStarted, SandboxError> {
            Err(not_suspendable())
        }
    };
}
pub(crate) use sandbox_exports;

/// Implements the functions of sessions that both versions have. The argument is `async` for version 0.3.0.
macro_rules! session_exports {
    ($($asynchronous:tt)?) => {
        $($asynchronous)? fn open(
            runtime: Runtime,
            policy: Policy,
            options: SessionOptions,
        ) -> Result<OwnSession, SandboxError> {
            Ok(OwnSession::new(provider().open(&runtime, policy, &options)?))
        }

        fn id(&self) -> String {
            Session::id(self)
        }

        fn info(&self) -> SessionInfo {
            Session::info(self)
        }

        $($asynchronous)? fn execute(&self, request: Request) -> Result<Execution, SandboxError> {
            Ok(Session::execute(self, request)?.to_wit())
        }

        $($asynchronous)? fn get_variable(&self, name: String) -> Result<Option<GuestValue>, SandboxError> {
            Session::get_variable(self, &name)
        }

        $($asynchronous)? fn set_variable(&self, name: String, json: String) -> Result<(), SandboxError> {
            Session::set_variable(self, &name, &json)
        }

        $($asynchronous)? fn rename_file(
            &self,
            from: String,
            to: String,
            if_exists: IfExists,
        ) -> Result<(), SandboxError> {
            Session::rename_file(self, &from, &to, if_exists)
        }

        $($asynchronous)? fn delete_file(&self, path: String, recursive: bool) -> Result<(), SandboxError> {
            Session::delete_file(self, &path, recursive)
        }

        $($asynchronous)? fn fork(&self) -> Result<OwnSession, SandboxError> {
            Ok(OwnSession::new(Session::fork(self)?))
        }

        $($asynchronous)? fn checkpoint(&self) -> Result<u64, SandboxError> {
            Session::checkpoint(self)
        }

        $($asynchronous)? fn checkpoints(&self) -> Result<Vec<CheckpointInfo>, SandboxError> {
            Session::checkpoints(self)
        }

        $($asynchronous)? fn undo(&self) -> Result<u64, SandboxError> {
            Session::undo(self)
        }

        $($asynchronous)? fn undo_to(&self, id: u64) -> Result<(), SandboxError> {
            Session::undo_to(self, id)
        }

        $($asynchronous)? fn close(&self) -> Result<(), SandboxError> {
            Session::close(self)
        }
    };
}
pub(crate) use session_exports;
