console.error('error message')
