class D:
    def __del__(self):
        raise ValueError("late")


D()
print("on")
