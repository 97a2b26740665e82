with open('input.txt', 'w') as f:
    f.write('new')
