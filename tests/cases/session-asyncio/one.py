import asyncio


async def main():
    await asyncio.sleep(0.001)
    print(1)


asyncio.run(main())
