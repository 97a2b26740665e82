import asyncio, inspect, selectors, signal, sys, traceback

Loop = asyncio.BaseEventLoop
for function in (
    traceback.walk_stack,
    traceback.StackSummary.format_frame_summary,
    inspect.getouterframes,
    Loop.run_in_executor,
    Loop.getaddrinfo,
    Loop.getnameinfo,
    signal.getsignal(signal.SIGINT),
):
    module = "signal" if function.__module__ == "_signal" else function.__module__
    print(f"{module}.{function.__qualname__}", inspect.signature(function))
    if not function.__doc__ and not function.__module__.startswith("asyncio"):
        print("has no documentation")
print(f"{selectors.DefaultSelector.__module__}.{selectors.DefaultSelector.__qualname__}")
print(selectors.DefaultSelector.__doc__)

ours = []
for name, module in list(sys.modules.items()):
    for key, value in list(vars(module).items()):
        inside = list(vars(value).items()) if isinstance(value, type) else []
        for at, each in [(key, value), *((f"{key}.{other}", item) for other, item in inside)]:
            if "glovebox" in str(getattr(each, "__module__", "")):
                ours.append(f"{name}.{at}")
for each in sys.path_hooks:
    if "glovebox" in each.__module__:
        ours.append(each)
print(ours)
