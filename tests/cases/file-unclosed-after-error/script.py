kept = open('/app/left.txt', 'w')
kept.write("written before")
raise RuntimeError
