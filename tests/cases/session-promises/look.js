console.log(state);
