import asyncio

print("waiting", flush=True)
asyncio.run(asyncio.sleep(60))
