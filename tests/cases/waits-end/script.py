import threading, queue, time
from concurrent.futures import Future, wait

def attempt(name, call):
    try:
        print(name, call())
    except Exception as error:
        print(name, type(error).__name__, error)

taken = threading.Lock()
taken.acquire()
event, condition = threading.Event(), threading.Condition()
barrier, full, simple = threading.Barrier(2), queue.Queue(1), queue.SimpleQueue()
full.put(1)

def conditioned(timeout=None):
    with condition:
        return condition.wait(timeout)

began = time.monotonic()
attempt("lock", lambda: taken.acquire(timeout=0.125))
attempt("lock at once", lambda: taken.acquire(False))
attempt("event", lambda: event.wait(0.125))
attempt("condition", lambda: conditioned(0.125))
attempt("semaphore", lambda: threading.Semaphore(0).acquire(timeout=0.125))
attempt("barrier", lambda: barrier.wait(0.125))
attempt("get", lambda: queue.Queue().get(timeout=0.125))
attempt("put", lambda: full.put(2, timeout=0.125))
attempt("simple", lambda: simple.get(timeout=0.125))
attempt("simple at once", lambda: simple.get(timeout=0))
attempt("future", lambda: Future().result(0.125))
attempt("wait", lambda: [len(part) for part in wait([Future()], 0.125)])
print(time.monotonic() - began)
attempt("lock", taken.acquire)
attempt("with lock", taken.__enter__)
attempt("event", event.wait)
attempt("condition", conditioned)
attempt("semaphore", threading.Semaphore(0).acquire)
attempt("barrier", threading.Barrier(2).wait)
attempt("get", queue.Queue().get)
attempt("put", lambda: full.put(2))
attempt("join", full.join)
attempt("simple", simple.get)
attempt("future", Future().result)
attempt("wait", lambda: wait([Future()]))
taken.release()
attempt("released", lambda: (taken.acquire(timeout=1), taken.locked()))
taken.release()
with taken:
    print(taken.locked())
again = threading.RLock()
with again, again:
    attempt("again", lambda: again.acquire(timeout=0.1))
simple.put(1)
print(simple.get(timeout=1), full.get())
attempt("rlock", lambda: again._acquire_restore((1, 12345)))
