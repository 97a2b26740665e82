with open('/app/input.txt', 'a') as f:
    f.write('more')
