import charset_normalizer

text = "Der schnelle braune Fuchs springt über den faulen Hund. Größe, Maß, Öl."
for encoding in "utf_8", "utf_16", "utf_8_sig":
    best = charset_normalizer.from_bytes(text.encode(encoding)).best()
    print(encoding, str(best) == text)
