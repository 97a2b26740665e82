with open('/app/input.txt', 'r+') as f:
    f.write('FIRST')
