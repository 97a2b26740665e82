import helper

print(helper.VALUE, helper.name)
