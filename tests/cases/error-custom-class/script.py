class Custom(Exception):
    def __str__(self):
        return "code 7"


raise Custom
