import os

os.replace('source.txt', 'target.txt')
