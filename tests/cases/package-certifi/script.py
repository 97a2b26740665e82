import certifi

text = open(certifi.where()).read()
print(certifi.where(), text.count("BEGIN CERTIFICATE") > 100, certifi.contents() == text)
