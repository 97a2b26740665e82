import asyncio


async def producer(q):
    for i in range(3):
        await q.put(i)
    await q.put(None)


async def agen():
    for i in range(2):
        yield i
        await asyncio.sleep(0)


async def square(n):
    return n * n


async def main():
    q = asyncio.Queue(1)
    task = asyncio.create_task(producer(q))
    got = []
    while (item := await q.get()) is not None:
        got.append(item)
    await task
    print("queue", got)
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)
    except TimeoutError:
        print("timeout")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(square(n)) for n in (1, 2)]
    print("group", [t.result() for t in tasks])
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.001, done.set_result, "later")
    print(await done)
    print("agen", [i async for i in agen()])


asyncio.run(main())
