"""Adapts locks, queues and pools to a single thread. A wait that could never end raises an exception. Pools run their
tasks in the caller."""

from concurrent.futures import _base as futures

pause, this_thread, TIMEOUT_MAX = time.sleep, _thread.get_ident, _thread.TIMEOUT_MAX
DEADLOCK = "deadlock: the call waits for another thread, but the sandbox has no threads"

# --- locks ----------------------------------------------------------------------------------------


def swap(kind, name, function):
    """Replaces a method of a C type, whose attributes cannot be set."""
    methods = gc.get_referents(vars(kind))[0]  # `vars` is a read-only view of this dictionary
    function = methods[name] = functools.update_wrapper(function, methods[name])
    function.__module__ = kind.__module__
    return function.__wrapped__


def acquire(self, blocking=True, timeout=-1):
    if blocking and is_locked(self):
        if timeout == -1:
            raise RuntimeError(DEADLOCK)
        if 0 < timeout <= TIMEOUT_MAX:
            pause(timeout)
            timeout = 0
    return acquire_free(self, blocking, timeout)


def enter_lock(self):
    if is_locked(self):
        raise RuntimeError(DEADLOCK)
    return acquire_free(self)


def acquire_restore(self, state):
    # If the saved owner is another thread, the lock can never be acquired again, because no other thread exists.
    if state[1] != this_thread():
        raise RuntimeError(DEADLOCK)
    return restore_free(self, state)


def get(self, block=True, timeout=None):
    if block and is_empty(self):
        if timeout is None:
            raise RuntimeError(DEADLOCK)
        if 0 <= timeout <= TIMEOUT_MAX:
            pause(timeout)
            block, timeout = False, None
    return get_filled(self, block, timeout)


def join(self, timeout=None):
    if not self.is_done() and self.ident not in (None, 0, this_thread()):
        if timeout is None or timeout < 0:
            raise RuntimeError(DEADLOCK)
        pause(min(timeout, TIMEOUT_MAX))
        return None
    return join_done(self, timeout)


is_locked, is_empty = _thread.LockType.locked, queue.SimpleQueue.empty
swap(_thread.LockType, "acquire_lock", acquire)
acquire_free = swap(_thread.LockType, "acquire", acquire)
swap(_thread.LockType, "__enter__", enter_lock)
restore_free = swap(_thread.RLock, "_acquire_restore", acquire_restore)
get_filled = swap(queue.SimpleQueue, "get", get)
if hasattr(_thread, "_ThreadHandle"):  # since 3.13
    join_done = swap(_thread._ThreadHandle, "join", join)
getattr(sys, "_clear_internal_caches", sys._clear_type_cache)()  # the caches refer to the original methods

# --- pools ----------------------------------------------------------------------------------------


def outside(function, args, kwargs):
    """Calls a function as if in a separate thread: without a running event loop."""
    loop = running_loop()
    if loop is None:
        return function(*args, **kwargs)
    task = asyncio.tasks._swap_current_task(loop, None)
    asyncio._set_running_loop(None)
    try:
        return function(*args, **kwargs)
    finally:
        asyncio._set_running_loop(loop)
        asyncio.tasks._swap_current_task(loop, task)


def check_initializer(initializer):
    if initializer is not None and not callable(initializer):
        raise TypeError("initializer must be a callable")


class SerialExecutor(futures.Executor):
    def __init__(self, max_workers, initializer, initargs):
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        check_initializer(initializer)
        self._max_workers = max_workers or (os.cpu_count() or 1) + 4
        self._initializer, self._initargs = initializer, initargs
        self._broken = self._shutdown = False

    def submit(self, fn, /, *args, **kwargs):
        if self._shutdown:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self._initialize()
        future = futures.Future()
        future.set_running_or_notify_cancel()
        try:
            result = outside(fn, args, kwargs)
        except KeyboardInterrupt:  # may come from the host
            raise
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        return future

    def _initialize(self):
        initializer, self._initializer = self._initializer, None
        if initializer is not None:
            try:
                outside(initializer, self._initargs, {})
            except Exception:
                futures.LOGGER.critical("Exception in initializer:", exc_info=True)
                self._broken = True
        if self._broken:
            raise self._broken_error()("the pool is unusable because its initializer failed")

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._shutdown = True


class ThreadPoolExecutor(SerialExecutor):
    def __init__(self, max_workers=None, thread_name_prefix="", initializer=None, initargs=()):
        super().__init__(max_workers, initializer, initargs)

    def _broken_error(self):
        return importlib.import_module("concurrent.futures.thread").BrokenThreadPool


class ProcessPoolExecutor(SerialExecutor):
    def __init__(self, max_workers=None, mp_context=None, initializer=None, initargs=(), *, max_tasks_per_child=None):
        super().__init__(max_workers, initializer, initargs)

    def _broken_error(self):
        return importlib.import_module("concurrent.futures.process").BrokenProcessPool

    def map(self, fn, *iterables, chunksize=1, **settings):
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        return super().map(fn, *iterables, **settings)

    def terminate_workers(self):
        self.shutdown()

    kill_workers = terminate_workers


def tried(function, args, kwargs):
    try:
        return True, outside(function, args, kwargs)
    except Exception as error:
        return False, error


class AsyncResult:
    def __init__(self, outcome, callback, error_callback):
        self._success, self._value = outcome
        callback = callback if self._success else error_callback
        if callback is not None:
            callback(self._value)

    def get(self, timeout=None):
        if self._success:
            return self._value
        raise self._value

    def wait(self, timeout=None):
        pass

    def ready(self):
        return True

    def successful(self):
        return self._success


class IMapIterator:
    """Runs each task when its result is requested."""

    def __init__(self, function, iterable):
        self._function, self._arguments, self._ready = function, iter(iterable), []

    def __iter__(self):
        return self

    def __next__(self, timeout=None):
        success, value = self._ready.pop(0) if self._ready else self._run()
        if success:
            return value
        raise value

    next = __next__

    def _run(self):
        return tried(self._function, (next(self._arguments),), {})

    def _finish(self):
        try:
            while True:
                self._ready.append(self._run())
        except StopIteration:
            pass


class Pool:
    def __init__(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None):
        self._processes = processes or os.cpu_count() or 1
        if self._processes < 1:
            raise ValueError("Number of processes must be at least 1")
        check_initializer(initializer)
        self._state, self._iterators = "RUN", []
        if initializer is not None:
            outside(initializer, initargs, {})

    def _check_running(self):
        if self._state != "RUN":
            raise ValueError("Pool not running")

    def apply(self, func, args=(), kwds={}):
        return self.apply_async(func, args, kwds).get()

    def apply_async(self, func, args=(), kwds={}, callback=None, error_callback=None):
        self._check_running()
        return AsyncResult(tried(func, args, kwds), callback, error_callback)

    def map(self, func, iterable, chunksize=None):
        return self.map_async(func, iterable).get()

    def map_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        return self.starmap_async(func, ((item,) for item in iterable), chunksize, callback, error_callback)

    def starmap(self, func, iterable, chunksize=None):
        return self.starmap_async(func, iterable).get()

    def starmap_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        self._check_running()
        outcomes = [tried(func, args, {}) for args in iterable]
        failure = next((each for each in outcomes if not each[0]), None)
        return AsyncResult(failure or (True, [value for _, value in outcomes]), callback, error_callback)

    def imap(self, func, iterable, chunksize=1):
        self._check_running()
        self._iterators.append(IMapIterator(func, iterable))
        return self._iterators[-1]

    imap_unordered = imap

    def close(self):
        if self._state == "RUN":
            self._state = "CLOSE"

    def terminate(self):
        self._state = "TERMINATE"

    def join(self):
        if self._state == "RUN":
            raise ValueError("Pool is still running")
        while self._iterators and self._state == "CLOSE":
            self._iterators.pop(0)._finish()

    def __reduce__(self):
        raise NotImplementedError("pool objects cannot be passed between processes or pickled")

    def __enter__(self):
        self._check_running()
        return self

    def __exit__(self, kind, value, trace):
        self.terminate()


class ThreadPool(Pool):
    def __init__(self, processes=None, initializer=None, initargs=()):
        super().__init__(processes, initializer, initargs)


async def shutdown_default_executor(self, timeout=None):
    self._executor_shutdown_called = True
    if self._default_executor is not None:
        self._default_executor.shutdown()


replace(asyncio.base_events.BaseEventLoop, "shutdown_default_executor", shutdown_default_executor)

# --- the modules of the pools ---------------------------------------------------------------------


def install(module, *classes):
    for each in classes:
        each.__module__ = module.__name__
        for function in vars(each).values():
            if isinstance(function, types.FunctionType):
                function.__module__ = module.__name__
        setattr(module, each.__name__, each)


def thread_module(module):
    install(module, ThreadPoolExecutor)
    if not hasattr(module, "BrokenThreadPool"):
        module.BrokenThreadPool = type("BrokenThreadPool", (futures.BrokenExecutor,), {"__module__": module.__name__})


def process_module(module):
    install(module, ProcessPoolExecutor)
    if not hasattr(module, "BrokenProcessPool"):
        module.BrokenProcessPool = type("BrokenProcessPool", (futures.BrokenExecutor,), {"__module__": module.__name__})


def pool_module(module):
    install(module, AsyncResult, IMapIterator, Pool, ThreadPool)
    module.ApplyResult = module.MapResult = AsyncResult
    module.IMapUnorderedIterator = IMapIterator


# Names in `multiprocessing` that require another process.
PROCESS_NAMES = """
    Array Barrier BoundedSemaphore Condition Event JoinableQueue Lock Manager Pipe Queue RLock Semaphore SimpleQueue Value
""".split()


def context_module(module):
    for name in PROCESS_NAMES:
        replace(module.BaseContext, name, without_processes())


late.update({
    "concurrent.futures.thread": thread_module,
    "concurrent.futures.process": process_module,
    "multiprocessing.context": context_module,
    "multiprocessing.managers": lambda module: replace(module.BaseManager, "start", without_processes()),
    "multiprocessing.pool": pool_module,
    "multiprocessing.process": lambda module: replace(module.BaseProcess, "start", without_processes()),
    # Turns off tqdm's monitor, which is a thread.
    "tqdm.std": lambda module: setattr(module.tqdm, "monitor_interval", 0),
})


class AbsentFinder:
    """Creates the modules in `pool_modules` if the library does not contain `multiprocessing`."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname in pool_modules:
            package = fullname == "multiprocessing"
            return machinery.ModuleSpec(fullname, self, origin="built-in", is_package=package)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        pool_modules[module.__name__](module)


class Process:
    """A process that cannot start. A script can define a subclass, or call `run` itself."""

    def __init__(self, group=None, target=None, name=None, args=(), kwargs={}, *, daemon=None):
        self._target, self._args, self._kwargs = target, tuple(args), dict(kwargs)
        self.name, self.daemon = name or type(self).__name__ + "-1", bool(daemon)
        self.pid = self.ident = self.exitcode = None

    def run(self):
        if self._target:
            self._target(*self._args, **self._kwargs)

    def join(self, timeout=None):
        raise AssertionError("can only join a started process")

    def is_alive(self):
        return self.pid is not None


def multiprocessing_module(module):
    Process.start = without_processes("start")
    install(module, Process)
    module.ProcessError = type("ProcessError", (Exception,), {"__module__": module.__name__})
    for name in "AuthenticationError", "BufferTooShort", "TimeoutError":
        setattr(module, name, type(name, (module.ProcessError,), {"__module__": module.__name__}))
    current = Process(name="MainProcess")
    current.pid = current.ident = os.getpid()
    module.current_process, module.active_children, module.parent_process = lambda: current, list, lambda: None
    module.Pool, module.cpu_count = Pool, os.cpu_count
    module.freeze_support = module.set_start_method = lambda *args, **kwargs: None
    module.get_start_method, module.get_all_start_methods = lambda allow_none=False: "spawn", lambda: ["spawn"]
    module.get_context = lambda method=None: module
    for name in PROCESS_NAMES:
        setattr(module, name, without_processes(name))


def dummy_module(module):
    module.Pool, module.Process, module.Queue = ThreadPool, threading.Thread, queue.Queue
    for name in "Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore":
        setattr(module, name, getattr(threading, name))
    module.current_process, module.active_children = threading.current_thread, list
    module.freeze_support = lambda: None


pool_modules = {
    "concurrent.futures.thread": thread_module,
    "concurrent.futures.process": process_module,
    "multiprocessing": multiprocessing_module,
    "multiprocessing.dummy": dummy_module,
    "multiprocessing.pool": pool_module,
}
if machinery.PathFinder.find_spec("multiprocessing", [LIBRARY]) is None:
    sys.meta_path.append(AbsentFinder())
