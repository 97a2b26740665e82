raise ValueError('test')
