import json, sys

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

print("Hello from Python", sys.version.split()[0], "on", sys.platform)
print(json.dumps({"fib": [fib(n) for n in range(10)]}))
