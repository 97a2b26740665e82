import asyncio


async def bad():
    await asyncio.sleep(0)
    raise ValueError("in task")


async def main():
    await asyncio.gather(bad(), asyncio.sleep(0.01))


asyncio.run(main())
