try:
    tools.pay(euros=5)
except tools.ToolError as error:
    print(type(error).__name__, error)
