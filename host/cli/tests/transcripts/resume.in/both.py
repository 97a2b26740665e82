import asyncio


async def main():
    print(await asyncio.gather(tools.pay.aio(euros=1), tools.pay.aio(euros=2)))


asyncio.run(main())
