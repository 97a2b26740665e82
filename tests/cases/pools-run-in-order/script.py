import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor, as_completed, wait
from multiprocessing import Pool, cpu_count
from multiprocessing.pool import ThreadPool
import multiprocessing, multiprocessing.dummy

def double(n):
    if n == 3:
        raise ValueError("three")
    return n * 2

def begin(word):
    print("begin", word)

for kind in ThreadPoolExecutor, ProcessPoolExecutor:
    with kind(max_workers=2, initializer=begin, initargs=("pool",)) as pool:
        print(list(pool.map(double, range(3), chunksize=2)))
        tasks = [pool.submit(double, n) for n in range(5)]
        print(sorted(f.result() for f in as_completed(tasks) if not f.exception()), len(wait(tasks).done))
        tasks[3].add_done_callback(lambda f: print("called", f.exception()))
    try:
        pool.submit(double, 1)
    except RuntimeError as error:
        print(error)
for kind in Pool, ThreadPool, multiprocessing.dummy.Pool:
    with kind(2, begin, ("pool",)) as pool:
        print(pool.map(double, range(3)), pool.apply(double, (4,)), pool.starmap(pow, [(2, 3), (3, 2)]))
        print(list(pool.imap(double, range(3))), sorted(pool.imap_unordered(double, range(3))))
        result = pool.map_async(double, range(5), callback=print, error_callback=lambda e: print("failed", e))
        print(result.ready(), result.successful())
        try:
            result.get(timeout=1)
        except ValueError as error:
            print("raised", error)
        items = pool.imap(double, [3, 4])
        try:
            next(items)
        except ValueError as error:
            print(error, items.next())
        pool.imap(begin, ["left over"])
        pool.close()
        pool.join()
    try:
        pool.map(double, [1])
    except ValueError as error:
        print(error)
print(cpu_count() >= 1)

async def later(n):
    await asyncio.sleep(0.01)
    return n

async def main():
    loop = asyncio.get_running_loop()
    print(await asyncio.to_thread(double, 4), await loop.run_in_executor(None, double, 5))
    with ThreadPoolExecutor() as pool:
        print(await loop.run_in_executor(pool, double, 6))
        print(pool.submit(asyncio.run, later(7)).result())
    print(await asyncio.gather(*(asyncio.to_thread(double, n) for n in range(4)), return_exceptions=True))
    try:
        await asyncio.to_thread(asyncio.get_running_loop)
    except RuntimeError as error:
        print(error)
    async with asyncio.timeout(5):
        print(await later(8), asyncio.current_task() is not None)

asyncio.run(main())
for call in multiprocessing.Queue, multiprocessing.Manager, multiprocessing.Lock, lambda: multiprocessing.Process(target=print).start():
    try:
        call()
    except OSError as error:
        print(error)
try:
    threading.Thread(target=print).start()
except RuntimeError as error:
    print(error)
