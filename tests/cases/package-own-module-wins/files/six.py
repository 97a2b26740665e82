NAME = "mine"
