open('/app/output.txt', 'w').write('data')
kept = open('/app/left.txt', 'w')
kept.write("held open")
