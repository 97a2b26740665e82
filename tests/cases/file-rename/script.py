import os

os.rename('input.txt', 'new.txt')
