name = input("name? ")
age = int(input())
print(name, "is", age + 1, "next")
print(input())
