import asyncio
import time


async def wait(n):
    await asyncio.sleep(n / 10)
    return n


async def main():
    began = time.monotonic()
    got = await asyncio.gather(wait(1), wait(2), wait(3))
    print(got, round(time.monotonic() - began, 1))


asyncio.run(main())
