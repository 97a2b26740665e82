import helper

print(helper.X)
