import idna

print(idna.encode("bücher.example"), idna.decode("xn--bcher-kva.example"))
try:
    idna.encode("a..b")
except idna.IDNAError as error:
    print(type(error).__name__, error)
