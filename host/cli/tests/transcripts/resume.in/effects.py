tools.log(step=1)
print(tools.pay(euros=3))
tools.log(step=2)
print("done")
