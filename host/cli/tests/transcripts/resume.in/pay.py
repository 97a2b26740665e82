print("before")
print("paid:", tools.pay(euros=20))
