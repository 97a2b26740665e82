import asyncio

async def after(n):
    await asyncio.sleep(0)
    return n

async def fails():
    return 1 / 0

task = asyncio.create_task(after(3))
print(await asyncio.gather(after(1), after(2)))
print(await task)
await fails()
