with open('/app/output.json', 'w') as f:
    f.write('{"data": 1}')
