console.log(new Date(0).getTimezoneOffset())
