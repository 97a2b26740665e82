Array(1e9) + ''
