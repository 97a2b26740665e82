raise RuntimeError('eins\n"zwei"\tü 😀')
