x = 1
undefined_name
