import os

os.remove('input.txt')
os.unlink('/app/dir/inner.txt')
