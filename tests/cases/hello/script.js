console.log('Hello')
