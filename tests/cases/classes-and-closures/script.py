class Animal:
    def __init__(self, name):
        self.name = name

    def speak(self):
        return f"{self.name} says {self.sound}"


class Dog(Animal):
    sound = "woof"


def counter():
    n = 0

    def step():
        nonlocal n
        n += 1
        return n

    return step


print(Dog("Rex").speak())
c = counter()
print(c(), c(), c())
