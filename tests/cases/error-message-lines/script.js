throw new Error('eins\n"zwei"\tü 😀')
