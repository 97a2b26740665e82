import asyncio


async def say(n):
    print(n)


asyncio.run(say(1))
asyncio.run(say(2))
