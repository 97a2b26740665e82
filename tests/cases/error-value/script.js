throw new Error('test error')
